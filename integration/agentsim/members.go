package agentsim

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// lists holds the lists of members that were written into configuration files, by epoch, and which of them is in each
// machine's file. The world's mu guards them.
type lists struct {
	all     [][]int
	onFile  []int // by machine: the epoch of the list
	inForce int   // latest epoch that was reported to a subscriber as in force
}

// listed reports whether the file of a machine's agent lists the machine.
func (l *lists) listed(node int) bool { return slices.Contains(l.all[l.onFile[node]], node) }

// everywhere reports whether all lists so far contain a node: then a change of the lists must not affect it.
func (l *lists) everywhere(node int) bool {
	return !slices.ContainsFunc(l.all, func(list []int) bool { return !slices.Contains(list, node) })
}

// anyHas reports whether more than half of the members of some list are among the given nodes, or at least half if half
// is set.
func (l *lists) anyHas(among map[int]bool, half bool) bool {
	return slices.ContainsFunc(l.all, func(list []int) bool {
		n := l.share(list, func(i int) bool { return among[i] })
		return 2*n > len(list) || half && 2*n == len(list)
	})
}

// allHave reports whether a node is on all lists, and the given nodes are a majority of each.
func (l *lists) allHave(node int, among []int) bool {
	return l.everywhere(node) && !slices.ContainsFunc(l.all, func(list []int) bool {
		return 2*l.share(list, func(i int) bool { return slices.Contains(among, i) }) <= len(list)
	})
}

func (l *lists) share(list []int, has func(int) bool) (n int) {
	for _, i := range list {
		if has(i) {
			n++
		}
	}
	return n
}

// newMembers writes the next list into the files of some machines, and starts the agents of
// those that it adds.
func (w *world) newMembers(e Event) {
	w.mu.Lock()
	epoch := len(w.lists.all)
	w.lists.all = append(w.lists.all, e.Nodes)
	added := slices.DeleteFunc(slices.Clone(e.Nodes), func(i int) bool { return w.lists.listed(i) })
	for _, i := range slices.Concat(e.Parts[0], added) {
		w.lists.onFile[i] = epoch
	}
	w.mu.Unlock()
	for _, i := range slices.Concat(e.Parts[0], added) {
		w.writeConfig(i)
	}
	for _, i := range added {
		w.machines[i].powerOn()
		w.machines[i].startAgent()
	}
}

// kubeconfigName is the name of a file that nobody uses: process.probeAPI asks the API server.
const kubeconfigName = "kubeconfig"

const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: sim, cluster: {server: "http://127.0.0.1:9"}}]
contexts: [{name: sim, context: {cluster: sim, user: sim}}]
users: [{name: sim, user: {}}]
current-context: sim
`

// writeFiles writes what the machines find on their disks when they boot for the first time.
func (w *world) writeFiles() {
	if err := os.WriteFile(filepath.Join(w.dir, kubeconfigName), []byte(kubeconfig), 0o600); err != nil {
		panic("agentsim: " + err.Error()) // as in writeConfig
	}
	for _, i := range w.s.members() {
		w.writeConfig(i)
	}
}

func (w *world) writeConfig(node int) {
	w.mu.Lock()
	epoch := w.lists.onFile[node]
	list := w.lists.all[epoch]
	breaks := asAll
	if len(w.machines) > 0 {
		breaks = w.machines[node].breaks
	}
	w.mu.Unlock()
	path := w.configPath(node)
	err := os.WriteFile(path+".new", []byte(w.s.yaml(node, w.dir, epoch, list, breaks)), 0o600)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		// No property can be judged without a configuration.
		panic("agentsim: configuration of " + nodeName(node) + ": " + err.Error())
	}
}

func (w *world) configPath(node int) string { return filepath.Join(w.dir, nodeName(node)+".yaml") }

// inForce records which list of members is in force for the subscriber of an agent.
func (w *world) inForce(p *process, st *fencingv1.RosterStatus) {
	w.mu.Lock()
	epoch := int(st.GetEpoch())
	news := st.GetChange() == "" && epoch > p.listEpoch
	if news {
		p.listEpoch = epoch
		w.lists.inForce = max(w.lists.inForce, epoch)
	}
	w.mu.Unlock()
	if news {
		w.note(p.m.name, fmt.Sprintf("tells subscribers: the list of epoch %d is in force", epoch))
	}
}

// changeMembers adds, to a third of the schedules, machines that are not members at first, and changes of the list: one
// node more, one less, or one replaced. The files of all machines change at once, or only those of some.
func (s *Schedule) changeMembers(rng *rand.Rand) {
	if rng.IntN(3) > 0 || s.Nodes < 3 {
		return
	}
	p := rng.Perm(s.Nodes)
	list := slices.Clone(p[:s.Nodes-rng.IntN(min(3, s.Nodes-1))])
	slices.Sort(list)
	s.Members = slices.Clone(list)
	for range 1 + rng.IntN(2) {
		how := rng.IntN(3)
		if how != 0 && len(list) > 2 {
			i := rng.IntN(len(list))
			list = slices.Delete(slices.Clone(list), i, i+1)
		}
		spare := slices.DeleteFunc(rng.Perm(s.Nodes), func(i int) bool { return slices.Contains(list, i) })
		if how != 1 && len(spare) > 0 {
			list = append(slices.Clone(list), spare[0])
		}
		told := s.everybody()
		if rng.IntN(3) == 0 {
			told = rng.Perm(s.Nodes)[:1+rng.IntN(s.Nodes-1)]
		}
		at := 12*time.Second + time.Duration(rng.Int64N(int64(s.End-27*time.Second)))
		e := Event{At: at, Kind: NewMembers, Nodes: slices.Clone(list), Parts: [][]int{told}}
		i, _ := slices.BinarySearchFunc(s.Events, at, func(e Event, at time.Duration) int { return int(e.At - at) })
		s.Events = slices.Insert(s.Events, i, e)
	}
}
