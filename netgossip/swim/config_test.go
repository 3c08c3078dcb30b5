package swim

import (
	"cmp"
	"io"
	"log"
	"log/slog"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/swim/wire"
)

type noSink struct{}

func (noSink) MemberChanged(int, int, bool, boottime.Instant) {}
func (noSink) Answered(netgossip.Answer)                      {}
func (noSink) Vouched(int, boottime.Instant)                  {}
func (noSink) Missed(int, int, boottime.Instant, bool)        {}
func (noSink) Doubted(int)                                    {}
func (noSink) Heard(int, int, boottime.Instant)               {}
func (noSink) Conflict(int, string, string)                   {}

func validConfig(t *testing.T) Config {
	t.Helper()
	r, err := roster.New(1, []roster.Member{
		{Name: "n1", Addresses: map[string]string{"mgmt": "10.0.0.1"}},
		{Name: "n2", Addresses: map[string]string{"mgmt": "10.0.0.2"}},
		{Name: "n3", Addresses: map[string]string{"data": "10.1.0.3"}},
		{Name: "n4", Addresses: map[string]string{"mgmt": "fd00::4"}},
	}, "n1")
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		Name: "mgmt", Label: "c/g/mgmt", Roster: r, BindAddr: netip.MustParseAddr("10.0.0.1"), Port: 7946,
		Params: netgossip.Tune(4), Clock: boottime.Now, Sink: noSink{},
		Statement: func() *netgossip.Statement { return nil }, Logger: slog.New(slog.DiscardHandler),
	}
}

// Every parameter that memberlist knows by the same name must be passed on. The others are our own, and listed here, so
// that a new one is not forgotten.
func TestParamsReachMemberlist(t *testing.T) {
	cfg := validConfig(t)
	theirs := map[string]string{"GossipPacketSize": "UDPBufferSize"}
	own := map[string]bool{"RejoinInterval": true, "EvidenceInterval": true, "EvidenceTimeout": true, "EvidenceMaxAge": true}
	params := reflect.ValueOf(&cfg.Params).Elem()
	for i := range params.NumField() {
		params.Field(i).SetInt(int64(1001 + i)) // distinct, and not a default of any field
	}
	got := reflect.ValueOf(*cfg.memberlist(nil, log.New(io.Discard, "", 0)))
	for i := range params.NumField() {
		name := params.Type().Field(i).Name
		f := got.FieldByName(cmp.Or(theirs[name], name))
		if own[name] {
			if f.IsValid() {
				t.Errorf("%s is a parameter of memberlist", name)
			}
			continue
		}
		if !f.IsValid() || f.Int() != int64(1001+i) {
			t.Errorf("%s does not reach memberlist", name)
		}
	}
}

// Guard: memberlist never sends a piece of news that does not fit, so the longest names and
// the longest label must leave room for one. A suspicion has two names and 28 bytes more.
func TestAnyNewsFitsIntoAPacket(t *testing.T) {
	cfg := validConfig(t)
	cfg.Params.GossipPacketSize = 1
	if got := cfg.memberlist(nil, log.New(io.Discard, "", 0)).UDPBufferSize; got < 150 || got > 400 {
		t.Errorf("short names: packets of %d bytes", got)
	}
	cfg.Label = strings.Repeat("l", memberlist.LabelMaxSize)
	cfg.Roster.Members[1].Name = strings.Repeat("x", wire.MaxName)
	const frame, encryption = 16, 45
	if got, want := cfg.memberlist(nil, log.New(io.Discard, "", 0)).UDPBufferSize, frame+encryption+len(cfg.Label)+2*wire.MaxName+28; got < want {
		t.Errorf("long names: packets of %d bytes, a suspicion needs %d", got, want)
	}
}

func TestMemberlistConfigAvoidsItsTraps(t *testing.T) {
	cfg := validConfig(t)
	cfg.Keyring, _ = memberlist.NewKeyring(nil, make([]byte, 32))
	m := cfg.memberlist(nil, log.New(io.Discard, "", 0))
	if m.QueueCheckInterval <= 0 {
		t.Error("QueueCheckInterval 0 is a busy loop")
	}
	if m.EnableCompression {
		t.Error("compression is on")
	}
	if m.BindAddr != "10.0.0.1" || m.AdvertiseAddr != "10.0.0.1" || m.BindPort != 7946 || m.AdvertisePort != 7946 {
		t.Errorf("addresses %s:%d, advertised %s:%d", m.BindAddr, m.BindPort, m.AdvertiseAddr, m.AdvertisePort)
	}
	if !m.GossipVerifyIncoming || !m.GossipVerifyOutgoing || m.Keyring != cfg.Keyring || !m.EncryptionEnabled() {
		t.Error("the keyring is not enforced")
	}
	if m.Name != "n1" || m.Label != "c/g/mgmt" || m.MetricLabels != nil || m.HandoffQueueDepth == 0 {
		t.Errorf("name %q, label %q", m.Name, m.Label)
	}
}

func TestTargets(t *testing.T) {
	cfg := validConfig(t)
	got, err := cfg.targets()
	if err != nil {
		t.Fatal(err)
	}
	want := []target{
		{1, memberlist.Address{Addr: "10.0.0.2:7946", Name: "n2"}},
		{3, memberlist.Address{Addr: "[fd00::4]:7946", Name: "n4"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("targets %v, want %v", got, want)
	}
}

func TestNewReportsAllProblems(t *testing.T) {
	cfg := validConfig(t)
	cfg.Label = strings.Repeat("x", 256)
	cfg.Port = 70000
	cfg.BindAddr = netip.MustParseAddr("fe80::1%eth0")
	cfg.Sink = nil
	cfg.Params.ProbeInterval = 0
	cfg.Params.EvidenceMaxAge = time.Millisecond
	_, err := New(cfg)
	for _, want := range []string{
		"swim network mgmt: ", "label", "256 bytes", "port 70000", "fe80::1%eth0", "sink", "ProbeInterval", "evidenceMaxAge",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestNewRefusesBadAddresses(t *testing.T) {
	for _, bad := range []string{"", "node2", "10.0.0.0/8", "0.0.0.0", "fe80::1%eth0"} {
		cfg := validConfig(t)
		cfg.Roster.Members[1].Addresses = map[string]string{"mgmt": bad}
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), `member "n2"`) {
			t.Errorf("address %q: %v", bad, err)
		}
	}
	for _, bad := range []string{"0.0.0.0", "::"} {
		cfg := validConfig(t)
		cfg.BindAddr = netip.MustParseAddr(bad)
		if _, err := New(cfg); err == nil {
			t.Errorf("bound to %s", bad)
		}
	}
}

func TestInboxOverflowIsCounted(t *testing.T) {
	cfg := validConfig(t)
	in := &Instance{cfg: cfg, count: NewMetrics(nil).network("mgmt"), gate: newGate()}
	e := newEvidence(in, nil)
	for range cap(e.inbox) + 5 { // nobody runs it
		e.post(arrival{packet: []byte{1}})
	}
	if got := in.count.refused[refusedOverflow].n.Load(); got != 5 {
		t.Errorf("%d overflows counted, want 5", got)
	}
}
