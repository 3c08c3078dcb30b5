package nodelist

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/k8s/client"
	"github.com/fencing-agent/fencing-agent/k8s/ownnode"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

const (
	// pageSize limits the cost of one answer for the server and the agent.
	pageSize    = 250
	listTimeout = 30 * time.Second // of all pages
	// groupLists is the greatest number of lists that all nodes of a group together send in an interval: in larger
	// groups each node looks more rarely, and hears of changes from the others.
	groupLists = 50
	// secondLook is the time for which a list that removes members has to be shown, or one interval if that is shorter.
	secondLook = 30 * time.Second
	// spread is the time for each node of the group over which lists are spread, when all nodes have a reason to look
	// at the same moment.
	spread     = 100 * time.Millisecond
	mostSpread = time.Minute

	firstPause   = 2 * time.Second
	longestPause = 2 * time.Minute
	// A node without a list looks more often, because the first list requires that all nodes have seen the same; but
	// the pauses grow.
	youngPause        = 10 * time.Second
	youngLongestPause = 5 * time.Minute
)

// Config is what a [Source] needs. Logger and Rand may be nil.
type Config struct {
	Client   rest.Interface // of the core group
	Label    string         // key
	Group    string         // its value
	Networks []Network
	Interval time.Duration // between two looks, with a random part of up to a fifth; 0: only when asked to
	Logger   *slog.Logger
	Clock    boottime.Clock
	// Present returns the newest list that the node uses, empty if there is none yet, sorted by name. It must not
	// block.
	Present func() []roster.Member
	// OnList gets each list that was read exactly and is believed, and the time when its reading began. It is called
	// from Run's goroutine.
	OnList func(members []roster.Member, readAt boottime.Instant)
	// Rand spreads the requests of many nodes over time. It is used by Run's goroutine only.
	Rand *rand.Rand
}

// Source reads the members of a group from the API server.
type Source struct {
	cfg Config
	log *slog.Logger

	shown   []roster.Member // the last list that OnList got
	doubted string          // digest of a list that has to be read a second time
	since   time.Time       // when it was first seen
	said    string          // the problem that was logged last
}

// New returns a source that has asked nothing yet.
func New(c Config) (*Source, error) {
	if c.Client == nil || c.Label == "" || c.Group == "" || len(c.Networks) == 0 || c.Clock == nil || c.Present == nil || c.OnList == nil {
		return nil, errors.New("members from the API server: client, label, group, networks, clock and functions are mandatory")
	}
	s := &Source{cfg: c, log: c.Logger}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	return s, nil
}

// Read reads the nodes of the group once. If cached, the answer comes from an API server's cache, which may be old and
// costs the least. Otherwise it is exact.
func (s *Source) Read(ctx context.Context, cached bool) ([]Node, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	var nodes []Node
	next := ""
	for {
		page := &client.NodeList{}
		req := s.cfg.Client.Get().Resource("nodes").MaxRetries(0).
			Param("labelSelector", labels.Set{s.cfg.Label: s.cfg.Group}.String())
		switch {
		case cached:
			req = req.Param("resourceVersion", "0")
		case next != "":
			req = req.Param("limit", fmt.Sprint(pageSize)).Param("continue", next)
		default:
			req = req.Param("limit", fmt.Sprint(pageSize))
		}
		if err := req.Do(ctx).Into(page); err != nil {
			// This includes a page that was asked for too late (410): the next attempt begins again.
			return nil, fmt.Errorf("list the nodes of group %s: %w", s.cfg.Group, err)
		}
		for i := range page.Items {
			nodes = append(nodes, nodeOf(&page.Items[i]))
		}
		if next = page.Continue; next == "" {
			return nodes, nil
		}
	}
}

// nodeOf keeps the part of a Node that is needed.
func nodeOf(n *client.Node) Node {
	out := Node{Name: n.Name, Internal: ownnode.InternalAddresses(n)}
	for k, v := range n.Annotations {
		if strings.HasPrefix(k, AddressAnnotation) || k == ConfirmAnnotation {
			if out.Annotations == nil {
				out.Annotations = map[string]string{}
			}
			out.Annotations[k] = v
		}
	}
	return out
}

// Run looks at the Nodes until ctx ends: soon after the start, then once an interval, and soon after each value from
// the channel again, which means that another node uses a list that is not known here.
func (s *Source) Run(ctx context.Context, again <-chan struct{}) {
	backoff := client.Backoff{First: firstPause, Most: longestPause, Rand: s.cfg.Rand}
	asked := client.Backoff{First: firstPause, Most: longestPause, Rand: s.cfg.Rand}
	young := client.Backoff{First: youngPause, Most: youngLongestPause, Rand: s.cfg.Rand}
	pause := boottime.Jitter(s.cfg.Rand, s.spread())
	for {
		urgent := idle(ctx, pause, again)
		if ctx.Err() != nil {
			return
		}
		if urgent {
			// All nodes hear of it at the same moment, and again and again until the list has been seen: so the pauses
			// grow.
			if boottime.Wait(ctx, asked.Next(nil)+boottime.Jitter(s.cfg.Rand, s.spread())); ctx.Err() != nil {
				return
			}
		} else {
			asked.Reset()
		}
		soon, err := s.round(ctx, urgent)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			pause = backoff.Next(err)
			s.trouble("cannot ask the API server for Nodes; the known list of members stays in use", "error", err.Error(), pause)
		case soon > 0:
			backoff.Reset()
			pause = soon
		default:
			backoff.Reset()
			if pause = s.interval(); len(s.cfg.Present()) == 0 {
				pause = young.Next(nil)
			}
		}
	}
}

// idle waits until the next look is due, and reports whether another node has asked for it.
func idle(ctx context.Context, pause time.Duration, again <-chan struct{}) (urgent bool) {
	var due <-chan time.Time
	if pause > 0 {
		t := time.NewTimer(pause)
		defer t.Stop()
		due = t.C
	}
	select {
	case <-ctx.Done():
	case <-due:
	case <-again:
		return true
	}
	return false
}

func (s *Source) spread() time.Duration {
	return min(mostSpread, firstPause+time.Duration(len(s.cfg.Present()))*spread)
}

// interval returns the time to the next look. Zero is never.
func (s *Source) interval() time.Duration {
	d := s.cfg.Interval
	if n := len(s.cfg.Present()); n > groupLists {
		d = d * time.Duration(n) / groupLists
	}
	if d <= 0 {
		return 0
	}
	return d*4/5 + boottime.Jitter(s.cfg.Rand, d*2/5)
}

// round looks once. soon is when to look next, if that is earlier than the interval.
func (s *Source) round(ctx context.Context, urgent bool) (soon time.Duration, err error) {
	present := s.cfg.Present()
	if !urgent {
		nodes, err := s.Read(ctx, true)
		if err != nil {
			return 0, err
		}
		members, notes, err := Members(nodes, s.cfg.Networks, present)
		if err == nil && len(notes) == 0 && same(members, present) && (s.shown == nil || same(members, s.shown)) {
			s.doubted = ""
			s.settled(len(members))
			return 0, nil
		}
	}
	// A cached answer alone changes nothing: an old list would bring back removed members.
	readAt := s.cfg.Clock()
	nodes, err := s.Read(ctx, false)
	if err != nil {
		return 0, err
	}
	members, notes, err := Members(nodes, s.cfg.Networks, present)
	if err != nil {
		s.trouble("the Nodes of the group do not make a usable list of members; the known list stays in use", "problem", err.Error(), 0)
		return 0, nil
	}
	if soon := s.doubt(present, members, nodes); soon != 0 {
		return max(0, soon), nil
	}
	if len(notes) > 0 {
		s.trouble("addresses of members are missing", "problem", strings.Join(notes, "; "), 0)
	} else {
		s.settled(len(members))
	}
	s.shown = members
	s.cfg.OnList(members, readAt)
	return 0, nil
}

// settled notes that the trouble is over.
func (s *Source) settled(members int) {
	if s.said != "" {
		s.said = ""
		s.log.Info("the API server shows a usable list of members again", "members", members)
	}
}

// doubt reports whether a list must not be believed: 0: it is believed; positive: when to look again; negative: it is
// not believed, and the next look is at the usual interval.
func (s *Source) doubt(present, members []roster.Member, nodes []Node) time.Duration {
	var confirmed []string
	for i := range nodes {
		if d, ok := nodes[i].Annotations[ConfirmAnnotation]; ok {
			confirmed = append(confirmed, d)
		}
	}
	q := Judge(present, members, confirmed)
	if q == nil {
		s.doubted = ""
		return 0
	}
	if q.Again && q.Digest != "" {
		if s.doubted != q.Digest {
			s.doubted, s.since = q.Digest, time.Now()
			s.log.Info("a list of members that removes nodes has to be shown for a while", "problem", q.Text, "wait", s.patience())
			return s.patience()
		}
		if left := s.patience() - time.Since(s.since); left > 0 {
			return left
		}
		s.doubted = ""
		return 0
	}
	s.trouble("the list that the API server shows is not believed, and the known one stays in use; if it is right, annotate a Node of the group",
		"problem", q.Text+": "+ConfirmAnnotation+"="+q.Digest, 0)
	return -1
}

func (s *Source) patience() time.Duration {
	if s.cfg.Interval > 0 {
		return min(secondLook, s.cfg.Interval)
	}
	return secondLook
}

// trouble logs a problem once, until there is another one.
func (s *Source) trouble(msg, key, text string, retry time.Duration) {
	if s.said == msg+text {
		return
	}
	s.said = msg + text
	if retry > 0 {
		s.log.Warn(msg, key, text, "retry", retry)
		return
	}
	s.log.Warn(msg, key, text)
}

// same reports whether two sorted lists are equal.
func same(a, b []roster.Member) bool {
	return slices.EqualFunc(a, b, func(x, y roster.Member) bool {
		return x.Name == y.Name && maps.Equal(x.Addresses, y.Addresses)
	})
}
