package fenceconfig

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// example returns deploy/controller/examples/nodefence.yaml, which people copy.
func example(t testing.TB) Objects {
	t.Helper()
	text, err := os.ReadFile("../../deploy/controller/examples/nodefence.yaml")
	if err != nil {
		t.Fatal(err)
	}
	objects := Objects{}
	for dec := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var o struct {
			Metadata struct{ Name string }
			Data     map[string]string
		}
		if err := dec.Decode(&o); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			t.Fatal(err)
		}
		objects[o.Metadata.Name] = o.Data
	}
}

func names(methods []Method) string {
	var out []string
	for _, m := range methods {
		out = append(out, m.Name)
	}
	return strings.Join(out, " ")
}

func TestExample(t *testing.T) {
	c := Read(example(t), nil)
	if len(c.Problems) > 0 {
		t.Fatalf("problems of the example: %v", c.Problems)
	}
	want := Cluster{Grace: 300 * time.Second, Retries: 5, JobTimeout: time.Minute, CheckTimeout: 20 * time.Second, Poll: 10 * time.Second,
		Settle: time.Minute, Trigger: 30 * time.Second, Monitor: 10 * time.Minute, MaxUnhealthy: 40, MaxSilent: 40, MaxConcurrent: 2,
		Cooldown: 5 * time.Minute, MostDump: 15 * time.Minute, SkipLeaseHeld: true, OnlyWithQuorum: true}
	if c.Cluster != want {
		t.Errorf("cluster: %+v", c.Cluster)
	}
	h0, h1 := c.Nodes["host0"], c.Nodes["host1"]
	if h0 == nil || h1 == nil || h0.Broken || len(c.Nodes) != 2 {
		t.Fatalf("nodes: %v", c.Nodes)
	}
	if got := names(h0.Isolation) + "|" + names(h0.Power) + "|" + names(h0.Recovery); got != "fc-off|eaton-off eaton-on|fc-on" {
		t.Errorf("host0: %s", got)
	}
	ordered, firstOn := Steps(h1.Power)
	if names(ordered) != "apc-off eaton-off apc-on eaton-on" || firstOn != 2 {
		t.Errorf("host1: %s, on from %d", names(ordered), firstOn)
	}
	m := h0.Power[0]
	if m.Agent != "fence_eaton_snmp" || m.Action != Off || !m.MustSuccess || !m.Confirm || m.option("plug") != "1" || m.option("snmp_sec_level") != "authPriv" {
		t.Errorf("method: %+v", m)
	}
	if len(m.Secrets) != 2 || m.Secrets[1] != (SecretRef{"snmp_priv_passwd", "fencing-devices", "eaton-privacy"}) {
		t.Errorf("secrets: %+v", m.Secrets)
	}
}

// change returns the example with lines of one object replaced.
func change(t *testing.T, object, from, to string) Objects {
	o := example(t)
	for key, text := range o[object] {
		if !strings.Contains(text, from) {
			t.Fatalf("%s has no %q", object, from)
		}
		o[object] = map[string]string{key: strings.Replace(text, from, to, 1)}
	}
	return o
}

func TestProblems(t *testing.T) {
	const node, method, template = "fence-config-host0", "fence-method-eaton-off-host0", "fence-method-template-eaton-pdu"
	for _, c := range []struct {
		object, from, to string
		want             string // part of the one problem
		warning          bool
	}{
		{node, "node_name=host0", "node_name=host", "but this ConfigMap is for node host0", false},
		{node, "node_name=host0\n", "", "node_name is not given", false},
		{node, "isolation=fc-off", "isolation=fc-on", "would not isolate", false},
		{node, "recovery=fc-on", "recovery=fc-off", "would cut off a node that is back", false},
		{node, "recovery=fc-on", "recovery=", "nothing undoes fc-off", true},
		{node, "eaton-off eaton-on", "eaton-on", "switches the same plug off", false},
		{node, "eaton-off eaton-on", "eaton-off eaton-off eaton-on", "twice", false},
		{node, "recovery=fc-on", "recovery=fc-on\nrecover=x", "recover is not a known key", false},
		{node, "recovery=fc-on", "recovery=fc-on\nkdump=yes", "kdump is \"yes\"", false},
		{node, "power_management", "power_managment", "spelt", true},
		{node, "isolation=fc-off", "isolation=../x fc-off", "cannot be a part of the name", false},
		{node, "isolation=fc-off", "isolation=sw-off fc-off", "there is no ConfigMap fence-method-sw-off-host0", false},
		{method, "action=off", "action=reboot", "allowed: on, off", false},
		{method, "action=off", "", "action is not given", false},
		{method, "action=off", "action=off\naction=on", "action is given twice", false},
		{method, "action=off", "action=off\nmust_success=no", "leaves the node running", false},
		{method, "action=off", "action=off\nmust_sucess=yes", "spelt", true},
		{method, "action=off", "action=off\npassword=x=y", "is in a ConfigMap", true},
		{method, "action=off", "action=off\nlogin=\"a\"", "in quotes", false},
		{method, "action=off", "action=off\nlogin=a\x01b", "control character", false},
		{method, "action=off", "action=off\nnodename=x", "may not be given", false},
		{method, "action=off", "action=off\npasswd_script=/bin/x", "may not be given", false},
		{method, "action=off", "action=off\nmissing-as-off=1", "may not be given", false},
		{method, "action=off", "action=off\nlogin_secret=../x", "allowed: SECRET/KEY", false},
		{method, "action=off", "action=off\nlogin_secret=a/..b", "allowed: SECRET/KEY", false},
		{method, "action=off", "action=off\nnonsense", "must be KEY=VALUE", false},
		{method, "template=fence-method-template-eaton-pdu\n", "", "template is not given", false},
		{method, "template=fence-method-template-eaton-pdu", "template=eaton-pdu", "there is no ConfigMap eaton-pdu", false},
		{template, "agent_name=fence_eaton_snmp", "agent_name=rm -rf", "the name of a fence agent", false},
		{template, "agent_name=fence_eaton_snmp\n", "", "agent_name is not given", false},
		{template, "username=fencing", "username=fencing\nusername_secret=a/b", "both username and username_secret", false},
		{"fence-cluster-config", "giveup_retries=5", "giveup_retries=5x", "allowed: 0 to 100", false},
		{"fence-cluster-config", "giveup_retries=5", "cooldown=5m", "cooldown is \"5m\"; allowed: 0 to 86400 seconds, without a unit", false},
		{"fence-cluster-config", "giveup_retries=5", "precentage=60", "spelt", true},
		{"fence-cluster-config", "giveup_retries=5", "monitor_interval=5", "monitor_interval is 5 seconds: it must be at least 60", true},
		{"fence-cluster-config", "giveup_retries=5", "retries=5", "not a known key", false},
	} {
		got := Read(change(t, c.object, c.from, c.to), nil)
		i := slices.IndexFunc(got.Problems, func(p Problem) bool { return strings.Contains(p.Text, c.want) && p.Warning == c.warning })
		if i < 0 {
			t.Errorf("%s with %q: %v", c.object, c.to, got.Problems)
		}
		if n := got.Nodes["host0"]; c.object != "fence-cluster-config" && n.Broken == c.warning {
			t.Errorf("%s with %q: broken is %v", c.object, c.to, n.Broken)
		}
		if n := got.Nodes["host1"]; n.Broken && c.object != template {
			t.Errorf("%s with %q broke the other node, too: %v", c.object, c.to, got.Problems)
		}
	}
}

// A limit that cannot be read is not replaced by a default that may be less careful: no fencing begins.
func TestClusterProblem(t *testing.T) {
	for to, want := range map[string]bool{"trigger_after=5m": true, "max_unhealthy_percent=10%": true, "precentage=10": false, "trigger_after=300": false} {
		if c := Read(change(t, ClusterObject, "trigger_after=30", to), nil); c.Broken != want {
			t.Errorf("%s: broken is %v: %v", to, c.Broken, c.Problems)
		}
	}
}

// The 5 was meant as minutes. It does not stop fencing, and keeps no device busy.
func TestMonitorIntervalHasABound(t *testing.T) {
	for to, want := range map[string]time.Duration{"monitor_interval=0": 0, "monitor_interval=5": time.Minute, "monitor_interval=61": 61 * time.Second, "": 10 * time.Minute} {
		if c := Read(change(t, ClusterObject, "trigger_after=30", to), nil); c.Cluster.Monitor != want || c.Broken {
			t.Errorf("%s: %v, broken %v", to, c.Cluster.Monitor, c.Broken)
		}
	}
}

// A configuration that was copied from another node and not changed would switch the other node off.
func TestOutletOfAnotherNode(t *testing.T) {
	for object, line := range map[string]string{"fence-method-eaton-off-host1": "plug=2", "fence-method-fc-off-host1": "plug=4"} {
		c := Read(change(t, object, line, map[string]string{"plug=2": "plug=1", "plug=4": "plug=3"}[line]), nil)
		for _, n := range c.Nodes {
			if !n.Broken {
				t.Errorf("%s of host0's outlet: %s is fenced: %v", object, n.Name, c.Problems)
			}
		}
	}
	o := change(t, "fence-method-eaton-off-host1", "plug=2", "plug=1\nswitch=2") // tells outlets apart, as switch=2 does
	o["fence-method-eaton-on-host1"] = map[string]string{MethodKey: "template=fence-method-template-eaton-pdu\nplug=1\naction=on\nswitch=2"}
	if c := Read(o, nil); c.Nodes["host0"].Broken || c.Nodes["host1"].Broken {
		t.Errorf("another option: %v", c.Problems)
	}
	// Method m-gpu of w and method m of gpu-w are one ConfigMap.
	o = Objects{
		"fence-config-w":          {ConfigKey: "node_name=w\nisolation=m-gpu"},
		"fence-config-gpu-w":      {ConfigKey: "node_name=gpu-w\nisolation=m"},
		"fence-method-m-gpu-w":    {MethodKey: "template=fence-method-template-t\naction=off"},
		"fence-method-template-t": {TemplateKey: "agent_name=fence_x"},
	}
	if c := Read(o, nil); !c.Nodes["w"].Broken || !c.Nodes["gpu-w"].Broken {
		t.Errorf("one method of two nodes: %v", c.Problems)
	}
	o["fence-config-gpu-w"] = map[string]string{ConfigKey: "node_name=gpu-w\nisolation=n"}
	o["fence-method-n-gpu-w"] = o["fence-method-m-gpu-w"]
	if c := Read(o, nil); c.Nodes["w"].Broken { // an agent without an address may rely on the node's name
		t.Errorf("%v", c.Problems)
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	o := change(t, "fence-config-host0", "node_name=host0", "node_name=host")
	o["fence-method-eaton-off-host0"] = map[string]string{MethodKey: "template=fence-method-template-none\nplug=1"}
	o["fecne-config-host9"] = map[string]string{ConfigKey: "node_name=host9"}
	o["fence-method-old-host0"] = map[string]string{MethodKey: "x"}
	c := Read(o, nil)
	if len(c.Problems) < 5 || c.Nodes["host9"] != nil {
		t.Errorf("problems: %v", c.Problems)
	}
}

// If a password is written where the name of a Secret belongs, it does not appear in logs or in the status of a
// NodeFence.
func TestProblemsShowNoPassword(t *testing.T) {
	_, problems := Merge("m", "template=t\naction=off\npassword_secret=hunter2\npassword=hunter2", "t", "agent_name=fence_x")
	if len(problems) == 0 || strings.Contains(problems[0].String()+problems[len(problems)-1].String(), "hunter2") {
		t.Error(problems)
	}
}

func TestMergeOverrides(t *testing.T) {
	m, problems := Merge("m", "template=t\naction=off\nsnmp_sec_level=noAuthNoPriv\npassword_secret=a/b\nlogin=x=y=z", "t",
		"agent_name=fence_x\naction=on\nsnmp-sec-level=authPriv\npassword=plain\nlogin=q\nport=7\nmust_success=no\nconfirm=none")
	if len(problems) > 0 {
		t.Error(problems)
	}
	want := []Option{{"login", "x=y=z"}, {"port", "7"}, {"snmp_sec_level", "noAuthNoPriv"}}
	if m.Action != Off || m.MustSuccess || m.Confirm || !slices.Equal(m.Options, want) || len(m.Secrets) != 1 {
		t.Errorf("merged: %+v", m)
	}
}

func TestDigest(t *testing.T) {
	m := func(text string) string {
		m, _ := Merge("m", text, "t", "agent_name=fence_x")
		return m.Digest()
	}
	base := m("action=off\nplug=1\npassword=a")
	if base != m("plug=1\npassword=b\naction=off") {
		t.Error("it depends on the order, or shows a password")
	}
	for _, other := range []string{"action=on\nplug=1\npassword=a", "action=off\nplug=2\npassword=a", "action=off\nplug=1\npassword=a\nx=", "action=off\nplug=1\npassword=a\nconfirm=none", "action=off\nplug=1\npassword_secret=a/b"} {
		if m(other) == base {
			t.Errorf("%q is not told apart", other)
		}
	}
}

func TestAgents(t *testing.T) {
	agents := Agents{"fence_x": {Actions: []string{"on", "off", "monitor"}, Parameters: []Parameter{
		{Name: "ip", Getopt: "-a", Required: true}, {Name: "ipaddr", Getopt: "-a", Required: true}, {Name: "plug", Getopt: "-n"}, {Name: "action", Getopt: "-o", Required: true},
	}}}
	for _, c := range []struct{ text, want string }{
		{"action=off\nconfirm=none\nip=1", ""},
		{"action=off\nconfirm=none\nipaddr=1\nplug=2", ""},
		{"action=off\nconfirm=none\nip=1\nipaddr=1", "two names of one option"},
		{"action=off\nconfirm=none", "needs the option ip"},
		{"action=off\nip=1", "no action status"},
		{"action=off\nconfirm=none\nip=1\nplgu=2", "no option plgu"},
	} {
		m, _ := Merge("m", c.text, "t", "agent_name=fence_x")
		got := agents.check(m)
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.Contains(got[0].Text, c.want)) {
			t.Errorf("%q: %v", c.text, got)
		}
	}
	if got := agents.check(Method{Agent: "fence_y"}); len(got) != 1 {
		t.Error("an agent that the image does not have")
	}
}

func FuzzRead(f *testing.F) {
	f.Add("node_name=n\nisolation=a b\npower_management=a\nrecovery=b", "template=fence-method-template-t\naction=off\nplug=1", "agent_name=fence_x\nip=1", "giveup_retries=3")
	f.Add("=\n#\n-=-", "a=b=c\na-b=1\na_b=2", "password_secret=a/b", "settle=-1")
	f.Fuzz(func(t *testing.T, node, method, template, cluster string) {
		o := Objects{
			"fence-config-n": {ConfigKey: node}, "fence-method-a-n": {MethodKey: method}, "fence-method-b-n": {MethodKey: template},
			"fence-method-template-t": {TemplateKey: template}, ClusterObject: {ConfigKey: cluster},
		}
		c := Read(o, Agents{"fence_x": {Actions: []string{"off"}}})
		n := c.Nodes["n"]
		if n == nil || c.Cluster.Poll < time.Second {
			t.Fatalf("%+v", c)
		}
		for _, m := range slices.Concat(n.Isolation, n.Power, n.Recovery) {
			if n.Broken {
				break
			}
			if m.Action != On && m.Action != Off || m.Agent == "" || m.Digest() == "" {
				t.Fatalf("taken: %+v", m)
			}
			for _, o := range m.Options {
				if strings.ContainsAny(o.Key+o.Value, "\n\r\x00") || !isWord(o.Key) {
					t.Fatalf("option %q", o)
				}
			}
		}
		ordered, firstOn := Steps(n.Power)
		for i, m := range ordered {
			if (m.Action == On) && i < firstOn || m.Action == Off && i > firstOn {
				t.Fatalf("order: %v", names(ordered))
			}
		}
	})
}

// If a switch fails, it takes some 15 s until all of its nodes are not Ready. Without a configured value no node is
// fenced before all of them count.
func TestNobodyIsFencedAtOnceByDefault(t *testing.T) {
	if c := Read(Objects{}, nil).Cluster; c.Trigger != 30*time.Second {
		t.Errorf("trigger_after is %v", c.Trigger)
	}
}
