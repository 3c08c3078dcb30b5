package config

import (
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Config is the whole configuration.
type Config struct {
	DryRun            bool
	Kubeconfig        string // empty: the service account of the pod
	GroupLabel        string
	MinReporters      int
	ReadyUnknown      bool
	GroupsOfTwo       []string
	StatefulSetsOnly  bool
	ExcludeNamespaces []string
	Settle            time.Duration
	Evicting          int
	DeletesPerSecond  int
	MaxDeadPercent    int
	Pause             time.Duration
	MetricsAddress    string
	HealthAddress     string
	PageAddress       string // empty: there is no page
	PageForAnybody    bool
	NodeFence         bool
	FenceNamespace    string
	ExecutorImage     string
	Members           bool
	MembersAddress    string
	MembersCert       string
	MembersKey        string
	MembersAudience   string
	MembersAgents     []string
	KdumpAddress      string // empty: the controller does not listen
	ExecutorSelector  map[string]string
}

// Default is the configuration of an empty file. dryRun stays on until an administrator turns it off.
func Default() *Config {
	return &Config{
		DryRun: true, GroupLabel: "node.deckhouse.io/group", MinReporters: 2, ReadyUnknown: true, GroupsOfTwo: []string{},
		ExcludeNamespaces: []string{"kube-system"}, Settle: time.Second, Evicting: 1, DeletesPerSecond: 20, MaxDeadPercent: 100,
		Pause: 3 * time.Second, MetricsAddress: ":9120", HealthAddress: ":9121", PageAddress: "127.0.0.1:9124",
		FenceNamespace: "fencing-controller", ExecutorSelector: map[string]string{}, MembersAddress: ":9122", MembersAudience: "fencing-controller", MembersAgents: []string{},
		MembersCert: "/etc/fencing-controller-members/tls.crt", MembersKey: "/etc/fencing-controller-members/tls.key",
	}
}

// key is one key of the file.
type key struct {
	path, example, about string
	set                  func(c *Config, n *yaml.Node) (allowed string, ok bool)
}

// keys lists all keys, in the order of the example.
func keys() []key {
	return []key{
		{"dryRun", "true", "true: write nothing but Events and the log; false: act", boolean(func(c *Config) *bool { return &c.DryRun })},
		{"kubeconfig", `""`, "a file; empty: the service account of the pod", text(func(c *Config) *string { return &c.Kubeconfig }, true)},
		{"groupLabel", "node.deckhouse.io/group", "the label by which Nodes are of one group", text(func(c *Config) *string { return &c.GroupLabel }, false)},
		{"evidence.minReporters", "2", "different Nodes that have to name a boot; all the others in a group of fewer, but two at least", number(func(c *Config) *int { return &c.MinReporters }, 2, 32)},
		{"evidence.readyUnknown", "true", "one Node is enough if the dead Node's Ready is Unknown", boolean(func(c *Config) *bool { return &c.ReadyUnknown })},
		{"evidence.groupsOfTwo", "[]", "groups in which one Node is enough, as long as they have two: anyone who takes over one of them is believed", list(func(c *Config) *[]string { return &c.GroupsOfTwo })},
		{"recovery.pods", "all", "all, or statefulset: the pods that are deleted without grace (the taint evicts all)", pods},
		{"recovery.excludeNamespaces", "[kube-system]", "whose pods are left to the taint; the admission policy has to agree", excluded},
		{"recovery.settle", "1s", "from the taint to the first deletion; 10s with kubelets before 1.35 and several API servers", duration(func(c *Config) *time.Duration { return &c.Settle }, time.Second, time.Minute)},
		{"storm.evicting", "1", "how many nodes at a time have pods that wait for the taint eviction", number(func(c *Config) *int { return &c.Evicting }, 1, 1000)},
		{"storm.deletesPerSecond", "20", "deletions without grace, each second", number(func(c *Config) *int { return &c.DeletesPerSecond }, 1, 1000)},
		{"storm.maxDeadPercent", "100", "of a group; beyond that the next node that dies waits for a person", number(func(c *Config) *int { return &c.MaxDeadPercent }, 1, 100)},
		{"replicas.pause", "3s", "how long a replica leaves a node to each replica before it in the order", duration(func(c *Config) *time.Duration { return &c.Pause }, 0, time.Minute)},
		{"nodeFence.enabled", "false", "fence nodes by their devices as well (docs/power.md); it needs the CustomResourceDefinition", boolean(func(c *Config) *bool { return &c.NodeFence })},
		{"nodeFence.namespace", "fencing-controller", "of the ConfigMaps, Secrets and Jobs", text(func(c *Config) *string { return &c.FenceNamespace }, false)},
		{"nodeFence.image", `""`, "of the executor; it has to be given with enabled: true", text(func(c *Config) *string { return &c.ExecutorImage }, true)},
		{"nodeFence.kdumpAddress", `""`, "where crash kernels are listened to (fence_kdump sends to port 7410), as \":7410\"; empty: nowhere", address(func(c *Config) *string { return &c.KdumpAddress }, "")},
		{"nodeFence.executorNodeSelector", "{}", "labels of the nodes that executors run on: those that reach the devices; {} is all but the one that is fenced", selector},
		{"members.enabled", "false", "serve lists of members to agents with members.source: controller", boolean(func(c *Config) *bool { return &c.Members })},
		{"members.address", `":9122"`, "where they are served, by gRPC over TLS", address(func(c *Config) *string { return &c.MembersAddress }, listens)},
		{"members.certFile", "/etc/fencing-controller-members/tls.crt", "the server's certificate; read again for each connection", text(func(c *Config) *string { return &c.MembersCert }, false)},
		{"members.keyFile", "/etc/fencing-controller-members/tls.key", "and its key", text(func(c *Config) *string { return &c.MembersKey }, false)},
		{"members.audience", "fencing-controller", "of the agents' tokens", text(func(c *Config) *string { return &c.MembersAudience }, false)},
		{"members.agents", "[]", "service accounts of the agents, NAMESPACE/NAME; it has to be given with enabled: true", accounts},
		{"metrics.address", `":9120"`, "where metrics are served", address(func(c *Config) *string { return &c.MetricsAddress }, "0")},
		{"page.address", `"127.0.0.1:9124"`, "where the status page is served; empty: nowhere", address(func(c *Config) *string { return &c.PageAddress }, "")},
		{"page.clients", "loopback", "who is shown it: loopback (and what is forwarded to it), or any", clients},
		{"health.address", `":9121"`, "where /healthz and /readyz are served", address(func(c *Config) *string { return &c.HealthAddress }, "0")},
	}
}

// Example returns a file with every key at its default.
func Example() string {
	var b strings.Builder
	section := ""
	for _, k := range keys() {
		s, name, nested := strings.Cut(k.path, ".")
		line := k.path + ": " + k.example
		if nested {
			if s != section {
				b.WriteString(s + ":\n")
			}
			section, line = s, "  "+name+": "+k.example
		}
		fmt.Fprintf(&b, "%-36s # %s\n", line, k.about)
	}
	return b.String()
}

// Load reads the file at path.
func Load(path string) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return Parse(path, data)
}

// Invalid is the error of a file that was read and refused: all its problems, by line.
type Invalid struct {
	File     string
	Problems []Problem
}

// Problem is one problem of a file.
type Problem struct {
	Line int
	Text string
}

// Error prints one problem per line.
func (e *Invalid) Error() string {
	var lines []string
	for _, p := range e.Problems {
		lines = append(lines, fmt.Sprintf("%s:%d: %s", e.File, p.Line, p.Text))
	}
	return strings.Join(lines, "\n")
}

// Parse reads a file's text. Messages call the file name.
func Parse(name string, data []byte) (*Config, error) {
	c, bad := Default(), &Invalid{File: name}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(doc.Content) > 0 {
		bad.section("", doc.Content[0], c)
	}
	if c.NodeFence && c.ExecutorImage == "" {
		bad.add(1, "nodeFence.image is not given, and nodeFence.enabled is true; allowed: an image that make images KIND=executor has built")
	}
	if c.Members && len(c.MembersAgents) == 0 {
		bad.add(1, "members.agents is not given, and members.enabled is true; allowed: the service accounts of the agents, NAMESPACE/NAME")
	}
	if len(bad.Problems) > 0 {
		slices.SortStableFunc(bad.Problems, func(a, b Problem) int { return a.Line - b.Line })
		return nil, bad
	}
	return c, nil
}

func (e *Invalid) add(line int, format string, args ...any) {
	e.Problems = append(e.Problems, Problem{line, fmt.Sprintf(format, args...)})
}

func (e *Invalid) section(prefix string, n *yaml.Node, c *Config) {
	if n.Kind != yaml.MappingNode {
		e.add(n.Line, "%s is not a mapping; allowed: %s", orFile(prefix), strings.Join(names(prefix), ", "))
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		at, value := n.Content[i], n.Content[i+1]
		path := at.Value
		if prefix != "" {
			path = prefix + "." + path
		}
		if seen[path] {
			e.add(at.Line, "%s is given twice", path)
			continue
		}
		seen[path] = true
		all := keys()
		k := slices.IndexFunc(all, func(k key) bool { return k.path == path })
		switch {
		case prefix == "" && slices.ContainsFunc(all, func(k key) bool { return strings.HasPrefix(k.path, path+".") }):
			e.section(path, value, c)
		case k < 0:
			e.add(at.Line, "%s is not a known key; known: %s", path, strings.Join(names(prefix), ", "))
		default:
			if allowed, ok := all[k].set(c, value); !ok {
				e.add(value.Line, "%s: %q is not possible; allowed: %s", path, value.Value, allowed)
			}
		}
	}
}

func orFile(prefix string) string {
	if prefix == "" {
		return "the file"
	}
	return prefix
}

// names returns the keys of a section.
func names(prefix string) []string {
	var out []string
	for _, k := range keys() {
		section, name, nested := strings.Cut(k.path, ".")
		switch {
		case prefix == "":
			out = append(out, section)
		case nested && section == prefix:
			out = append(out, name)
		}
	}
	return slices.Compact(out)
}

type setter = func(c *Config, n *yaml.Node) (string, bool)

func boolean(at func(*Config) *bool) setter {
	return func(c *Config, n *yaml.Node) (string, bool) {
		return "true or false", n.Kind == yaml.ScalarNode && n.Tag == "!!bool" && n.Decode(at(c)) == nil
	}
}

func number(at func(*Config) *int, low, high int) setter {
	return func(c *Config, n *yaml.Node) (string, bool) {
		i, err := strconv.Atoi(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil || i < low || i > high {
			return fmt.Sprintf("%d to %d", low, high), false
		}
		*at(c) = i
		return "", true
	}
}

func duration(at func(*Config) *time.Duration, low, high time.Duration) setter {
	return func(c *Config, n *yaml.Node) (string, bool) {
		d, err := time.ParseDuration(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil || d < low || d > high {
			return fmt.Sprintf("%v to %v, with a unit (ms, s, m)", low, high), false
		}
		*at(c) = d
		return "", true
	}
}

func text(at func(*Config) *string, empty bool) setter {
	return func(c *Config, n *yaml.Node) (string, bool) {
		if n.Kind != yaml.ScalarNode || n.Tag != "!!str" || n.Value == "" && !empty {
			return "a string", false
		}
		*at(c) = n.Value
		return "", true
	}
}

// listens marks an address that cannot be switched off.
const listens = "-"

// address returns an address to listen at, or the text for not listening. Port 0 means any free port.
func address(at func(*Config) *string, nowhere string) setter {
	allowed := `HOST:PORT or :PORT to listen at, in quotes, such as "127.0.0.1:9124"`
	if nowhere != listens {
		allowed += fmt.Sprintf("; %q for nowhere", nowhere)
	}
	return func(c *Config, n *yaml.Node) (string, bool) {
		_, port, err := net.SplitHostPort(n.Value)
		if err == nil {
			_, err = strconv.ParseUint(port, 10, 16)
		}
		if n.Kind != yaml.ScalarNode || n.Tag != "!!str" || err != nil && (n.Value != nowhere || nowhere == listens) {
			return allowed, false
		}
		*at(c) = n.Value
		return "", true
	}
}

func list(at func(*Config) *[]string) setter {
	return func(c *Config, n *yaml.Node) (string, bool) {
		out := []string{}
		if n.Kind != yaml.SequenceNode || n.Decode(&out) != nil {
			return "a list of strings, [] for none", false
		}
		*at(c) = out
		return "", true
	}
}

func accounts(c *Config, n *yaml.Node) (string, bool) {
	_, ok := list(func(c *Config) *[]string { return &c.MembersAgents })(c, n)
	for _, a := range c.MembersAgents {
		space, name, found := strings.Cut(a, "/")
		ok = ok && found && space != "" && name != "" && !strings.Contains(name, "/")
	}
	return "a list of NAMESPACE/NAME, [] for none", ok
}

// These patterns define the parts of a label.
var (
	labelKey   = regexp.MustCompile(`^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
	labelValue = regexp.MustCompile(`^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$`)
)

// selector reads labels in the form of a Pod's nodeSelector.
func selector(c *Config, n *yaml.Node) (string, bool) {
	out := map[string]string{}
	if n.Kind != yaml.MappingNode || n.Decode(&out) != nil {
		return "a mapping of labels to values, {} for none", false
	}
	for key, value := range out {
		if !labelKey.MatchString(key) || !labelValue.MatchString(value) {
			return "labels of Nodes, such as {node-role.kubernetes.io/control-plane: \"\"}", false
		}
	}
	c.ExecutorSelector = out
	return "", true
}

// excluded must name what the admission policy forbids. Otherwise each attempt would be refused, for ever.
func excluded(c *Config, n *yaml.Node) (string, bool) {
	allowed, ok := list(func(c *Config) *[]string { return &c.ExcludeNamespaces })(c, n)
	if ok && !slices.Contains(c.ExcludeNamespaces, "kube-system") {
		return "a list that has kube-system", false
	}
	return allowed, ok
}

func clients(c *Config, n *yaml.Node) (string, bool) {
	c.PageForAnybody = n.Value == "any"
	return "loopback, any", n.Value == "loopback" || n.Value == "any"
}

func pods(c *Config, n *yaml.Node) (string, bool) {
	c.StatefulSetsOnly = n.Value == "statefulset"
	return "all, statefulset", n.Value == "all" || n.Value == "statefulset"
}
