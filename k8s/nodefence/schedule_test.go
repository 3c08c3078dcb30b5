package nodefence

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/fenceconfig"
	"github.com/fencing-agent/fencing-agent/k8s/kdump"
	"github.com/fencing-agent/fencing-agent/k8s/storm"
)

var (
	runs     = flag.Int("runs", 200, "random schedules")
	firstOne = flag.Uint64("seed", 1, "the first of them")
)

// world is the machine, its devices and the API server. Its counts are the oracle: it does not know the package's
// rules, only what happened to the machine.
type world struct {
	t       *testing.T
	rng     *rand.Rand
	now     time.Time
	version int
	seed    uint64

	object *Object // in the API server
	jobs   []*worldJob
	config *fenceconfig.Config

	// the machine
	supply   map[string]bool // by plug
	boot     int
	up       bool // it has power and runs a boot
	storage  bool
	lands    time.Time       // until then writes that the storage had accepted before it was cut off may land
	isolated map[string]bool // boots from which it was cut off
	doubts   doubts
	takers   []taker
	taken    int
	readyAt  time.Time // when the kubelet of this boot is Ready, if nothing happens
	cutUntil time.Time // the kubelet does not reach the API server
	renewed  time.Time // when its Lease was last renewed
	dumped   time.Time // the start of its crash kernel's dump, which ends at dumpEnds; no end: there is no dump
	dumpEnds time.Time
	crashes  int // how often a controller has heard of a crash
	node     Node

	executed map[string]int // by the name of the Job
	lastTry  map[string]int // of NodeFence and step: the latest try of which a Job has switched on
	fenced   int            // NodeFences that ended
	switched int
	down     time.Time // devices answer nothing until then
	calm     bool
}

// worldJob is a Job, and the executor that may run it.
type worldJob struct {
	Job
	method  fenceconfig.Method
	role    Role
	step    Step
	try     int
	owner   string
	fenced  string // boot that its NodeFence is about
	strikes time.Time
	ends    time.Time
	struck  bool
	ok      bool
	lost    bool // nobody hears how it ends
}

func bootName(n int) string { return fmt.Sprintf("%016x", n) }

func newWorld(t *testing.T, seed uint64, c *fenceconfig.Config) *world {
	return &world{
		t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 18)), now: start, config: c, supply: map[string]bool{"1": true, "2": true}, boot: 1, up: true,
		storage: true, readyAt: start, executed: map[string]int{}, lastTry: map[string]int{}, isolated: map[string]bool{},
		doubts: doubts{falsely: map[string]time.Time{}, heard: map[string]time.Time{}},
		node:   Node{Exists: true, UID: "u4", Boot: bootName(1), Ready: true, Heartbeat: "0"},
	}
}

func (w *world) chance(p float64) bool { return w.rng.Float64() < p }

func (w *world) bad(format string, args ...any) {
	w.t.Errorf("seed %d, %v: %s", w.seed, w.now.Sub(start), fmt.Sprintf(format, args...))
}

// tick advances the time by a tenth of a second.
func (w *world) tick() {
	w.now = w.now.Add(100 * time.Millisecond)
	if !w.calm {
		switch {
		case w.chance(0.0005):
			w.cutUntil = w.now.Add(time.Duration(w.rng.IntN(900)) * time.Second)
		case w.chance(0.0003) && w.up: // it crashes, and starts again or not
			w.crash()
			switch p := w.rng.Float64(); {
			case p < 0.3: // it writes a dump, and starts again
				w.dumped, w.dumpEnds = w.now, w.now.Add(time.Duration(w.rng.IntN(400))*time.Second)
			default:
				w.start()
				w.up = p < 0.7
			}
		case w.chance(0.0005):
			w.down = w.now.Add(time.Duration(w.rng.IntN(400)) * time.Second)
		}
	}
	if !w.dumpEnds.IsZero() && w.now.After(w.dumpEnds) {
		w.start()
	}
	w.kubelet()
	w.agents()
	w.take()
	for _, j := range w.jobs {
		w.execute(j)
	}
}

func (w *world) crash() { w.up, w.dumpEnds = false, time.Time{} }

// heard returns what a controller may have heard of the crash kernel.
func (w *world) heard() kdump.Verdict {
	if w.dumpEnds.IsZero() || w.node.Ready || w.chance(0.3) {
		return kdump.Verdict{}
	}
	c := kdump.Verdict{Last: w.now}
	if w.now.Sub(w.dumped) > 10*time.Second {
		c.Boot, w.crashes = w.node.Boot, w.crashes+1
	}
	return c
}

func (w *world) start() {
	w.dumpEnds = time.Time{}
	w.boot++
	w.up, w.readyAt = true, w.now.Add(time.Duration(15+w.rng.IntN(60))*time.Second)
}

// kubelet writes the Node; kube-controller-manager notices when it does not.
func (w *world) kubelet() {
	speaks := w.up && !w.now.Before(w.readyAt) && !w.now.Before(w.cutUntil)
	if speaks {
		w.renewed = w.now
	}
	w.node.Silent = w.now.Sub(w.renewed) > 40*time.Second
	switch {
	case speaks && w.node.Boot == bootName(w.boot) && w.now.Before(w.doubts.mute): // it renews its Lease, and writes nothing else
	case speaks && (!w.node.Ready || w.node.Boot != bootName(w.boot)):
		if w.node.Boot != bootName(w.boot) {
			w.node.Fenced, w.node.Disputed = "", ""
		}
		w.node.Ready, w.node.Boot, w.node.Heartbeat = true, bootName(w.boot), w.now.String()
	case !speaks && w.node.Ready && w.chance(0.01): // some 10 s
		w.node.Ready, w.node.NotReadySince = false, w.now
	}
}

// execute acts as the executor of one Job: it acts once, within its time by a clock that is a little wrong, and may
// report its result or not.
func (w *world) execute(j *worldJob) {
	if j.Suspended || j.Finished {
		return
	}
	if j.strikes.IsZero() {
		w.executed[j.Name]++
		if w.executed[j.Name] > 1 {
			w.bad("%s runs twice", j.Name)
		}
		left := int(j.NotAfter.Sub(w.now)/time.Second) + 10
		j.strikes = w.now.Add(time.Duration(w.rng.IntN(5)) * time.Second)
		if !w.calm && w.chance(0.2) {
			j.strikes = w.now.Add(time.Duration(w.rng.IntN(max(1, left))) * time.Second)
		}
		j.lost = !w.calm && w.chance(0.15)
		j.ends = j.strikes.Add(time.Duration(w.rng.IntN(3)) * time.Second)
	}
	w.strike(j)
	if w.now.After(j.ends) && !j.lost {
		j.Finished, j.Reported, j.Succeeded, j.Off, j.Node = true, true, j.ok, j.ok, fmt.Sprint("n", w.rng.IntN(3))
	}
	if j.lost && w.now.After(j.NotAfter) {
		j.Finished, j.Reported, j.Succeeded = true, false, false
	}
}

// strike lets the executor ask the device.
func (w *world) strike(j *worldJob) {
	if j.struck || w.now.Before(j.strikes) || w.now.After(j.NotAfter.Add(10*time.Second)) {
		return
	}
	j.struck = true
	if w.now.Before(w.down) {
		return
	}
	plug := ""
	for _, o := range j.method.Options {
		if o.Key == "plug" {
			plug = o.Value
		}
	}
	switch {
	case j.role == Plan:
		j.ok = true
	case j.method.Agent != "fence_apc_snmp":
		on := j.method.Action == "on"
		if w.storage && !on {
			w.lands = w.now.Add(time.Duration(w.rng.IntN(20000)) * time.Millisecond)
		}
		// The reset ends when nothing is under way any more.
		if j.method.Storage.Reset && j.ends.Before(w.lands) {
			j.ends = w.lands
		}
		j.Barrier = j.method.Storage.Reset
		if !on {
			w.isolated[j.fenced] = true
		}
		// The boot of this NodeFence does not matter: an earlier NodeFence may have cut off an earlier boot, and have
		// given up.
		if on && !w.storage && w.up && w.isolated[bootName(w.boot)] && !w.allowed(j, bootName(w.boot)) {
			w.bad("%s gives storage back to the boot that was cut off", j.Name)
		}
		w.storage, j.ok = on, true
	case j.role == Check || j.role == Again:
		if j.ok = !w.supply[plug] || w.lies(); j.ok && w.up && bootName(w.boot) == w.node.Boot {
			w.wrong()
		}
	default:
		w.power(j, plug)
	}
}

// power switches a supply.
func (w *world) power(j *worldJob, plug string) {
	had := w.supply["1"] || w.supply["2"]
	w.supply[plug], j.ok = j.method.Action == "on", true
	has := w.supply["1"] || w.supply["2"]
	try := fmt.Sprint(j.owner, j.step)
	if j.method.Action == "on" {
		w.lastTry[try] = j.try + 1
	} else if w.lastTry[try] > j.try {
		w.bad("%s is an off after an on of try %d", j.Name, w.lastTry[try])
	}
	if had && !has {
		w.switched++
		w.crash()
	} else if !had && has {
		w.start()
	}
}

// controller is one of two: what it has read, and what it is about to write. It may be killed at any moment.
type controller struct {
	ahead   time.Duration // how far its clock is ahead
	returns string        // as in desk
	since   time.Time
	stage   int
	facts   Facts
	act     Action
	until   time.Time
}

func (c *controller) turn(w *world) {
	switch c.stage {
	case 0:
		if w.now.Before(c.until) {
			return
		}
		c.facts = Facts{Now: w.now.Add(c.ahead), Config: w.config.Nodes["n4"], Cluster: w.config.Cluster, Policy: storm.Verdict{Allowed: true}}
		if w.object != nil {
			o := *w.object
			o.Status = o.Status.Clone()
			c.facts.Object = &o
			if text := o.Status.Returns(); text != "" {
				if text = o.UID + text; text != c.returns {
					c.returns, c.since = text, w.now
				}
				c.facts.Returning = w.now.Sub(c.since)
			}
		}
	case 1:
		for _, j := range w.jobs {
			if c.facts.Object != nil && j.owner == c.facts.Object.UID {
				c.facts.Jobs = append(c.facts.Jobs, j.Job)
			}
		}
	case 2:
		c.facts.Node, c.facts.Crash = w.node, w.heard()
		c.act = Decide(c.facts)
		if c.act.Kind == Wait {
			c.stage, c.until = 0, w.now.Add(2*time.Second)
			return
		}
	case 3:
		w.write(c.facts, c.act)
		c.stage = 0
		return
	}
	c.stage++
}

// write is the API server's part: if a precondition does not hold, nothing happens.
func (w *world) write(f Facts, a Action) {
	w.version++
	switch a.Kind {
	case Create:
		if w.object == nil {
			w.object = &Object{UID: fmt.Sprint("nf", w.version), Version: fmt.Sprint(w.version), Spec: a.Spec, Status: a.Status.Clone()}
		}
		return
	case CreateJob:
		for _, j := range w.jobs {
			if j.Name == a.Name {
				return
			}
		}
		w.jobs = append(w.jobs, &worldJob{
			Job:    Job{Name: a.Name, UID: fmt.Sprint("job", w.version), Version: "1", Suspended: true, NotAfter: a.NotAfter},
			method: a.Method, role: a.Role, step: f.Object.Status.Step, try: f.Object.Status.Retries, owner: f.Object.UID, fenced: f.Object.Status.Boot,
		})
		return
	case StartJob:
		for _, j := range w.jobs {
			if j.Name == a.Name && j.UID == a.UID {
				j.Suspended, j.Version = false, "2"
			}
		}
		return
	case DeleteJob:
		for i, j := range w.jobs {
			if j.UID == a.UID && j.Version == a.Version {
				w.jobs = append(w.jobs[:i:i], w.jobs[i+1:]...)
				w.orphan(j)
				return
			}
		}
		return
	}
	if w.object == nil || w.object.UID != a.UID || a.Kind != Delete && w.object.Version != a.Version {
		return
	}
	switch a.Kind {
	case Update:
		w.proof(a.Status)
		w.object.Status, w.object.Version = a.Status.Clone(), fmt.Sprint(w.version)
	case Delete:
		w.object.Deleting, w.object.Version = true, fmt.Sprint(w.version)
	case RemoveFinalizer:
		w.object = nil
		w.fenced++
	}
}

// orphan keeps a Job whose object is gone: an executor that has begun may continue on a node that is not reachable.
func (w *world) orphan(j *worldJob) {
	if !j.Suspended && !j.strikes.IsZero() && !j.struck && w.chance(0.7) {
		j.owner, j.lost = "orphan of "+j.owner, true
		j.Name += "-gone"
		w.executed[j.Name]++
		w.jobs = append(w.jobs, j)
	}
}

// proof compares a proof with what happened to the machine.
func (w *world) proof(s Status) {
	old := w.object.Status.Proof
	if s.Proof != nil && (old == nil || old.At != s.Proof.At) && w.up && bootName(w.boot) == s.Proof.Boot && w.doubts.falsely[s.Proof.Boot].IsZero() {
		w.bad("boot %s is called dead, and runs", s.Proof.Boot)
	}
}

// TestSchedules runs two controllers for one node. They are killed between any two steps, devices fail, and executors
// are lost. Then everything is calm, and the node has to return with its supplies and its storage.
func TestSchedules(t *testing.T) {
	const template, old = "fence-method-template-fc", "agent_name=fence_brocade\nip=192.0.2.2"
	kdump := []string{"fence-config-n4", "node_name=n4", "node_name=n4\nkdump=true"}
	configs := []*fenceconfig.Config{
		configure(t, append(kdump, template, old, old+"\nstorage_driver=san.example\nstorage_barrier=20")...),
		configure(t, append(kdump, template, old, "agent_name=fence_scsi\nkey=4\ndevices=/dev/sda\nhost_devices=yes\nstorage_driver=san.example\nstorage_barrier=lun-reset")...),
	}
	ended, switched, crashes, taken, all := 0, 0, 0, 0, doubts{}
	for seed := *firstOne; seed < *firstOne+uint64(*runs) && !t.Failed(); seed++ {
		w := newWorld(t, seed, configs[seed%2])
		var both [2]controller
		for i := range both {
			both[i].ahead = time.Duration(w.rng.IntN(5000)) * time.Millisecond
		}
		step := func() {
			w.tick()
			for i := range both {
				switch {
				case !w.calm && w.chance(0.01):
					both[i] = controller{ahead: both[i].ahead} // killed
				case !w.calm && both[i].stage > 0 && w.chance(0.002): // it pauses for a while, and continues with its old facts
					both[i].until = w.now.Add(time.Duration(w.rng.IntN(200)) * time.Second)
				case w.now.Before(both[i].until):
				case w.chance(0.5):
					both[i].turn(w)
				}
			}
		}
		for range 12000 { // 20 minutes
			step()
		}
		w.calm = true
		if !w.up && (w.supply["1"] || w.supply["2"]) && w.object == nil {
			w.start()
		}
		w.doubts.sees = false
		for i := range 30000 {
			if step(); w.object == nil && w.node.Ready && w.up {
				break
			}
			if i == 22000 && w.waits() || w.object != nil && w.object.Status.Phase == GivenUp { // a person comes
				w.person()
			}
		}
		if w.object != nil || !w.node.Ready || !w.supply["1"] || !w.supply["2"] || !w.storage {
			w.bad("it does not end: %+v, node %+v, supplies %v, storage %v", w.object, w.node, w.supply, w.storage)
		}
		ended += w.fenced
		switched += w.switched
		crashes += w.crashes
		taken += w.taken
		all.add(&w.doubts)
	}
	t.Logf("proofs by agents %d, boots heard after they were called dead %d, NodeFences deleted %d, 0.1 s in which agents saw the boot %d, persons %d",
		all.proofs, all.disputes, all.deletions, all.seen, all.persons)
	if *runs >= 100 && (all.proofs < *runs/2 || all.disputes < *runs/20 || all.deletions < *runs/10 || all.seen < *runs*10) {
		t.Errorf("too few proofs and disputes: %+v", all)
	}
	t.Logf("%d schedules: %d fencings ended, the machine lost its power %d times, crash kernels were heard %d times, volumes were taken %d times", *runs, ended, switched, crashes, taken)
	if *runs >= 100 && (ended < *runs/2 || switched < *runs/10 || crashes < *runs/10 || taken < *runs/2) {
		t.Errorf("too little happens: %d fencings, %d losses of power, volumes taken %d times", ended, switched, taken)
	}
}

// taker is a program that was told that no write of the node can reach its storage any more, and takes a volume a
// moment later.
type taker struct{ at time.Time }

// take lets a program ask from time to time, and act within 10 s. The oracle: no boot can write then, and nothing
// lands.
func (w *world) take() {
	if w.object != nil && w.chance(0.05) && w.object.Severed(w.node, "san.example", w.now) {
		w.takers = append(w.takers, taker{w.now.Add(time.Duration(w.rng.IntN(10000)) * time.Millisecond)})
		if w.object.Severed(w.node, "other.example", w.now) {
			w.bad("another storage is severed")
		}
	}
	rest := w.takers[:0]
	for _, t := range w.takers {
		switch {
		case w.now.Before(t.at):
			rest = append(rest, t)
		case w.storage:
			w.bad("a volume is taken while the node can write to it")
		case w.now.Before(w.lands):
			w.bad("a volume is taken %v before the last write lands", w.lands.Sub(w.now))
		default:
			w.taken++
		}
	}
	w.takers = rest
}

// person switches on what is off, and starts the machine again.
func (w *world) person() {
	w.supply["1"], w.supply["2"] = true, true
	w.crash()
	w.start()
	w.object = nil
	w.storage, w.takers = true, nil
	w.doubts.persons++
}
