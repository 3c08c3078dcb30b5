package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// staleAfter is the age from which a status no longer counts as current: the agent produces one every second. While the
// agent hangs, its last status is repeated unchanged. Both sides of the socket use the node's clock. A status from the
// future was dated by another clock, or before the clock was set back; its age is not known.
const staleAfter = 5 * time.Second

// maxTold is the number of boots of one node that [FollowDeaths] remembers. Only a node that resets itself again and
// again has more deaths than that while one program runs.
const maxTold = 16

// The reasons why a death is not known to a program yet, so that waiting makes sense. [WaitFenced] passes them to its
// callback, and wraps the last one in its error when it gives up.
var (
	// ErrNoWord: there is no agent, it has been silent, or its status lists no nodes.
	ErrNoWord = errors.New("the agent does not answer, or names no nodes")
	// ErrStandsStill: the agent answers, but it has decided nothing for a while.
	ErrStandsStill = errors.New("the agent stands still: its status is old")
	// ErrNoQuorum: the agent's own node is without quorum, or is not fed. It may be the one that is about to be reset.
	ErrNoQuorum = errors.New("the agent's own node may be the one that is about to be reset: its statements about other nodes allow nothing")
	// ErrAnswers: the node runs.
	ErrAnswers = errors.New("the node answers")
	// ErrNotProven: the node is LEFT because it does not answer. It may be running, even if its agent was stopped.
	ErrNotProven = errors.New("the node does not answer, and may be running")
	// ErrOtherBoot: the agent knows another boot than the one that was asked for.
	ErrOtherBoot = errors.New("the agent knows only another boot of the node")
	// ErrNoProof: the status calls the node fenced without the proof or the boot. The agent is of an older version, or
	// has never met the node.
	ErrNoProof = errors.New("the agent calls the node fenced, but does not name the boot, or how its death is known")
)

// ErrOwnNode means that the node's own agent was asked. While that agent answers, the node is not dead.
var ErrOwnNode = errors.New("an agent proves nothing about its own node: ask the agent of another one")

// UnknownNodeError is for a node that is not, or is no longer, a member of the agent's group.
type UnknownNodeError struct {
	Node    string
	Members []string // sorted
}

func (e *UnknownNodeError) Error() string {
	return fmt.Sprintf("node %q is not a member of the group: the members are %s", e.Node, strings.Join(e.Members, ", "))
}

// ProvenDeath is a death that a program may act on: it may take over what that boot had.
type ProvenDeath struct {
	NodeDeath
	// Runs is the boot in which the node answers now: it may again own things that were given to it after its return.
	// Empty: the node does not answer.
	Runs string
}

// DeathNews is what [FollowDeaths] reports in one call; at least one of the two lists is not empty.
type DeathNews struct {
	// Proven lists deaths in the order of the agent's list.
	Proven []ProvenDeath
	// Withdrawn lists deaths that were reported as proven, and are contradicted. Stop whatever was started because of
	// such a death, and have a person look at it.
	Withdrawn []NodeDeath
}

// FollowDeaths follows the agent until ctx ends and calls use with each death that may be acted on at that moment, and
// with each one that turns out to be false. It implements the rules of docs/consumers.md:
//
//   - A death is reported once for each boot, whatever happens to the connection, the agent or the node. It is reported as
//     soon as a live agent, whose node has quorum and is fed, names proof and boot. Deaths known before the call come
//     first.
//   - None of these is reported: LEFT, an agent that was stopped, a forecast, a node that was never met.
//   - A reported death is withdrawn when that boot answers, or when the agent that reported it no longer does. It is not
//     withdrawn because an agent was restarted and has forgotten it. A withdrawal needs no quorum.
//   - A node that leaves the list of members is forgotten. If it is listed again, its known deaths are reported again.
//
// Calls come one at a time, from one goroutine. A slow callback misses a death if another boot of that node has died
// meanwhile. A program that stores nothing over its own restart gets all deaths again. FollowDeaths returns nil after
// ctx has ended and use has returned, and an error at once if cfg cannot work.
func FollowDeaths(ctx context.Context, cfg Config, use func(DeathNews)) error {
	if use == nil {
		return errors.New("follow deaths: no callback given")
	}
	book, before := toldBook{}, toldBook{}
	for _, d := range cfg.Told {
		before[d.Node] = append(before[d.Node], d)
	}
	return FollowStatus(ctx, cfg, func(u StatusUpdate) {
		if news := book.note(&u, time.Now(), before); len(news.Proven)+len(news.Withdrawn) > 0 {
			use(news)
		}
	})
}

// WaitFenced waits until a program may act on the death of a node, and returns that death. With a boot it waits for the
// death of exactly that boot, even if the node is back with another one. With an empty boot the node has to be fenced
// now: it does not answer, and its last known boot is dead. A boot has 16 hexadecimal digits.
//
// It follows the same rules as [FollowDeaths]. While it waits, it calls waiting, unless that is nil, with each status
// and the reason why the status is not enough: one of the errors from ErrNoWord to ErrNoProof. The function waiting
// must not block. The death may never come, so limit the wait by ctx. When ctx ends, WaitFenced returns an error that
// wraps the cause and the latest reason. It returns *[UnknownNodeError], [ErrOwnNode] and errors of cfg at once.
//
// The answer is true at that moment. A program that depends on it for longer should use [FollowDeaths], which also
// reports a withdrawal.
func WaitFenced(ctx context.Context, cfg Config, node, boot string, waiting func(StatusUpdate, error)) (ProvenDeath, error) {
	if boot != "" && !isBoot(boot) {
		return ProvenDeath{}, fmt.Errorf("wait for the death of %s: the boot is %q, but must be 16 hexadecimal digits in lower case, as in death.boot_nonce", node, boot)
	}
	follow, done := context.WithCancel(ctx)
	defer done()
	var death ProvenDeath
	why := ErrNoWord
	err := FollowStatus(follow, cfg, func(u StatusUpdate) {
		if follow.Err() != nil {
			return
		}
		death, why = judge(&u, node, boot, time.Now())
		if why == nil || errors.Is(why, ErrOwnNode) || errors.As(why, new(*UnknownNodeError)) {
			done()
		} else if waiting != nil {
			waiting(u, why)
		}
	})
	switch {
	case err != nil:
		return ProvenDeath{}, err
	case why == nil:
		return death, nil
	case errors.Is(why, ErrOwnNode) || errors.As(why, new(*UnknownNodeError)):
		return ProvenDeath{}, fmt.Errorf("wait for the death of %s: %w", node, why)
	}
	return ProvenDeath{}, fmt.Errorf("wait for the death of %s: %w: %w", node, context.Cause(ctx), why)
}

// isBoot reports whether s can be a boot_nonce. Waiting for any other text would never end.
func isBoot(s string) bool {
	return len(s) == 16 && strings.Trim(s, "0123456789abcdef") == ""
}

// usable returns nil if the update's statements about other nodes may be acted on.
//
// Invariant: it never returns nil for the status of an agent that is silent, stands still, or is itself about to be
// reset.
func usable(u *StatusUpdate, now time.Time) error {
	switch st := u.Status; {
	case !u.InForce || u.Err != nil:
		return ErrNoWord
	case st.GetTime() == nil || now.Sub(st.GetTime().AsTime()).Abs() > staleAfter:
		return ErrStandsStill
	}
	switch u.Status.GetVerdict().GetPermission() {
	case fencingv1.Permission_PERMISSION_UNSPECIFIED, fencingv1.Permission_PERMISSION_STARVE:
		return ErrNoQuorum
	}
	if !u.MayAct() {
		return ErrNoQuorum
	}
	return nil
}

// judge returns the death for which the caller waits, or the reason why it is not known.
func judge(u *StatusUpdate, node, boot string, now time.Time) (ProvenDeath, error) {
	why := usable(u, now)
	if nodes := u.Status.GetNodes(); len(nodes) > 0 && !errors.Is(why, ErrNoWord) && !errors.Is(why, ErrStandsStill) {
		i := slices.IndexFunc(nodes, func(n *fencingv1.NodeStatus) bool { return n.GetName() == node })
		switch {
		case i < 0:
			return ProvenDeath{}, unknownNode(node, nodes)
		case node == u.Status.GetSelf().GetName():
			return ProvenDeath{}, ErrOwnNode
		case why == nil && boot == "":
			return fencedNow(nodes[i])
		case why == nil:
			return deadBoot(nodes[i], boot)
		}
	}
	if why == nil { // an agent without a list knows no node
		why = ErrNoWord
	}
	return ProvenDeath{}, why
}

func unknownNode(node string, nodes []*fencingv1.NodeStatus) error {
	e := &UnknownNodeError{Node: node}
	for _, n := range nodes {
		e.Members = append(e.Members, n.GetName())
	}
	slices.Sort(e.Members)
	return e
}

// fencedNow returns the death of a node that is fenced at this moment. The death of an earlier boot does not count: the
// present boot may be running.
func fencedNow(n *fencingv1.NodeStatus) (ProvenDeath, error) {
	switch d, named := deathOf(n); {
	case n.GetReachable():
		return ProvenDeath{}, ErrAnswers
	case n.GetState() != fencingv1.NodeState_NODE_STATE_FENCED:
		return ProvenDeath{}, ErrNotProven
	case !named:
		return ProvenDeath{}, ErrNoProof
	default:
		return ProvenDeath{NodeDeath: d}, nil
	}
}

// deadBoot returns the death of one boot, whatever has happened to the node since.
func deadBoot(n *fencingv1.NodeStatus, boot string) (ProvenDeath, error) {
	d, named := deathOf(n)
	runs, last := "", lastBoot(n)
	if n.GetReachable() {
		runs = last
	}
	switch {
	case n.GetReachable() && (last == boot || last == ""):
		return ProvenDeath{}, ErrAnswers
	case named && d.Boot == boot && stands(n, d.Boot):
		return ProvenDeath{d, runs}, nil
	case !named && n.GetState() == fencingv1.NodeState_NODE_STATE_FENCED:
		return ProvenDeath{}, ErrNoProof
	case runs != "", n.GetState() == fencingv1.NodeState_NODE_STATE_FENCED, last != "" && last != boot:
		return ProvenDeath{}, ErrOtherBoot
	}
	return ProvenDeath{}, ErrNotProven
}

// lastBoot returns the boot that a node named when it was last met; "": it named none.
//
// Invariant: a token of zeros names no boot, so it is not another boot. An agent that has just started for the first
// time has no token yet, and its node's boot has not changed.
func lastBoot(n *fencingv1.NodeStatus) string {
	if boot := n.GetToken().GetBootNonce(); strings.Trim(boot, "0") != "" {
		return boot
	}
	return ""
}

// stands reports whether the death of a boot that a status names still holds: the node is FENCED, or another boot of it
// was met later.
//
// Invariant: a death that was contradicted never holds again, not even when the boot that contradicted it is lost
// again. Agents of an earlier version still name such a death.
func stands(n *fencingv1.NodeStatus, boot string) bool {
	last := lastBoot(n)
	return n.GetState() == fencingv1.NodeState_NODE_STATE_FENCED || last != "" && last != boot
}

// toldBook holds the deaths that were reported to a callback of FollowDeaths, by node, the oldest first.
type toldBook map[string][]NodeDeath

// note records an update, and returns what has to be reported. A death in the earlier book stays there until it is
// reported or withdrawn.
func (b toldBook) note(u *StatusUpdate, now time.Time, before toldBook) DeathNews {
	var news DeathNews
	for _, d := range u.Withdrawn {
		b.withdraw(&news, d.Node, d.Boot)
		before.withdraw(&news, d.Node, d.Boot)
	}
	may := usable(u, now) == nil
	listed := map[string]bool{}
	for _, n := range u.Status.GetNodes() {
		name := n.GetName()
		listed[name] = true
		if n.GetReachable() {
			b.withdraw(&news, name, lastBoot(n))
			before.withdraw(&news, name, lastBoot(n))
		}
		d, named := deathOf(n)
		if !may || !named || name == u.Status.GetSelf().GetName() || b.find(name, d.Boot) >= 0 {
			continue
		}
		if p, err := deadBoot(n, d.Boot); err == nil {
			news.Proven = append(news.Proven, p)
			before.withdraw(new(DeathNews), name, d.Boot)
			b[name] = append(b[name], d)
			b[name] = b[name][max(0, len(b[name])-maxTold):]
		}
	}
	for _, book := range []toldBook{b, before} {
		for name := range book {
			if len(listed) > 0 && !listed[name] { // its name may become another machine's
				delete(book, name)
			}
		}
	}
	return news
}

func (b toldBook) find(node, boot string) int {
	return slices.IndexFunc(b[node], func(d NodeDeath) bool { return d.Boot == boot })
}

// withdraw takes back what was reported about a boot. If the boot is not in the book, nothing was reported.
func (b toldBook) withdraw(news *DeathNews, node, boot string) {
	if i := b.find(node, boot); i >= 0 {
		news.Withdrawn = append(news.Withdrawn, b[node][i])
		b[node] = slices.Delete(b[node], i, i+1)
	}
}
