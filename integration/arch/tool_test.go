package arch

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// notLinked lists what the operator's tool must not contain, and who needs it.
var notLinked = []struct{ part, whose string }{
	{"k8s.io/", "the agent's"},
	{"github.com/hashicorp/memberlist", "the agent's"},
	{"github.com/google/nftables", "the laboratory's"},
	{modulePath + "/cmd/fencing-agent/agent", "the agent's"},
	{modulePath + "/netgossip/swim", "the agent's"},
	{modulePath + "/integration/", "the laboratory's"},
}

// toolProblems requires that the tool is only a client of the socket, the LUN and the configuration. arrows_test.go
// checks what it imports, and this function what those imports bring along.
func toolProblems(deps []string) []string {
	var problems []string
	for _, pkg := range deps {
		for _, n := range notLinked {
			if strings.Contains(pkg, n.part) {
				problems = append(problems, fmt.Sprintf("cmd/fencectl links %s, which is %s business: "+
					"a person who may read a status should not have to install a cluster", pkg, n.whose))
			}
		}
	}
	return problems
}

func TestToolIsAClient(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "./cmd/fencectl")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	deps := strings.Fields(string(out))
	if !slices.Contains(deps, modulePath+"/api/client") {
		t.Fatalf("%d packages, and api/client is none of them", len(deps))
	}
	report(t, toolProblems(deps))
}

func TestToolRuleCanFail(t *testing.T) {
	wantProblem(t, toolProblems([]string{"fmt", "k8s.io/api/core/v1"}), "links k8s.io/api/core/v1")
	wantProblem(t, toolProblems([]string{"sigs.k8s.io/yaml"}), "links sigs.k8s.io/yaml")
	wantProblem(t, toolProblems([]string{modulePath + "/integration/lab"}), "the laboratory's business")
	wantProblem(t, toolProblems([]string{"fmt", modulePath + "/k8s/leasequorum", modulePath + "/netgossip", "github.com/spf13/cobra"}), "")
}
