package distributedapp

import (
	"fmt"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/ownership"
)

// until lets time pass until something is so, and returns how long that took.
func (w *world) until(what string, most time.Duration, is func() bool) time.Duration {
	w.t.Helper()
	began := w.now
	for !is() {
		if w.now.Sub(began) > most {
			w.t.Fatalf("not within %v: %s", most, what)
		}
		w.tick()
	}
	return w.now.Sub(began)
}

func (w *world) settled() bool {
	for _, a := range w.apps {
		live := 0
		for _, p := range w.pods {
			if p.Owner == a.UID && !p.Terminating {
				live++
			}
		}
		if live != a.Replicas || a.Status.Observed != a.Generation || a.Status.Config != w.config {
			return false
		}
	}
	return true
}

// owned begins with one app of so many pods that is as it should be, and returns the replica that is first for it.
func owned(t *testing.T, replicas, pods int) (*world, *App, *replica) {
	w := newWorld(t, 1, replicas)
	a := &App{Key: Key{"default", "web"}, UID: "u", Version: w.bump(), Generation: 1, Replicas: pods}
	w.apps[a.Key] = a
	w.disturb(a.Key)
	w.show(a.Key)
	w.until("the app is as it should be", patience, w.settled)
	for _, r := range w.replicas {
		if ownership.Rank(a.Key.String(), r.name, w.members(r)) == 0 {
			return w, a, r
		}
	}
	t.Fatal("nobody is first")
	return nil, nil, nil
}

// The replica that is first dies in the middle of an app's end, and stays listed: the next one goes on after its pause.
func TestOwnerDiesDuringCollection(t *testing.T) {
	for _, n := range []int{3, 5, 7} {
		w, a, first := owned(t, n, 5)
		w.erase(a)
		w.until("it has begun", patience, func() bool { return len(w.ends) >= 2 })
		first.dead = true // and is listed for ever: nobody needs to find out
		by := map[string]int{}
		for name, count := range w.taken {
			by[name] = count
		}
		took := w.until("another replica goes on", 10*time.Second, func() bool {
			for name, count := range w.taken {
				if name != first.name && count > by[name] {
					return true
				}
			}
			return false
		})
		end := w.until("the app is gone", patience, func() bool { return len(w.apps) == 0 && len(w.pods) == 0 })
		t.Logf("%d replicas: another one went on after %v, the app was gone %v later", n, took, end)
	}
}

// A change of the configuration reaches apps while one part of the replicas hears nothing of the other, and no API server.
func TestConfigurationDuringAPartition(t *testing.T) {
	w, a, first := owned(t, 5, 2)
	w.split = true
	for _, r := range w.replicas {
		r.cut = r.part == first.part
	}
	w.configure()
	w.until("the app is reconciled by the new configuration", patience, func() bool { return a.Status.Config == w.config })
	if a.Status.ReconciledByPod == first.name {
		t.Errorf("%s cannot have done that", first.name)
	}
	w.peace()
	w.until("all replicas have it", patience, func() bool {
		for _, r := range w.replicas {
			if r.core.Config() != w.config {
				return false
			}
		}
		return true
	})
}

// A replica that joins has the configuration by what the others tell it, though its own watch shows nothing.
func TestLateJoiner(t *testing.T) {
	w, _, _ := owned(t, 3, 1)
	w.configure()
	w.until("all is reconciled", patience, w.settled)
	w.join()
	late := w.replicas[3]
	late.core.Receive(w.replicas[0].core.State(w.now), w.now)
	w.until("it has read the configuration", time.Second, func() bool { return late.core.Config() == w.config })
}

// Messages that are repeated, forged or its own make a replica read, and write nothing.
func TestMessagesAreHints(t *testing.T) {
	c := New(Defaults("a"))
	c.Members([]string{"a"}, start)
	c.ConfigRead(Config{5, "five"}, start)
	done := App{Key: Key{"default", "web"}, UID: "u", Version: "1", Generation: 3, Finalizer: true, Status: Status{Observed: 3, Config: Config{5, "five"}}}
	c.Observe(done, start)
	c.Due(start.Add(time.Minute)) // and the replica has looked
	now := start.Add(2 * time.Minute)
	for name, m := range map[string]Message{
		"own":                        {Kind: Configure, Origin: "a", Config: Config{9, "nine"}},
		"old configuration":          {Kind: Configure, Origin: "b", Config: Config{4, "four"}},
		"same version, other digest": {Kind: Configure, Origin: "b", Config: Config{5, "forged"}},
		"repeated":                   {Kind: Reconcile, Origin: "b", Namespace: "default", Name: "web"},
		"of no known kind":           {Kind: "reboot", Origin: "b", Namespace: "default", Name: "web"},
	} {
		c.Receive(m, now)
		if w := c.Due(now); len(w.Due)+len(w.Reads)+len(w.Tell) > 0 || w.Config {
			t.Errorf("%s: %+v", name, w)
		}
	}
	c.Receive(Message{Kind: Configure, Origin: "b", Config: Config{6, "forged"}}, now)
	if w := c.Due(now); !w.Config || c.Config() != (Config{5, "five"}) {
		t.Errorf("a newer configuration is %+v by a message, and reads: %t", c.Config(), w.Config)
	}
	for i := range 10 * mostReads {
		c.Receive(Message{Kind: Reconcile, Origin: "b", Namespace: "default", Name: fmt.Sprint(i)}, now)
	}
	if w := c.Due(now); len(w.Reads) != mostReads {
		t.Errorf("strangers make it read %d apps at once", len(w.Reads))
	}
}

// Guard: a status that is written makes nothing due and is told to nobody (D6).
func TestStatusGoesNoFurther(t *testing.T) {
	c := New(Defaults("a"))
	c.Members([]string{"a"}, start)
	app := App{Key: Key{"default", "web"}, UID: "u", Version: "1", Generation: 1, Finalizer: true}
	c.Observe(app, start)
	if w := c.Due(start); len(w.Due) != 1 || len(w.Tell) != 1 {
		t.Fatalf("a new app: %+v", w)
	}
	app.Version, app.Status = "2", Status{Observed: 1, ReconciledByPod: "b"}
	c.Observe(app, start)
	if w := c.Due(start); len(w.Due)+len(w.Tell) > 0 {
		t.Errorf("a status: %+v", w)
	}
}

func TestPlan(t *testing.T) {
	base := Facts{Now: start.Add(time.Hour), Self: "a", Config: Config{2, "two"}, Members: []string{"a"}, Changed: start, Stable: 20 * time.Second,
		App: App{Key: Key{"d", "web"}, UID: "u", Version: "7", Generation: 4, Finalizer: true, Replicas: 2, Status: Status{Observed: 4, Config: Config{2, "two"}}}}
	pod := func(n int, owner string) Pod {
		return Pod{Name: fmt.Sprintf("web-%d", n), UID: fmt.Sprintf("p%d", n), Version: "3", Owner: owner}
	}
	base.Pods = []Pod{pod(0, "u"), pod(1, "u")}
	for name, c := range map[string]struct {
		change func(f *Facts)
		kind   WriteKind
		pod    string
		wait   bool
	}{
		"all is well":                     {func(*Facts) {}, "", "", false},
		"no finalizer":                    {func(f *Facts) { f.App.Finalizer = false }, AddFinalizer, "", false},
		"one is missing":                  {func(f *Facts) { f.Pods = f.Pods[1:] }, CreatePod, "web-0", false},
		"somebody else's has the name":    {func(f *Facts) { f.Pods = []Pod{pod(0, ""), pod(1, "u")} }, CreatePod, "web-2", false},
		"one ends":                        {func(f *Facts) { f.Pods[0].Terminating = true }, CreatePod, "web-2", false},
		"one has failed":                  {func(f *Facts) { f.Pods[1].Failed = true }, DeletePod, "web-1", false},
		"one too many, newest first":      {func(f *Facts) { f.Pods = append(f.Pods, pod(10, "u"), pod(9, "u")) }, DeletePod, "web-10", false},
		"another generation":              {func(f *Facts) { f.App.Generation = 5 }, WriteStatus, "", false},
		"a newer configuration":           {func(f *Facts) { f.Config = Config{3, "three"} }, WriteStatus, "", false},
		"this replica is behind":          {func(f *Facts) { f.Config = Config{1, "one"} }, "", "", true},
		"deleted, pods there":             {func(f *Facts) { f.App.DeletedAt = f.Now }, DeletePod, "web-0", false},
		"deleted, pods end":               {func(f *Facts) { f.App.DeletedAt, f.Pods[0].Terminating, f.Pods[1].Terminating = f.Now, true, true }, "", "", true},
		"deleted, pods of others":         {func(f *Facts) { f.App.DeletedAt, f.Pods = f.Now, []Pod{pod(0, "")} }, RemoveFinalizer, "", false},
		"deleted, replicas come and go":   {func(f *Facts) { f.App.DeletedAt, f.Pods, f.Changed = f.Now, nil, f.Now }, "", "", true},
		"deleted, they do so for minutes": {func(f *Facts) { f.App.DeletedAt, f.Pods, f.Changed = f.Now.Add(-2*time.Minute), nil, f.Now }, RemoveFinalizer, "", false},
		"deleted, and not ours":           {func(f *Facts) { f.App.DeletedAt, f.App.Finalizer = f.Now, false }, "", "", false},
	} {
		f := base
		f.Pods = append([]Pod(nil), base.Pods...)
		c.change(&f)
		s := Plan(f)
		w := s.Write
		if w == nil {
			w = &Write{}
		}
		if w.Kind != c.kind || w.Pod != c.pod || c.wait == s.Until.IsZero() {
			t.Errorf("%s: %+v, %+v", name, s, w)
		}
		if w.Kind != "" && w.Kind != CreatePod && (w.UID == "" || w.Version == "") {
			t.Errorf("%s: no precondition: %+v", name, w)
		}
	}
}

// A write that was refused, or of which nobody heard, is tried again soon, and more and more rarely.
func TestFailuresAreTriedAgain(t *testing.T) {
	for _, o := range []Outcome{Conflict, Failed} {
		s := Defaults("a")
		s.Lag = time.Hour // which would look in between
		c, now := New(s), start
		c.Members([]string{"a"}, now)
		app := App{Key: Key{"default", "web"}, UID: "u", Version: "1", Generation: 1}
		c.Observe(app, now)
		now = now.Add(time.Minute) // the list of replicas is an old one
		c.Due(now)
		last := time.Duration(0)
		for range 10 {
			c.Finished(app.Key, o, time.Time{}, now)
			pause := time.Duration(0)
			for len(c.Due(now.Add(pause)).Due) == 0 {
				if pause += 100 * time.Millisecond; pause > 7*time.Second {
					t.Fatalf("outcome %d: nobody tries again for %v", o, pause)
				}
			}
			if pause < last || pause == 0 {
				t.Errorf("outcome %d: again after %v, before that %v", o, pause, last)
			}
			last, now = pause, now.Add(pause)
		}
		if c.Finished(app.Key, Wrote, time.Time{}, now); len(c.Due(now).Due) != 1 {
			t.Error("what was written is not looked at again")
		}
	}
}
