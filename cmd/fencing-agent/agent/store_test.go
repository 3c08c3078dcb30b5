package agent

import (
	"slices"
	"testing"
)

func TestKeptLog(t *testing.T) {
	var l keptLog
	var got []keptNews
	for _, step := range []struct{ armed, kept bool }{
		{false, false}, {true, false}, {true, true}, {true, true}, {false, false}, {true, false}, {true, true}, {true, false}, {true, false}, {true, false}, {true, true},
	} {
		if news := l.note(step.armed, step.kept); news != keptSame {
			got = append(got, news)
		}
	}
	if want := []keptNews{keptYes, keptNo, keptYes}; !slices.Equal(got, want) {
		t.Errorf("told %v, want %v", got, want)
	}
}
