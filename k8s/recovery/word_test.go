package recovery

import "testing"

// Guard: all programs that act on a Node get one answer, about the boot that it shows and no other.
func TestWordOf(t *testing.T) {
	alive, dead := Word{Disputed: bootA}, Word{Fenced: bootA}
	for _, c := range []struct {
		name, boot, note string
		values, others   []string
		want             Word
	}{
		{"nothing", bootA, "", nil, nil, Word{}},
		{"in force", bootA, "", []string{Fenced(bootA)}, nil, dead},
		{"from the first moment on", bootA, bootA, []string{Fenced(bootA)}, nil, alive},
		{"by both", bootA, bootA, []string{Disputed(bootA)}, nil, alive},
		{"the note is refused", bootA, "", []string{Disputed(bootA)}, nil, alive},
		{"there is no barrier", bootA, bootA, nil, nil, alive},
		{"the note of another boot", bootA, bootB, []string{Fenced(bootA)}, nil, dead},
		{"the dispute of another boot", bootA, bootB, []string{Disputed(bootB)}, nil, Word{}},
		{"the death of another boot", bootA, "", []string{Fenced(bootB)}, nil, Word{}},
		{"another effect kills nobody", bootA, "", nil, []string{Fenced(bootA)}, Word{}},
		{"another effect disputes", bootA, "", []string{Fenced(bootA)}, []string{Disputed(bootA)}, alive},
		{"somebody else's", bootA, "", []string{"nodeshutdown"}, nil, Word{}},
		{"no boot", "", "", []string{Fenced(bootA), Disputed("")}, nil, Word{}},
	} {
		if got := WordOf(c.boot, c.note, c.values, c.others); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
