package arch

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// room is a package of the agent or of the operator's tool, and what it may import of the other rooms. Folders that
// contain no room (integration, tools, deploy) may import any of them.
type room struct {
	pkg  string
	may  []string
	pure bool
}

// rooms is the picture of docs/architecture.md in a form that a test can read. A new package below these folders needs
// a line here.
var rooms = []room{
	{pkg: "boottime"},
	{pkg: "boottime/boottimetest", may: []string{"boottime"}},
	{pkg: "procfs"},
	{pkg: "docs"},
	{pkg: "netgossip/roster", may: []string{"boottime"}, pure: true},
	{pkg: "netgossip", may: []string{"boottime", "netgossip/roster"}, pure: true},
	{pkg: "netgossip/probing", may: []string{"boottime", "netgossip"}, pure: true},
	{pkg: "netgossip/doubt", may: []string{"boottime", "netgossip", "netgossip/roster"}, pure: true},
	{pkg: "netgossip/tie", may: []string{"boottime", "netgossip", "netgossip/roster"}, pure: true},
	{pkg: "netgossip/tie/tietest", may: []string{"boottime", "netgossip", "netgossip/roster", "netgossip/tie"}},
	{pkg: "diskquorum", may: []string{"boottime", "netgossip", "netgossip/roster", "netgossip/tie"}, pure: true},
	{pkg: "watchdog", may: []string{"boottime", "netgossip", "netgossip/roster", "netgossip/tie", "diskquorum"}, pure: true},

	{pkg: "history", pure: true},

	{pkg: "netgossip/swim", may: []string{"boottime", "netgossip", "netgossip/roster", "netgossip/doubt", "netgossip/keyfile", "netgossip/probing", "netgossip/swim/wire"}},
	{pkg: "netgossip/keyfile"},
	{pkg: "netgossip/swim/wire", may: []string{"boottime", "netgossip", "netgossip/doubt", "netgossip/roster"}},
	{pkg: "netgossip/iface", may: []string{"boottime", "netgossip"}},
	{pkg: "netgossip/netgossiptest", may: []string{"boottime", "netgossip"}},
	{pkg: "diskquorum/rawdev", may: []string{"boottime", "diskquorum"}},
	{pkg: "diskquorum/lunadmin", may: []string{"boottime", "netgossip/roster", "diskquorum", "diskquorum/rawdev"}},
	{pkg: "diskquorum/keeper", may: []string{"boottime", "diskquorum", "diskquorum/rawdev"}},
	{pkg: "diskquorum/diskquorumtest", may: []string{"boottime", "netgossip", "diskquorum"}},
	{pkg: "watchdog/wdt", may: []string{"boottime", "procfs", "watchdog"}},
	{pkg: "watchdog/watchdogtest", may: []string{"boottime", "watchdog"}},
	{pkg: "api/v1"},
	{pkg: "api/client", may: []string{"api/v1", "boottime"}},
	{pkg: "api/clienttest", may: []string{"api/v1", "api/publish"}},
	{pkg: "api/words", may: []string{"api/v1"}},
	{pkg: "api/trouble"},
	{pkg: "api/view", may: []string{"api/trouble", "api/v1", "api/words", "history"}},
	{pkg: "api/page", may: []string{"api/view"}},
	{pkg: "api/publish", may: []string{"boottime", "procfs", "api/v1"}},
	{pkg: "k8s"},
	{pkg: "k8s/client", may: []string{"boottime"}},
	{pkg: "k8s/program", may: []string{"k8s/client"}},
	{pkg: "k8s/leasequorum", may: []string{"boottime", "netgossip", "netgossip/roster", "netgossip/tie"}, pure: true},
	{pkg: "k8s/leasequorum/leasequorumtest", may: []string{"netgossip", "k8s/leasequorum"}},
	{pkg: "k8s/leaseregister", may: []string{"boottime", "netgossip", "netgossip/roster", "netgossip/tie", "k8s/client", "k8s/leasequorum"}},
	{pkg: "k8s/deaths", may: []string{"api/v1"}},
	{pkg: "k8s/sightings", may: []string{"k8s/deaths"}},
	{pkg: "k8s/belief", may: []string{"k8s/deaths"}, pure: true},
	{pkg: "k8s/ownership", pure: true},
	{pkg: "k8s/storm", may: []string{"k8s/sightings"}, pure: true},
	{pkg: "k8s/distributedapp"},
	{pkg: "k8s/distributedapp/gossip", may: []string{"k8s/distributedapp"}},
	{pkg: "k8s/fenceconfig", pure: true},
	{pkg: "k8s/kdump", pure: true},
	{pkg: "k8s/nodefence", may: []string{"k8s/fenceconfig", "k8s/kdump", "k8s/storm"}, pure: true},
	{pkg: "k8s/storagefence", pure: true},
	{pkg: "k8s/storagewatch", may: []string{"k8s/deaths", "k8s/fencing", "k8s/nodefence", "k8s/recovery", "k8s/storagefence"}},
	{pkg: "k8s/recovery", may: []string{"k8s/belief", "k8s/storm"}, pure: true},
	{pkg: "k8s/remediation", may: []string{"k8s/nodefence"}, pure: true},
	{pkg: "k8s/fencing", may: []string{"k8s/deaths", "k8s/fenceconfig", "k8s/kdump", "k8s/nodefence", "k8s/ownership", "k8s/recovery", "k8s/remediation", "k8s/sightings", "k8s/storm"}},
	{pkg: "k8s/reconcile", may: []string{"k8s/belief", "k8s/deaths", "k8s/ownership", "k8s/recovery", "k8s/storm"}},
	{pkg: "k8s/ownnode", may: []string{"boottime", "k8s/client"}},
	{pkg: "k8s/nodelist", may: []string{"boottime", "netgossip/roster", "k8s/client", "k8s/ownnode"}},
	{pkg: "k8s/memberbook", may: []string{"boottime", "netgossip/roster", "k8s/nodelist"}, pure: true},
	{pkg: "k8s/marks", may: []string{"boottime", "k8s/client", "k8s/ownnode"}},
	{pkg: "k8s/k8stest", may: []string{"boottime/boottimetest", "k8s/client"}},
	{pkg: "k8s/apicheck", may: []string{"boottime", "netgossip", "k8s/client"}},
	{pkg: "cmd/fencing-agent/config", may: []string{"netgossip", "netgossip/roster", "diskquorum", "watchdog"}},
	{pkg: "cmd/fencing-agent/gossip", may: []string{"boottime", "procfs", "netgossip", "netgossip/roster", "netgossip/swim", "netgossip/iface", "cmd/fencing-agent/config"}},
	{pkg: "cmd/fencing-agent/statefile"},
	{pkg: "cmd/fencing-agent/parts", may: []string{"api/trouble", "boottime"}},
	{pkg: "cmd/fencing-agent/fdstore"},
	{pkg: "cmd/fencing-agent/recorder", may: []string{"boottime", "history"}},
	{pkg: "cmd/fencing-agent/members", may: []string{
		"api/v1", "boottime", "netgossip/roster", "watchdog", "k8s/client", "k8s/deaths", "k8s/marks", "k8s/memberbook", "k8s/nodelist", "k8s/ownnode", "k8s/sightings", "cmd/fencing-agent/config", "cmd/fencing-agent/statefile",
	}},
	{pkg: "cmd/fencing-agent/picture", may: []string{"boottime", "netgossip", "netgossip/roster", "netgossip/tie", "watchdog", "watchdog/wdt", "api/v1", "api/publish", "api/words", "history", "cmd/fencing-agent/config", "cmd/fencing-agent/gossip", "cmd/fencing-agent/parts"}},
	{pkg: "watchdog/calibration", may: []string{"watchdog"}},
	{pkg: "cmd/fencing-agent/trials", may: []string{"procfs", "watchdog", "watchdog/calibration", "watchdog/wdt", "cmd/fencing-agent/statefile"}},
	{pkg: "cmd/fencing-agent/statuspage", may: []string{"api/page", "api/v1", "api/view", "history"}},
	{pkg: "cmd/fencing-agent/agent", may: []string{
		"boottime", "procfs", "netgossip", "netgossip/roster", "netgossip/tie", "netgossip/swim", "diskquorum", "diskquorum/keeper", "diskquorum/lunadmin", "diskquorum/rawdev",
		"watchdog", "watchdog/wdt", "api/page", "api/trouble", "api/v1", "api/words", "api/publish", "k8s/apicheck", "k8s/client", "k8s/deaths", "k8s/leaseregister", "k8s/marks", "k8s/memberbook", "k8s/ownnode", "k8s/sightings", "k8s/leasequorum",
		"cmd/fencing-agent/config", "cmd/fencing-agent/gossip", "cmd/fencing-agent/members", "cmd/fencing-agent/parts", "cmd/fencing-agent/picture", "cmd/fencing-agent/recorder", "cmd/fencing-agent/statefile", "cmd/fencing-agent/statuspage", "cmd/fencing-agent/trials", "history",
	}},
	{pkg: "cmd/fencing-agent", may: []string{"cmd/fencing-agent/agent", "cmd/fencing-agent/config", "cmd/fencing-agent/fdstore"}},
	{pkg: "cmd/fencing-controller/config"},
	{pkg: "cmd/fencing-controller/members", may: []string{"api/v1", "boottime", "netgossip/roster", "k8s/client", "k8s/deaths", "k8s/memberbook", "k8s/ownnode", "k8s/sightings"}},
	{pkg: "cmd/fencing-controller/clusterpage", may: []string{"api/page", "api/view", "k8s/reconcile", "k8s/recovery"}},
	{pkg: "cmd/fencing-controller", may: []string{"api/v1", "cmd/fencing-controller/clusterpage", "cmd/fencing-controller/members", "k8s/belief", "k8s/deaths", "k8s/fencing", "k8s/nodefence", "k8s/reconcile", "k8s/recovery", "k8s/storagefence", "k8s/storagewatch", "k8s/program", "k8s/storm", "cmd/fencing-controller/config"}},
	{pkg: "cmd/distributedapp-operator", may: []string{"k8s/distributedapp", "k8s/distributedapp/gossip", "k8s/ownership", "k8s/program", "netgossip/swim"}},
	{pkg: "cmd/fencing-executor", may: []string{"k8s/fenceconfig"}},
	{pkg: "cmd/fencectl", may: []string{"boottime", "docs", "procfs", "api/v1", "api/client", "api/view", "api/words", "diskquorum", "diskquorum/lunadmin", "history", "watchdog", "cmd/fencing-agent/config", "k8s/deaths", "k8s/fenceconfig", "k8s/recovery", "cmd/fencectl/doctor", "cmd/fencectl/trial", "cmd/fencing-agent/trials", "watchdog/calibration", "watchdog/wdt"}},
	{pkg: "cmd/fencectl/doctor", may: []string{"api/publish", "api/trouble", "procfs", "netgossip/iface", "netgossip/keyfile", "netgossip/roster", "watchdog", "watchdog/wdt", "cmd/fencing-agent/config", "cmd/fencing-agent/trials"}},
	{pkg: "cmd/fencectl/trial", may: []string{"watchdog/calibration"}},
}

const whyArrows = "the arrows of docs/architecture.md: pure packages know no adapter, adapters do not know each other, " +
	"and nothing of a test reaches the agent's program"

// confined lists foreign modules and the only folders that may import them.
var confined = []struct {
	module string
	where  []string
	why    string
}{
	{"github.com/hashicorp/memberlist", []string{"netgossip/swim", "netgossip/netgossiptest", "integration/gossipsim", "cmd/fencing-agent/gossip", "integration/agentsim", "k8s/distributedapp/gossip"}, "only one place knows what memberlist does and when it calls back"},
	{"github.com/vishvananda/netlink", []string{"netgossip/iface", "integration"}, "interfaces are examined in one place"},
	{"github.com/vishvananda/netns", []string{"integration"}, "the agent stays in the namespace it is started in"},
	{"github.com/google/nftables", []string{"integration"}, "only tests and the demo make partitions"},
	{"github.com/ncw/directio", []string{"diskquorum/rawdev", "diskquorum/diskquorumtest", "integration"}, "all I/O on a LUN goes through one engine"},
	{"google.golang.org/grpc", []string{"api", "cmd", "integration"}, "the cores must not know the transport of the API"},
	{"google.golang.org/protobuf", []string{"api", "cmd", "integration", "k8s/client", "netgossip/swim/wire", "tools"}, "encodings belong to the edge"},
	{"sigs.k8s.io/controller-runtime", []string{"k8s/fencing", "k8s/program", "k8s/reconcile", "k8s/storagewatch", "k8s/distributedapp", "cmd/fencing-controller", "cmd/distributedapp-operator"}, "the agent has no controllers"},
	{"k8s.io/", []string{"k8s", "cmd/fencing-controller", "cmd/distributedapp-operator", "integration/kube", "integration/cluster"}, "the agent decides without Kubernetes"},
	{"go.yaml.in/", []string{"cmd/fencing-agent/config", "cmd/fencing-controller/config", "cmd/fencectl", "integration", "tools"}, "the configuration is read in one place"},
	{"github.com/spf13/cobra", []string{"cmd/fencectl", "integration/laboratory", "integration/kube/cmd/kubetest"}, "the agent's program has three flags"},
	{"golang.org/x/sys", []string{"boottime", "netgossip/iface", "netgossip/swim", "diskquorum/rawdev", "diskquorum/lunadmin", "watchdog/wdt", "api/publish", "cmd", "integration"}, "system calls belong to the adapters"},
	{"github.com/prometheus/client_golang", []string{"netgossip/swim", "netgossip/iface", "diskquorum/rawdev", "watchdog/wdt", "api/publish", "k8s", "cmd/fencing-agent", "cmd/fencing-controller", "integration"}, "mechanisms count themselves, cores do not"},
}

// pureImports lists the packages of the standard library that a pure package may use.
var pureImports = []string{
	"bytes", "cmp", "container/heap", "crypto/sha256", "encoding/binary", "errors", "fmt", "hash/crc32", "hash/fnv", "iter", "maps", "math", "math/bits",
	"math/rand/v2", "net/netip", "slices", "sort", "strconv", "strings", "time",
}

// pureForbidden lists functions of those packages that read a clock, wait or share state.
var pureForbidden = map[string][]string{
	"time": {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"},
	"fmt":  {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
	"math/rand/v2": {
		"ExpFloat64", "Float32", "Float64", "Int", "Int32", "Int32N", "Int64", "Int64N", "IntN", "N", "NormFloat64", "Perm",
		"Shuffle", "Uint", "Uint32", "Uint32N", "Uint64", "Uint64N", "UintN",
	},
	modulePath + "/boottime": {"Now", "Wait"},
}

const whyPure = "pure packages get the time and all facts as arguments, so that a table test can check every rule and the simulator can replay a run exactly"

// within reports whether pkg is folder or lies below it.
func within(pkg, folder string) bool { return pkg == folder || strings.HasPrefix(pkg, folder+"/") }

func arrowProblems(s *source) []string {
	if s.test {
		return nil // tests wire doubles and real parts together
	}
	var problems []string
	i := slices.IndexFunc(rooms, func(r room) bool { return r.pkg == s.pkg })
	top, _, _ := strings.Cut(s.pkg, "/")
	if i < 0 && slices.ContainsFunc(rooms, func(r room) bool { return within(r.pkg, top) }) {
		problems = append(problems, fmt.Sprintf("package %s has no line in rooms (integration/arch/arrows_test.go): say what it may import", s.pkg))
	}
	for imported := range s.imports() {
		if own, ok := strings.CutPrefix(imported, modulePath+"/"); ok && i >= 0 && !slices.Contains(rooms[i].may, own) {
			problems = append(problems, fmt.Sprintf("%s imports %s: %s", s.path, own, whyArrows))
		}
		for _, c := range confined {
			if strings.HasPrefix(imported, c.module) && !slices.ContainsFunc(c.where, func(w string) bool { return within(s.pkg, w) }) {
				problems = append(problems, fmt.Sprintf("%s imports %s, which is for %s: %s", s.path, imported, strings.Join(c.where, ", "), c.why))
			}
		}
	}
	slices.Sort(problems)
	return problems
}

func pureProblems(s *source) []string {
	if s.test || !slices.ContainsFunc(rooms, func(r room) bool { return r.pure && r.pkg == s.pkg }) {
		return nil
	}
	var problems []string
	names := map[string][]string{}
	for imported, name := range s.imports() {
		names[name] = pureForbidden[imported]
		if !slices.Contains(pureImports, imported) && !strings.HasPrefix(imported, modulePath+"/") {
			problems = append(problems, fmt.Sprintf("%s imports %s: %s", s.path, imported, whyPure))
		}
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			problems = append(problems, fmt.Sprintf("%s: go statement: %s", s.at(n), whyPure))
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && slices.Contains(names[x.Name], n.Sel.Name) {
				problems = append(problems, fmt.Sprintf("%s: %s.%s: %s", s.at(n), x.Name, n.Sel.Name, whyPure))
			}
		case *ast.FuncDecl:
			if n.Recv == nil && n.Name.Name == "init" {
				problems = append(problems, fmt.Sprintf("%s: init function: %s", s.at(n), whyPure))
			}
		}
		return true
	})
	return problems
}

func TestArrows(t *testing.T) {
	seen := map[string]bool{}
	var problems []string
	for _, s := range all(t) {
		problems = slices.Concat(problems, arrowProblems(s), pureProblems(s))
		seen[s.pkg] = true
	}
	slices.Sort(problems)
	report(t, slices.Compact(problems))
	for _, r := range rooms {
		if !seen[r.pkg] {
			t.Errorf("rooms lists %s, which does not exist", r.pkg)
		}
	}
}

func TestArrowRulesCanFail(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"watchdog/a.go", `import "github.com/fencing-agent/fencing-agent/watchdog/wdt"`, "the arrows of"},
		{"watchdog/a.go", `import "github.com/fencing-agent/fencing-agent/k8s/leasequorum"`, "the arrows of"},
		{"netgossip/swim/a.go", `import "github.com/fencing-agent/fencing-agent/diskquorum"`, "the arrows of"},
		{"cmd/fencing-agent/agent/a.go", `import "github.com/fencing-agent/fencing-agent/integration/lab"`, "the arrows of"},
		{"cmd/fencectl/a.go", `import "github.com/fencing-agent/fencing-agent/cmd/fencing-agent/agent"`, "the arrows of"},
		{"netgossip/new/a.go", ``, "has no line in rooms"},
		{"cmd/new/a.go", ``, "has no line in rooms"},
		{"k8s/apicheck/a.go", `import "github.com/hashicorp/memberlist"`, "only one place knows"},
		{"cmd/fencing-agent/agent/a.go", `import "sigs.k8s.io/controller-runtime/pkg/manager"`, "has no controllers"},
		{"k8s/marks/a.go", `import "sigs.k8s.io/controller-runtime/pkg/client"`, "has no controllers"},
		{"k8s/recovery/a.go", `import "github.com/fencing-agent/fencing-agent/k8s/reconcile"`, "the arrows of"},
		{"diskquorum/a.go", `import "sync"`, "get the time and all facts"},
		{"diskquorum/a.go", `import "golang.org/x/sys/unix"`, "get the time and all facts"},
		{"diskquorum/a.go", `import "time"; var t = time.Now()`, "time.Now"},
		{"diskquorum/a.go", `import clock "time"; func f() { clock.Sleep(1) }`, "clock.Sleep"},
		{"diskquorum/a.go", `import "math/rand/v2"; var x = rand.IntN(3)`, "rand.IntN"},
		{"watchdog/a.go", `import "github.com/fencing-agent/fencing-agent/boottime"; var x = boottime.Now()`, "boottime.Now"},
		{"watchdog/a.go", `import "github.com/fencing-agent/fencing-agent/boottime"; func f() { boottime.Wait(nil, 1) }`, "boottime.Wait"},
		{"watchdog/a.go", `func f() { go f() }`, "go statement"},
		{"netgossip/probing/a.go", `import "github.com/hashicorp/memberlist"`, "get the time and all facts"},
		{"netgossip/probing/a.go", `import "github.com/fencing-agent/fencing-agent/netgossip/swim"`, "the arrows of"},
		{"watchdog/a.go", `func init() {}`, "init function"},
		{"diskquorum/a.go", `import "math/rand/v2"; import "time"; var x = rand.New(rand.NewPCG(1, 2)); const d = time.Second`, ""},
		{"diskquorum/a_test.go", `import "sync"`, ""},
		{"integration/sim/a.go", `import "github.com/fencing-agent/fencing-agent/watchdog"`, ""},
	} {
		s := mustParse(t, c.name, "package p\n"+c.text+"\n")
		wantProblem(t, append(arrowProblems(s), pureProblems(s)...), c.want)
	}
}
