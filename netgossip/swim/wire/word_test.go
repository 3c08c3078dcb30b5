package wire

import (
	"errors"
	"fmt"
	"testing"

	"github.com/fencing-agent/fencing-agent/netgossip/doubt"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

func wordRoster(t *testing.T, epoch uint64) *roster.Roster {
	t.Helper()
	var members []roster.Member
	for i := range 5 {
		members = append(members, roster.Member{Name: fmt.Sprintf("n%d", i)})
	}
	r, err := roster.New(epoch, members, "n0")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestWordsTravel(t *testing.T) {
	r := wordRoster(t, 1)
	tag := RosterTag(r)
	for k := doubt.Ask; k.Valid(); k++ {
		sent := Message{Kind: Doubt, Member: 3, Roster: tag, Clock: 77, Cookie: 0xfeed, Word: doubt.Word{Kind: k, Peer: 4}}
		b, err := Append(nil, sent)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(b, r, tag)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(sent) {
			t.Errorf("got %+v, %v, want %+v", got, err, sent)
		}
		if other := wordRoster(t, 2); len(b) > 48 {
			t.Errorf("a word has %d bytes", len(b))
		} else if _, err := Decode(b, other, RosterTag(other)); !errors.Is(err, ErrOtherRoster) {
			t.Errorf("a word by another list: %v", err)
		}
	}
}

func TestBadWordsAreRefused(t *testing.T) {
	r := wordRoster(t, 1)
	tag := RosterTag(r)
	good := Message{Kind: Doubt, Member: 3, Roster: tag, Clock: 77, Cookie: 0xfeed, Word: doubt.Word{Kind: doubt.Firm, Peer: 4}}
	for what, change := range map[string]func(*Message){
		"about itself":       func(m *Message) { m.Word.Peer = 3 },
		"about nobody":       func(m *Message) { m.Word.Peer = -1 },
		"about a stranger":   func(m *Message) { m.Word.Peer = 5 },
		"of a stranger":      func(m *Message) { m.Member = 5 },
		"of no kind":         func(m *Message) { m.Word.Kind = 0 },
		"of an unknown kind": func(m *Message) { m.Word.Kind = doubt.Firm + 1 },
		"without a cookie":   func(m *Message) { m.Cookie = 0 },
		"without a clock":    func(m *Message) { m.Clock = 0 },
	} {
		m := good
		change(&m)
		b, err := Append(nil, m)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Decode(b, r, tag); err == nil {
			t.Errorf("%s: taken as %+v", what, got)
		}
	}
}

// Answers and probes of agents that understand words contain cookies. For an earlier agent they are unknown fields.
func TestCookiesTravel(t *testing.T) {
	r := wordRoster(t, 1)
	tag := RosterTag(r)
	for _, sent := range []Message{
		{Kind: Probe, ID: 5, Member: 2, Roster: tag, Bare: true},
		{Kind: Answer, ID: 5, Member: 2, Unchanged: true, Cookie: 0xfeed},
	} {
		b, err := Append(nil, sent)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Decode(b, r, tag); err != nil || fmt.Sprint(got) != fmt.Sprint(sent) {
			t.Errorf("got %+v, %v, want %+v", got, err, sent)
		}
	}
}
