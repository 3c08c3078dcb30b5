package main

import (
	"context"
	"errors"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/deaths"
)

// reports are what agents have told fencing-controller of deaths, by their Nodes. It keeps that in ConfigMaps, where agents do not
// ask the API server and so write no annotations (docs/adr/0061). Those that can be read are returned with an error, too.
func (x *explainer) reports(ctx context.Context) (map[string]*deaths.Report, error) {
	var list struct {
		Items []struct {
			Metadata struct {
				Name   string
				Labels map[string]string
			}
			Data map[string]string
		}
	}
	if err := x.get(ctx, &list, "get", "configmaps", "--namespace", x.namespace, "-l", deaths.ReportLabel+"="+deaths.ReportValue, "-o", "json"); err != nil {
		return nil, err
	}
	var failed []error
	told := map[string]*deaths.Report{}
	for _, c := range list.Items {
		r, err := deaths.ReportIn(c.Metadata.Name, c.Metadata.Labels, c.Data)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		told[r.Node] = &r
	}
	return told, errors.Join(failed...)
}

// word is a death that a Node names.
type word struct {
	deaths.Death
	heard time.Time // when fencing-controller was told it; zero: it stands on the Node
	stale bool      // that is too long ago: it counts no longer
}

// wordsOf are the deaths that a Node names: by its annotation or, if that came later, by what its agent has told. garbled: the
// annotation cannot be read.
func wordsOf(annotation string, tells bool, told *deaths.Report, now time.Time) (list []word, garbled bool) {
	if told != nil && told.Over == deaths.Digest(annotation) {
		age := now.Sub(told.Heard)
		for _, d := range told.Deaths {
			list = append(list, word{d, told.Heard, age > deaths.Valid || age < -deaths.Valid})
		}
		return list, false
	}
	stand, err := deaths.Decode(annotation)
	for _, d := range stand {
		list = append(list, word{Death: d})
	}
	return list, tells && err != nil
}
