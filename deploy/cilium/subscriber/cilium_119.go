//go:build cilium119

package subscriber

import "github.com/cilium/cilium/pkg/loadbalancer/writer"

func defaultSelection(w *writer.Writer) selectFunc { return w.DefaultSelectBackends }

func setSelection(w *writer.Writer, choose selectFunc) { w.SetSelectBackendsFunc(choose) }
