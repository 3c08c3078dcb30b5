package words_test

import (
	"strings"
	"testing"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/api/words"
)

const (
	lun   = fencingv1.TieBreaker_TIE_BREAKER_LUN
	lease = fencingv1.TieBreaker_TIE_BREAKER_LEASE
)

// Each reason has its own sentence, which does not need the agent's sentence.
func TestReasonsHaveTheirSentence(t *testing.T) {
	seen := map[string]string{}
	for number, name := range fencingv1.Reason_name {
		if number == 0 {
			continue
		}
		text := words.Reason(&fencingv1.Verdict{Reason: fencingv1.Reason(number), TieBreaker: lun, Text: "the agent's words"})
		if text == "the agent's words" || strings.HasPrefix(text, "unknown") {
			t.Errorf("%s has no sentence", name)
		}
		if other, twice := seen[text]; twice {
			t.Errorf("%s and %s read the same: %s", other, name, text)
		}
		seen[text] = name
	}
}

func TestReason(t *testing.T) {
	tie := &fencingv1.Tally{Counted: 2, Expected: 4, Quorum: 3}
	for _, tc := range []struct {
		name string
		v    *fencingv1.Verdict
		want string
	}{
		{"the LUN's grant", &fencingv1.Verdict{Reason: fencingv1.Reason_REASON_SPLIT_WON, TieBreaker: lun, Tally: tie},
			"equal split (2 of 4), the LUN's grant names this half"},
		{"the Lease", &fencingv1.Verdict{Reason: fencingv1.Reason_REASON_SPLIT_WON, TieBreaker: lease, Tally: tie},
			"equal split (2 of 4), the grant of the Lease names this half"},
		// Such a node has lost its own path to the LUN.
		{"the word of another", &fencingv1.Verdict{Reason: fencingv1.Reason_REASON_SPLIT_WON, TieBreaker: lun, Relayed: true, Tally: tie},
			"equal split (2 of 4), the LUN's grant names this half; another holder vouches for it, this node has no fresh write of its own"},
		{"the other half", &fencingv1.Verdict{Reason: fencingv1.Reason_REASON_SPLIT_LOST, TieBreaker: lun, Tally: tie},
			"equal split (2 of 4), the LUN's grant names the other half"},
		// No other node may hold that grant, so the operator should not look for one.
		{"lost by a holder", &fencingv1.Verdict{Reason: fencingv1.Reason_REASON_SPLIT_LOST, TieBreaker: lun, GivenUp: "input/output error", Tally: tie},
			"equal split (2 of 4), the LUN's grant names this node, which has given it up: input/output error"},
		{"pending", &fencingv1.Verdict{Reason: fencingv1.Reason_REASON_SPLIT_PENDING, TieBreaker: lun, Detail: "the loser's watchdog", Tally: tie},
			"equal split (2 of 4), being decided; waiting for: the loser's watchdog"},
		{"two that disarm", &fencingv1.Verdict{Reason: fencingv1.Reason_REASON_MAINTENANCE, TieBreaker: lun, DisarmedBy: []string{"the file /a", "annotation b/c"},
			Permission: fencingv1.Permission_PERMISSION_DISARM}, "disarmed for maintenance: the file /a; annotation b/c"},
		{"not disarmed yet", &fencingv1.Verdict{Reason: fencingv1.Reason_REASON_MAINTENANCE, TieBreaker: lun, DisarmedBy: []string{"the file /a"},
			Permission: fencingv1.Permission_PERMISSION_FEED}, "to be disarmed for maintenance, as soon as a majority knows: the file /a"},
		{"ordered to end", &fencingv1.Verdict{Reason: fencingv1.Reason_REASON_CONDEMNED, TieBreaker: lun, Detail: "ordered by n1"},
			"this node has announced its self-fence: ordered by n1"},
		{"expired", &fencingv1.Verdict{Reason: fencingv1.Reason_REASON_NETWORK_QUORUM, TieBreaker: lun, Expired: true, Tally: tie},
			"the agent stands still, or did until now: its verdict has passed its deadline. It was: majority of the group is reachable (2 of 4, 3 needed)"},
		{"a newer agent's reason", &fencingv1.Verdict{Reason: 99, TieBreaker: lun, Text: "a new rule"}, "a new rule"},
		{"a newer agent's reason without a sentence", &fencingv1.Verdict{Reason: 99, TieBreaker: lun}, "unknown reason 99"},
		// The sentence tells more than the fields do.
		{"an older agent", &fencingv1.Verdict{Reason: fencingv1.Reason_REASON_SPLIT_WON, Text: "equal split, won: the grant of the Lease names this half", Tally: tie},
			"equal split, won: the grant of the Lease names this half"},
		{"an older agent without a sentence", &fencingv1.Verdict{Reason: fencingv1.Reason_REASON_MAINTENANCE, Permission: fencingv1.Permission_PERMISSION_DISARM},
			"disarmed for maintenance: an annotation or the disable file"},
	} {
		if got := words.Reason(tc.v); got != tc.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tc.name, got, tc.want)
		}
	}
}

// Nothing is parsed from the agent's sentence: if the fields are set, another sentence makes no difference.
func TestSentencesAreNotTakenApart(t *testing.T) {
	for number := range fencingv1.Reason_name {
		if number == 0 {
			continue
		}
		v := &fencingv1.Verdict{Reason: fencingv1.Reason(number), TieBreaker: lun}
		want := words.Reason(v)
		for _, text := range []string{"x", "of the Lease", "another holder vouches", "names this node", "disarmed for maintenance: a"} {
			v.Text = text
			if got := words.Reason(v); got != want {
				t.Errorf("with %q: %s, else %s", text, got, want)
			}
		}
	}
}

// Older versions of fencectl parse the agent's sentence. An old fencectl on an operator's machine must still show what
// is true.
func TestOlderClientsFindTheirWords(t *testing.T) {
	for _, tc := range []struct {
		v    *fencingv1.Verdict
		word string
		has  bool
	}{
		{&fencingv1.Verdict{Reason: fencingv1.Reason_REASON_SPLIT_WON, TieBreaker: lease}, "of the Lease", true},
		{&fencingv1.Verdict{Reason: fencingv1.Reason_REASON_SPLIT_LOST, TieBreaker: lease}, "of the Lease", true},
		{&fencingv1.Verdict{Reason: fencingv1.Reason_REASON_SPLIT_WON, TieBreaker: lun}, "of the Lease", false},
		{&fencingv1.Verdict{Reason: fencingv1.Reason_REASON_SPLIT_WON, TieBreaker: lun, Relayed: true}, "another holder vouches", true},
		{&fencingv1.Verdict{Reason: fencingv1.Reason_REASON_SPLIT_WON, TieBreaker: lun}, "another holder vouches", false},
		{&fencingv1.Verdict{Reason: fencingv1.Reason_REASON_SPLIT_LOST, TieBreaker: lun, GivenUp: "an error"}, "names this node", true},
		{&fencingv1.Verdict{Reason: fencingv1.Reason_REASON_SPLIT_LOST, TieBreaker: lun}, "names this node", false},
	} {
		if text := words.Reason(tc.v); strings.Contains(text, tc.word) != tc.has {
			t.Errorf("%q in %q: want %v", tc.word, text, tc.has)
		}
	}
	_, by, _ := strings.Cut(words.Reason(&fencingv1.Verdict{
		Reason: fencingv1.Reason_REASON_MAINTENANCE, TieBreaker: lun, DisarmedBy: []string{"the file /a"},
	}), ": ")
	if by != "the file /a" {
		t.Errorf("disarmed by %q", by)
	}
}
