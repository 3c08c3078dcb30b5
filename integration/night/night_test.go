package night

import (
	"strings"
	"testing"
)

// Guard: a night in which a person does not see what matters is none.
func TestAStepMustShowWhatItMust(t *testing.T) {
	out := new(strings.Builder)
	n := &night{Options: Options{Out: out}}
	n.step("Who is missing?")
	if err := n.shown("fencectl status", "n1: FEEDING\nmissing  n4: UNREACHABLE\n", `FEEDING`, `n4: UNREACH`); err != nil || n.wants != 2 {
		t.Errorf("%v, %d", err, n.wants)
	}
	if want := "\n1  Who is missing?\n\n     $ fencectl status\n     n1: FEEDING\n     missing  n4: UNREACHABLE\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out, want)
	}
	err := n.shown("fencectl status", "n1: FEEDING\n", `FEEDING`, `UNREACHABLE`)
	if err == nil || !strings.Contains(err.Error(), `step 1: fencectl status does not show "UNREACHABLE"`) {
		t.Error(err)
	}
}

// What a person confirms is the boot that the command before has shown.
func TestTheBootIsRead(t *testing.T) {
	const shown = "latest known boot: 926ca999da307a27\n\n    fencectl confirm-dead n4 --boot 926ca999da307a27 --reason \"how\"\n"
	if m := nonce.FindStringSubmatch(shown); m == nil || m[1] != "926ca999da307a27" {
		t.Errorf("%q", m)
	}
}
