package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The environment variables that the configuration reads.
const (
	EnvNodeName  = "NODE_NAME"
	EnvNodeGroup = "NODE_GROUP"
	// EnvNodeIP is the node's address in a pod of the chart: status.hostIP.
	EnvNodeIP = "NODE_IP"
	// EnvInCluster is set by the kubelet in every pod, to the API server's address.
	EnvInCluster = "KUBERNETES_SERVICE_HOST"
)

// maxFileSize in bytes leaves room for the longest roster on several networks.
const maxFileSize = 1 << 20

// LoadMembers reads the list of members again; the other keys of the file are not applied before the agent's restart.
// The whole file must be valid, but the list need not contain this node: that is how a node learns that it will be
// removed.
func LoadMembers(path string, env func(string) string) (*Members, error) {
	data, err := Read(path)
	if err != nil {
		return nil, err
	}
	r := newReport()
	r.anyMembers = true
	c, _, err := r.parse(path, data, env)
	if err != nil {
		return nil, err
	}
	return &c.Members, nil
}

// Load reads and checks the file at path. Empty keys are filled from env (os.Getenv). The error is an [*Invalid] if the
// file was read and refused; the warnings are valid in that case as well.
func Load(path string, env func(string) string) (*Config, []Problem, error) {
	data, err := Read(path)
	if err != nil {
		return nil, nil, err
	}
	return Parse(path, data, env)
}

// Read reads the file at path. If the file is too large, it reads only enough to see that.
func Read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	data, err := io.ReadAll(io.LimitReader(f, maxFileSize+1))
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return data, nil
}

// Parse is Load for a file that was read already; name stands for it in messages.
func Parse(name string, data []byte, env func(string) string) (*Config, []Problem, error) {
	return newReport().parse(name, data, env)
}

func (r *report) parse(name string, data []byte, env func(string) string) (*Config, []Problem, error) {
	c := Default()
	r.name = name
	r.decodeFile(data, c)
	if !r.refused[""] {
		fillFromEnvironment(c, r, env)
		c.InCluster = env(EnvInCluster) != ""
		fillNodeIP(c, r, env)
		fillNetwork(c, r, env)
		c.applyNodeDevices()
		c.applyNames(r.given)
		c.applyTiming(r.given)
		c.applyExperimental()
		check(c, r)
	}
	if warnings := sorted(r.warnings); len(r.problems) > 0 {
		return nil, warnings, &Invalid{File: name, Problems: sorted(r.problems)}
	}
	return c, sorted(r.warnings), nil
}

// decodeFile decodes a file. An empty file is an empty mapping.
func (r *report) decodeFile(data []byte, c *Config) {
	if doc := r.document(data); doc != nil && len(doc.Content) == 1 {
		r.decode("", doc.Content[0], reflect.ValueOf(c).Elem(), "")
	}
}

// document reads the only document of a file; nil: the file is empty, or refused.
func (r *report) document(data []byte) *yaml.Node {
	if len(data) > maxFileSize {
		r.refuse("", "is too large", fmt.Sprintf("more than %d bytes", maxFileSize), "a configuration file")
		return nil
	}
	var doc, next yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(data))
	switch err := d.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		r.syntax(err)
		return nil
	}
	if err := d.Decode(&next); err == nil {
		r.refused[""] = true
		r.add(Problem{Line: next.Line, What: "has a second document", Allowed: "one document"})
		return nil
	} else if !errors.Is(err, io.EOF) {
		r.syntax(err)
		return nil
	}
	return &doc
}

var yamlError = regexp.MustCompile(`^(?:yaml: )?(?:line ([0-9]+): )?(.*)`)

// syntax reports that the text is not YAML; nothing else can be checked then.
func (r *report) syntax(err error) {
	r.refused[""] = true
	text, _, _ := strings.Cut(err.Error(), "\n")
	m := yamlError.FindStringSubmatch(text)
	line, _ := strconv.Atoi(m[1]) // no number: no line
	r.add(Problem{Line: line, What: "is not YAML: " + shown(m[2])})
}

// fillFromEnvironment sets the two names that differ from node to node.
func fillFromEnvironment(c *Config, r *report, env func(string) string) {
	if c.NodeGroup == "" && r.intact("nodeGroup") {
		c.NodeGroup = env(EnvNodeGroup)
		if c.NodeGroup == "" {
			r.problem("nodeGroup", "is empty", nil, "the node's group, here or in $%s", EnvNodeGroup)
		} else {
			r.checkForm("nodeGroup", c.NodeGroup, "label value")
		}
	}
	if c.NodeName != "" || !r.intact("nodeName") {
		return
	}
	if c.NodeName = env(EnvNodeName); c.NodeName == "" {
		h, err := r.hostname()
		if r.everyNode && len(c.Members.Static) > 0 && !c.Members.lists(strings.ToLower(h)) {
			return
		}
		if err != nil || h == "" {
			r.problem("nodeName", "is empty and the host has no name", nil, "the node's name, here or in $%s", EnvNodeName)
			return
		}
		c.NodeName = strings.ToLower(h) // as the kubelet does
	}
	r.checkForm("nodeName", c.NodeName, "node name")
}

// onNodeIP is how http.address names the address that is in $NODE_IP.
const onNodeIP = "$" + EnvNodeIP + ":"

// fillNodeIP sets the host of http.address from the environment, if the file says so. A person who checks a file has
// no such variable, which does not make the file wrong.
func fillNodeIP(c *Config, r *report, env func(string) string) {
	port, ok := strings.CutPrefix(c.HTTP.Address, onNodeIP)
	if !ok || !r.intact("http.address") {
		return
	}
	ip, err := netip.ParseAddr(env(EnvNodeIP))
	switch {
	case err == nil && !ip.IsUnspecified():
		c.HTTP.Address = net.JoinHostPort(ip.String(), port)
	case !r.everyNode || env(EnvNodeIP) != "":
		r.problem("http.address", fmt.Sprintf("names $%s, which is not an address of this node (%q)", EnvNodeIP, env(EnvNodeIP)),
			c.HTTP.Address, "an address instead of the variable, or the variable set to one, in a pod from status.hostIP")
	}
}

// OnlyNetwork is the name of the network of a file that names none.
const OnlyNetwork = "node"

// fillNetwork gives a file without systemNetworks one network, on the node's address: the one that Kubernetes calls
// InternalIP and a pod has as status.hostIP. Two networks would be better, but the agent cannot guess them.
func fillNetwork(c *Config, r *report, env func(string) string) {
	if len(c.SystemNetworks) > 0 || !r.intact("systemNetworks") {
		return
	}
	ip, ok := parseAddress(env(EnvNodeIP))
	if !ok {
		if own, static := c.ownAddress(); static && env(EnvNodeIP) == "" {
			ip, ok = own, true
		}
	}
	if !ok {
		return // checkNetworks says what to do
	}
	n := SystemNetwork{Name: OnlyNetwork, At: Place{Address: ip}}
	n.setDefaults()
	c.SystemNetworks = []SystemNetwork{n}
}

// ownAddress is this node's address on that network by a static list.
func (c *Config) ownAddress() (netip.Addr, bool) {
	for _, m := range c.Members.Static {
		if m.Name == c.NodeName {
			return m.Addresses[OnlyNetwork], m.Addresses[OnlyNetwork].IsValid()
		}
	}
	return netip.Addr{}, false
}

// check runs the checks that need more than one key.
func check(c *Config, r *report) {
	checkNetworks(c, r)
	checkHTTP(c, r)
	checkMembers(c, r)
	checkQuorum(c, r)
	checkGossip(c, r)
	checkRestartGrace(c, r)
	checkLUN(c, r)
	checkNodeDevices(c, r)
	checkWatchdog(c, r)
	checkExperimental(c, r)
	checkPaths(c, r)
	checkSupported(c, r)
}

// repeated calls report for each element of a list that is equal to an earlier one.
func repeated[T comparable](list []T, report func(i, first int)) {
	for i, x := range list {
		if first := slices.Index(list, x); first < i {
			report(i, first)
		}
	}
}
