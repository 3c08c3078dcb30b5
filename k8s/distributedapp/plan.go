package distributedapp

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Facts is all that Plan looks at: the app and its pods as they were read from the API server, the app first.
type Facts struct {
	Now  time.Time
	Self string
	App  App
	Pods []Pod // of the namespace

	Config  Config    // the latest that this replica has read
	Members []string  // replicas that it knows of
	Changed time.Time // when that list last changed
	Stable  time.Duration
}

// Step is what comes next for an app: a write, a look at the configuration, a wait, or nothing.
type Step struct {
	Write      *Write
	ReadConfig bool      // this replica has read none, or somebody a newer one
	Until      time.Time // not before; zero: until an event
}

// stableLimit is how often Stable a deletion waits for replicas that come and go.
const stableLimit = 6

// Plan returns what comes next.
func Plan(f Facts) Step {
	mine := ours(f.App.UID, f.Pods)
	switch {
	case !f.App.DeletedAt.IsZero():
		return f.collect(mine)
	case f.Config.Version == 0 || f.App.Status.Config.Version > f.Config.Version: // D4
		return Step{ReadConfig: true, Until: f.Now.Add(time.Second)}
	case !f.App.Finalizer: // D2: before the first pod
		return f.write(Write{Kind: AddFinalizer})
	}
	if w := f.adjust(mine); w != nil {
		return f.write(*w)
	}
	if s := f.App.Status; s.Observed != f.App.Generation || s.Config != f.Config {
		return f.write(Write{Kind: WriteStatus, Status: Status{
			ReconciledByPod: f.Self, LastReconcileTime: f.Now, ActivePods: slices.Clone(f.Members), Observed: f.App.Generation, Config: f.Config,
		}})
	}
	return Step{}
}

// write fills in what the write rests on (D1).
func (f *Facts) write(w Write) Step {
	w.App = f.App.Key
	if w.Pod == "" {
		w.UID, w.Version = f.App.UID, f.App.Version
	}
	return Step{Write: &w}
}

// collect ends an app that is being deleted: its pods first, then the finalizer.
func (f *Facts) collect(mine []Pod) Step {
	if !f.App.Finalizer {
		return Step{}
	}
	for _, p := range mine {
		if !p.Terminating {
			return f.write(remove(p))
		}
	}
	if len(mine) > 0 { // D2: an event comes when they are gone
		return Step{Until: f.Now.Add(time.Second)}
	}
	// While replicas come and go another one may just be making a pod, by what it read before the deletion. Its write
	// rests on nothing that this deletion changes. Kubernetes removes such a pod, whose owner is gone; to wait is cheaper.
	if calm := f.Changed.Add(f.Stable); f.Now.Before(calm) && f.Now.Before(f.App.DeletedAt.Add(stableLimit*f.Stable)) {
		return Step{Until: calm}
	}
	return f.write(Write{Kind: RemoveFinalizer})
}

// adjust returns the write that brings the pods nearer to what is asked for; nil: they are.
func (f *Facts) adjust(mine []Pod) *Write {
	var live []Pod
	for _, p := range mine {
		switch {
		case p.Terminating:
		case p.Failed:
			w := remove(p)
			return &w
		default:
			live = append(live, p)
		}
	}
	if len(live) > f.App.Replicas {
		slices.SortFunc(live, func(a, b Pod) int { return ordinal(f.App.Name, b.Name) - ordinal(f.App.Name, a.Name) })
		w := remove(live[0])
		return &w
	}
	if len(live) == f.App.Replicas {
		return nil
	}
	for i := 0; ; i++ {
		name := f.App.Name + "-" + strconv.Itoa(i)
		if !slices.ContainsFunc(f.Pods, func(p Pod) bool { return p.Name == name }) { // somebody else's, or one that still ends
			return &Write{Kind: CreatePod, Pod: name, Owner: f.App.UID}
		}
	}
}

func remove(p Pod) Write { return Write{Kind: DeletePod, Pod: p.Name, UID: p.UID, Version: p.Version} }

// ours are the pods of an app (D3), in the order of their names.
func ours(uid string, pods []Pod) (out []Pod) {
	for _, p := range pods {
		if p.Owner == uid {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b Pod) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// ordinal is that of a pod's name; one that has none counts as the youngest.
func ordinal(app, pod string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(pod, app+"-"))
	if err != nil {
		return 1 << 30
	}
	return n
}
