package machine

import (
	"strings"
	"testing"
)

func TestNodesThatThisHostCannotWatchFor(t *testing.T) {
	for nodes, want := range map[int]string{
		4:  "",
		15: "",
		16: "max_user_instances=136, or at most 15 nodes",
		30: "30 nodes of namespaces need 248 instances of inotify, and root has 128",
	} {
		err := fits(nodes, 128)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d nodes: %v, want %q", nodes, err, want)
		}
	}
	if err := fits(1, 3); err == nil || !strings.Contains(err.Error(), "at most 0 nodes") {
		t.Error(err)
	}
}
