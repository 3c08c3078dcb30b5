package nodefence

import (
	"strings"
	"testing"
	"time"
)

const san = "san.example"

// storageDesk returns the desk of a node whose isolation cuts it off from a storage, with the barrier of its ConfigMap.
func storageDesk(t *testing.T, barrier string) *desk {
	template := "agent_name=fence_scsi\nkey=4\ndevices=/dev/sda\nhost_devices=yes\nstorage_driver=" + san + "\nstorage_barrier=" + barrier
	return newDesk(t, configure(t, "fence-method-template-fc", "agent_name=fence_brocade\nip=192.0.2.2", template))
}

func (d *desk) severed() bool { return d.f.Object.Severed(d.f.Node, san, d.f.Now) }

// barrier lets the executors of all Jobs that run report that they have reset the logical units.
func (d *desk) barrier() *desk {
	for i := range d.f.Jobs {
		d.f.Jobs[i].Barrier = true
	}
	return d
}

func TestTimeThatIsVouchedFor(t *testing.T) {
	d := storageDesk(t, "25").settle().through(good)
	d.is(Isolation, Done)
	if s := d.status().Storages; len(s) != 1 || s[0].Driver != san || s[0].Barrier != "25s" || d.severed() {
		t.Errorf("at once: %v, %+v", d.severed(), s)
	}
	if d.f.Now = start.Add(25 * time.Second); !d.severed() {
		t.Error("it is not severed after the time")
	}
	if d.f.Object.Severed(d.f.Node, "other.example", d.f.Now) || d.f.Object.Severed(d.f.Node, "", d.f.Now) {
		t.Error("another storage is severed")
	}
	if d.status().Proof != nil {
		t.Errorf("the boot has ended: %+v", d.status().Proof)
	}
}

func TestBarrierNeedsItsExecutorsWord(t *testing.T) {
	d := storageDesk(t, "lun-reset").settle().through(good)
	d.is(Isolation, Error)
	if d.severed() || !strings.Contains(d.status().Message, "reset each logical unit") {
		t.Errorf("%+v", d.status())
	}
	d = storageDesk(t, "lun-reset").settle()
	for range 4 {
		d.barrier().finish(good)
	}
	d.is(Isolation, Done)
	if !d.severed() {
		t.Errorf("%+v", d.status())
	}
}

// A storage counts as severed only until there is a sign that another boot may run, or that this one does.
func TestSeveredForOneSilentBoot(t *testing.T) {
	d := storageDesk(t, "1").settle().through(good)
	d.f.Now = start.Add(time.Minute)
	if !d.severed() {
		t.Fatal("it is not severed")
	}
	for name, change := range map[string]func(o *Object, n *Node){
		"another boot":      func(_ *Object, n *Node) { n.Boot = newBoot },
		"Ready":             func(_ *Object, n *Node) { n.Ready = true },
		"the Lease":         func(_ *Object, n *Node) { n.Silent = false },
		"another Node":      func(_ *Object, n *Node) { n.UID = "u5" },
		"no Node":           func(_ *Object, n *Node) { n.Exists = false },
		"it is deleted":     func(o *Object, _ *Node) { o.Deleting = true },
		"it is given back":  func(o *Object, _ *Node) { o.Status.Storages[0].Returned = start },
		"the time is ahead": func(o *Object, _ *Node) { o.Status.Storages[0].From = start.Add(time.Hour) },
	} {
		o, n := *d.f.Object, d.f.Node
		o.Status = o.Status.Clone()
		if change(&o, &n); o.Severed(n, san, d.f.Now) {
			t.Errorf("%s: it is severed", name)
		}
	}
}

// Nothing is switched on before all programs that rely on the severed storage have had time to finish.
func TestNothingIsSwitchedOnAtOnce(t *testing.T) {
	d := storageDesk(t, "1").settle().through(good)
	d.after(301*time.Second).through(good).is(Power, Running)
	if got := strings.Join(d.created, " "); strings.Contains(got, "-on") || d.severed() || d.status().Storages[0].Returned.IsZero() {
		t.Errorf("%s; %+v", got, d.status())
	}
	d.after(ReturnWait-time.Second).is(Power, Running)
	d.after(time.Second).through(good).is(Power, Done)
	if got := strings.Join(d.created, " "); !strings.HasSuffix(got, "again:b-off main:a-on main:b-on") {
		t.Errorf("what registers the node has to run on it: %s", got)
	}
	d.ready(newBoot).through(good).is(Recovery, Done)
	if got := strings.Join(d.created, " "); !strings.HasSuffix(got, "main:b-on main:fc-on") {
		t.Error(got)
	}
}

// Two paths to one storage: one that is open leaves the node writing.
func TestEachPathHasToBeCut(t *testing.T) {
	c := configure(t, "fence-method-template-fc", "ip=192.0.2.2", "ip=192.0.2.2\nstorage_driver="+san+"\nstorage_barrier=1")
	n := c.Nodes["n4"]
	m := n.Isolation[0]
	m.Name, m.Options = "second", nil
	m.Storage.Vouched = 5 * time.Second
	n.Isolation, n.IsolationPolicy = append(n.Isolation, m), "only one"
	d := newDesk(t, c).settle().through(good)
	d.is(Isolation, Done)
	if d.f.Now = start.Add(time.Hour); d.severed() {
		t.Errorf("one of two paths is enough: %+v", d.status())
	}
	d = newDesk(t, c).settle().through(func(m string) bool { return good(m) && m != "main:fc-off" })
	d.is(Isolation, Done)
	if d.f.Now = start.Add(time.Hour); d.severed() {
		t.Errorf("the other one of two paths is enough: %+v", d.status())
	}
	n.IsolationPolicy = "all"
	d = newDesk(t, c).settle().through(good)
	if d.f.Now = start.Add(time.Hour); !d.severed() || d.status().Storages[0].Barrier != "5s" {
		t.Errorf("%+v", d.status())
	}
}
