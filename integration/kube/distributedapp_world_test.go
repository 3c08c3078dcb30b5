package kube

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fencing-agent/fencing-agent/k8s/ownership"
)

// shown is a DistributedApp as stored by the server.
type shown struct {
	Metadata struct {
		Name, DeletionTimestamp string
		Generation              int64
	}
	Spec   struct{ Replicas int }
	Status struct {
		ReconciledByPod, ConfigVersion string
		ObservedGeneration             int64
	}
}

func (w *appWorld) rest() rest.Interface { return w.admin.CoreV1().RESTClient() }

func (w *appWorld) path(name string) string {
	return strings.TrimSuffix(appPath+"/namespaces/"+w.space+"/distributedapps/"+name, "/")
}

func (w *appWorld) make(name string, pods int) {
	w.t.Helper()
	body := fmt.Sprintf(`{"apiVersion":"fencing-agent.io/v1alpha1","kind":"DistributedApp","metadata":{"name":%q},"spec":{"replicas":%d,"applicationImage":"registry.example.com/i:1"}}`, name, pods)
	if err := w.rest().Post().AbsPath(w.path("")).SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(w.t.Context()).Error(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *appWorld) erase(name string) {
	w.t.Helper()
	if err := w.rest().Delete().AbsPath(w.path(name)).Do(w.t.Context()).Error(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *appWorld) apps() (list struct{ Items []shown }) {
	w.t.Helper()
	text, err := w.rest().Get().AbsPath(w.path("")).DoRaw(w.t.Context())
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

// pods counts the pods of each app.
func (w *appWorld) pods() map[string]int {
	w.t.Helper()
	list, err := w.admin.CoreV1().Pods(w.space).List(w.t.Context(), meta.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	count := map[string]int{}
	for i := range list.Items {
		if o := meta.GetControllerOf(&list.Items[i]); o != nil {
			count[o.Name]++
		}
	}
	return count
}

// settled reports whether each app is in its desired state, and, if a version is given, by the configuration of that
// version.
func (w *appWorld) settled(version string) bool {
	pods := w.pods()
	for _, a := range w.apps().Items {
		if a.Metadata.DeletionTimestamp != "" || pods[a.Metadata.Name] != a.Spec.Replicas || a.Status.ObservedGeneration != a.Metadata.Generation {
			return false
		}
		if version != "" && a.Status.ConfigVersion != version {
			return false
		}
	}
	return true
}

// until waits for a condition, and fails if that takes longer than T.
func (w *appWorld) until(what string, holds func() bool) time.Duration {
	w.t.Helper()
	began := time.Now()
	await(w.t, what, holds)
	took := time.Since(began)
	if took > within {
		w.t.Errorf("%s: %v, want %v at most", what, took, within)
	}
	return took.Round(10 * time.Millisecond)
}

// first returns the replica that comes first for an app.
func (w *appWorld) first(app string) *operatorProcess {
	var names []string
	for _, r := range w.replicas {
		names = append(names, r.name)
	}
	i := slices.IndexFunc(names, func(n string) bool { return ownership.Rank(w.space+"/"+app, n, names) == 0 })
	return w.replicas[i]
}

// configure changes the operator's configuration and returns its version.
func (w *appWorld) configure(grace int) string {
	w.t.Helper()
	maps := w.admin.CoreV1().ConfigMaps(operatorSpace)
	m, err := maps.Get(w.t.Context(), operatorSpace, meta.GetOptions{})
	if err == nil {
		m.Data = map[string]string{"terminationGracePeriodSeconds": fmt.Sprint(grace)}
		m, err = maps.Update(w.t.Context(), m, meta.UpdateOptions{})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return m.ResourceVersion
}
