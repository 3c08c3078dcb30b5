package netns

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"testing"

	"github.com/hashicorp/memberlist"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/integration/lab"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/swim"
)

// roleMember makes this program a member of one gossip network and nothing else. It does not have the agent's knowledge
// of its interfaces.
const roleMember = "netns-member"

// memberConfig is the only argument of the role.
type memberConfig struct {
	Self    int
	Addrs   []netip.Addr
	Port    int
	Device  string // its sockets are bound to this device; "": memberlist's own transport
	Network string
}

// sighting is one line that a member prints. All processes use the same clock.
type sighting struct {
	Alive  *bool            // memberlist's new opinion of the peer
	SentAt boottime.Instant // when the probe that was answered was sent
	At     boottime.Instant
}

func memberMain(arg string) error {
	var c memberConfig
	if err := json.Unmarshal([]byte(arg), &c); err != nil {
		return err
	}
	var members []roster.Member
	for i, a := range c.Addrs {
		members = append(members, roster.Member{Name: memberName(i), Addresses: map[string]string{c.Network: a.String()}})
	}
	list, err := roster.New(0, members, memberName(c.Self))
	if err != nil {
		return err
	}
	said := &netgossip.Statement{Boot: uint64(c.Self) + 1, RosterDigest: list.Digest, View: roster.FullSet(len(members))}
	conf := swim.Config{
		Name: c.Network, Label: "netns/" + c.Network, Roster: list, BindAddr: c.Addrs[c.Self], Port: c.Port,
		Params: netgossip.Tune(len(members)), Device: c.Device, Clock: boottime.Now, Sink: &printer{out: json.NewEncoder(os.Stdout)},
		Statement: func() *netgossip.Statement { return said }, Logger: slog.Default(),
	}
	if c.Device == "" {
		conf.Transport = stockTransport
	}
	in, err := swim.New(conf)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	err = in.Start()
	if err == nil {
		<-ctx.Done()
	}
	return errors.Join(err, in.Stop(context.Background(), false))
}

func memberName(i int) string { return fmt.Sprintf("h%d", i+1) }

// stockTransport is memberlist's own transport, which a program gets if it names none.
func stockTransport(at netip.AddrPort) (memberlist.NodeAwareTransport, error) {
	return memberlist.NewNetTransport(&memberlist.NetTransportConfig{
		BindAddrs: []string{at.Addr().String()}, BindPort: int(at.Port()), Logger: log.New(io.Discard, "", 0),
	})
}

// printer is the Sink of a member.
type printer struct{ out *json.Encoder }

func (p *printer) MemberChanged(_, _ int, alive bool, at boottime.Instant) {
	// If the test is over, nobody reads this.
	_ = p.out.Encode(sighting{Alive: &alive, At: at})
}

func (p *printer) Answered(a netgossip.Answer) {
	_ = p.out.Encode(sighting{SentAt: a.SentAt, At: boottime.Now()})
}

func (p *printer) Heard(int, int, boottime.Instant) {}

func (p *printer) Conflict(int, string, string)            {}
func (p *printer) Vouched(int, boottime.Instant)           {}
func (p *printer) Missed(int, int, boottime.Instant, bool) {}
func (p *printer) Doubted(int)                             {}

// member is such a process, from the point of view of the process that started it.
type member struct {
	mu     sync.Mutex
	alive  bool             // whether the peer counts as alive
	deaths int              // how often the peer died
	died   boottime.Instant // when it last died
	anchor boottime.Instant // date of the latest evidence
}

// state returns a copy that does not change.
func (m *member) state() (s struct {
	alive        bool
	deaths       int
	died, anchor boottime.Instant
}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.alive, s.deaths, s.died, s.anchor = m.alive, m.deaths, m.died, m.anchor
	return s
}

func (m *member) see(s sighting) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.anchor = max(m.anchor, s.SentAt)
	if s.Alive != nil {
		m.alive = *s.Alive
		if !m.alive {
			m.deaths++
			m.died = s.At
		}
	}
}

// startMember starts a member inside a node. It ends with the lab.
func startMember(t *testing.T, l *lab.Lab, c memberConfig) *member {
	t.Helper()
	arg, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", roleMember, string(arg))
	cmd.Stdout = in
	p, err := l.StartProcess(memberName(c.Self), cmd)
	in.Close()
	if err != nil {
		out.Close()
		t.Fatal(err)
	}
	m := &member{}
	var reader sync.WaitGroup
	reader.Go(func() {
		defer out.Close()
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var s sighting
			if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
				t.Errorf("member %s printed %q", memberName(c.Self), lines.Text())
			}
			m.see(s)
		}
	})
	t.Cleanup(func() {
		_ = p.Kill()
		reader.Wait()
	})
	return m
}
