package fenceconfig

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// An object that looks like a part of the configuration and is not read is reported, and does not make a node broken.
// Foreign objects are not reported.
func TestWhatLooksLikeOursIsNotPassedOver(t *testing.T) {
	for name, c := range map[string]struct {
		data map[string]string
		told bool
	}{
		"fecne-config-host9":               {map[string]string{ConfigKey: "node_name=host9"}, true},
		"fence-cofnig-host9":               {map[string]string{ConfigKey: "node_name=host9"}, true},
		"fence-confg-host9":                {nil, true},
		"fence-config":                     {map[string]string{"node_name": "host9"}, true},
		"node-fence-config":                {map[string]string{"node_name": "host9", "fence_stage1": "a"}, true}, // of the first draft
		"node-fence-config-host9":          {map[string]string{"x": ""}, true},
		"fence-stage-isolate":              {map[string]string{"priority": "5", "execution_policy": "all"}, true},
		"fence-methd-x-host0":              {map[string]string{MethodKey: "template=t"}, true},
		"fence-methods-x-host0":            {map[string]string{MethodKey: "template=t"}, true},
		"fence-method-old-host0":           {map[string]string{MethodKey: "x"}, true}, // no node uses it
		"fence-method-tempalte-x":          {map[string]string{TemplateKey: "agent_name=fence_x"}, true},
		"fence-cluster-cofnig":             {map[string]string{ConfigKey: "grace_timeout=1"}, true},
		"fence-clusters-config":            {map[string]string{ConfigKey: "grace_timeout=1"}, true},
		"fencing-config-host9":             {map[string]string{"x": "y"}, true},
		"fence-agent":                      {map[string]string{AgentsKey: "{}"}, true},
		"host9":                            {map[string]string{ConfigKey: "node_name=host9\npower_management=x"}, true},
		"our-pdus":                         {map[string]string{"template.propertis": "agent-name=fence_x"}, true},
		"stonith":                          {map[string]string{"fence_method1": "x"}, true},
		"kube-root-ca.crt":                 {map[string]string{"ca.crt": "-----BEGIN CERTIFICATE-----\nMIIC=\n"}, false},
		"fencing-sightings-n4":             {map[string]string{"sighting": "{}"}, false},
		"fencing-deaths-n4":                {map[string]string{"deaths": "{}"}, false},
		"fencing-members-storage":          {map[string]string{"book": "{}"}, false},
		"fencing-controller":               {map[string]string{"config.yaml": "dryRun: false"}, false},
		"fencing-controller-config":        {map[string]string{"config.yaml": "nodeFence: {enabled: true}"}, false},
		"some-java-program":                {map[string]string{"config.properties": "server.port=80\nplug.in=x\naction=off"}, false},
		"fence-method-template-not-in-use": {map[string]string{TemplateKey: "agent_name=fence_x"}, false},
	} {
		o := example(t)
		o[name] = c.data
		got := Read(o, nil)
		told := slices.ContainsFunc(got.Problems, func(p Problem) bool { return p.Object == name && p.Unread && p.Warning })
		if told != c.told || got.Nodes["host0"].Broken || got.Broken {
			t.Errorf("%s: told %v, want %v: %v", name, told, c.told, got.Problems)
		}
	}
}

// A key that the controller does not read is reported.
func TestKeysThatAreNotRead(t *testing.T) {
	o := example(t)
	o["fence-config-host0"]["config.propertis"] = "kdump=true"
	if got := Read(o, nil); len(got.Problems) != 1 || !got.Problems[0].Unread || !strings.Contains(got.Problems[0].Text, "config.propertis is not read") {
		t.Error(got.Problems)
	}
	o = example(t)
	o[ClusterObject] = map[string]string{"config.property": "max_concurrent=1"}
	if got := Read(o, nil); !got.Broken || !strings.Contains(got.Problems[0].Text, "no key "+ConfigKey) {
		t.Error("limits that are not read hold", got.Problems)
	}
}

// The name of an older draft for the part for all nodes is read as well, but not together with the present one.
func TestTheOtherNameOfTheClustersConfig(t *testing.T) {
	o := example(t)
	delete(o, ClusterObject)
	o[ClusterAlias] = map[string]string{ConfigKey: "giveup_retries=9"}
	if got := Read(o, nil); got.Cluster.Retries != 9 || len(got.Problems) > 0 || got.Broken {
		t.Errorf("%+v %v", got.Cluster, got.Problems)
	}
	o[ClusterAlias] = map[string]string{ConfigKey: "giveup_retries=x"}
	if got := Read(o, nil); !got.Broken || got.Problems[0].Object != ClusterAlias {
		t.Error(got.Problems)
	}
	o[ClusterAlias] = map[string]string{ConfigKey: "giveup_retries=9"}
	o[ClusterObject] = map[string]string{ConfigKey: "giveup_retries=3"}
	if got := Read(o, nil); !got.Broken || !strings.Contains(got.Problems[0].Text, ClusterAlias) {
		t.Error("two of them are read", got.Problems)
	}
}

// An option that the agent does not know does not make a method unusable, unless it may be a misspelt one.
func TestAnOptionThatTheAgentIgnores(t *testing.T) {
	agents := `{"fence_eaton_snmp": {"actions": ["on", "off", "status", "monitor"], "parameters": [
		{"name": "ip", "getopt": "-a", "required": true}, {"name": "ipaddr", "getopt": "-a", "required": true}, {"name": "plug", "getopt": "-n", "required": true},
		{"name": "port", "getopt": "-n", "required": true}, {"name": "login", "getopt": "-l"}, {"name": "username", "getopt": "-l"}, {"name": "passwd", "getopt": "-p"},
		{"name": "password", "getopt": "-p"}, {"name": "snmp_version", "getopt": "-d"}, {"name": "snmp_sec_level", "getopt": "-E"}, {"name": "snmp_auth_prot", "getopt": "-b"},
		{"name": "snmp_priv_prot", "getopt": "-B"}, {"name": "snmp_priv_passwd", "getopt": "-P"}, {"name": "switch", "getopt": "-s"}]}}`
	for option, refused := range map[string]bool{
		"inet4-only=true": false, "colour=blue": false,
		"swich=2": true, "Switch=2": true, "snmp_sec_lvl=x": true, "plg=2": true,
	} {
		o := change(t, "fence-method-template-eaton-pdu", "snmp-sec-level=authPriv", "snmp-sec-level=authPriv\n"+option)
		if option == "snmp_sec_lvl=x" || option == "plg=2" {
			o = change(t, "fence-method-template-eaton-pdu", "snmp-sec-level=authPriv", "snmp_sec_lvl=authPriv")
		}
		if option == "plg=2" {
			o = change(t, "fence-method-eaton-off-host0", "plug=1", "plg=1")
		}
		for _, name := range []string{"fc-switch-brocade", "apc-pdu"} { // they are not part of this test
			for object := range o {
				if strings.Contains(o[object][MethodKey], name) || strings.HasSuffix(object, name) {
					delete(o, object)
				}
			}
		}
		o["fence-config-host0"] = map[string]string{ConfigKey: "node_name=host0\npower_management=eaton-off eaton-on"}
		delete(o, "fence-config-host1")
		o[AgentsObject] = map[string]string{AgentsKey: agents}
		got := CheckAgents(o, json.Unmarshal)
		told := slices.ContainsFunc(got.Problems, func(p Problem) bool { return !p.Unread && strings.Contains(p.Text, "option") })
		if n := got.Nodes["host0"]; n.Broken != refused || !told {
			t.Errorf("%s: refused %v, want %v: %v", option, n.Broken, refused, got.Problems)
		}
	}
}

// Two nodes cannot have one board, in whatever spelling, and two supplies cannot have one outlet.
func TestOneOutletWrittenInTwoWays(t *testing.T) {
	for name, c := range map[string]struct {
		a, b string
		same bool
	}{
		"a copy with another password": {"agent_name=fence_ipmilan\nip=192.0.2.1\nusername=a", "agent_name=fence_ipmilan\nip=192.0.2.1\nusername=b\nlanplus=1\nlogin_timeout=9", true},
		"ip and ipaddr":                {"agent_name=fence_ipmilan\nip=192.0.2.1", "agent_name=fence_ipmilan\nipaddr=192.0.2.1", true},
		"names of one agent":           {"agent_name=fence_ipmilan\nip=192.0.2.1", "agent_name=fence_idrac\nip=192.0.2.1", true},
		"IPv6":                         {"agent_name=fence_ipmilan\nip=2001:db8::1", "agent_name=fence_ipmilan\nip=2001:DB8:0:0::1", true},
		"letters of a name":            {"agent_name=fence_ipmilan\nip=bmc1.example", "agent_name=fence_ipmilan\nip=BMC1.example.", true},
		"two boards":                   {"agent_name=fence_ipmilan\nip=192.0.2.1", "agent_name=fence_ipmilan\nip=192.0.2.2", false},
		"two ports of one address":     {"agent_name=fence_ipmilan\nip=192.0.2.1\nipport=623", "agent_name=fence_ipmilan\nip=192.0.2.1\nipport=624", false},
		"two outlets":                  {"agent_name=fence_apc\nip=192.0.2.1\nplug=1", "agent_name=fence_apc\nip=192.0.2.1\nport=2", false},
		"two switches":                 {"agent_name=fence_apc\nip=192.0.2.1\nplug=1\nswitch=1", "agent_name=fence_apc\nip=192.0.2.1\nplug=1\nswitch=2", false},
	} {
		o := Objects{
			"fence-config-n1": {ConfigKey: "node_name=n1\npower_management=off on"}, "fence-config-n2": {ConfigKey: "node_name=n2\npower_management=off on"},
			"fence-config-n3":          {ConfigKey: "node_name=n3\npower_management=off on off2 on2"},
			"fence-method-template-t1": {TemplateKey: c.a}, "fence-method-template-t2": {TemplateKey: c.b},
		}
		for _, action := range []string{"off", "on"} {
			o["fence-method-"+action+"-n1"] = map[string]string{MethodKey: "template=fence-method-template-t1\naction=" + action}
			o["fence-method-"+action+"-n2"] = map[string]string{MethodKey: "template=fence-method-template-t2\naction=" + action}
			o["fence-method-"+action+"-n3"] = map[string]string{MethodKey: "template=fence-method-template-t1\naction=" + action}
			o["fence-method-"+action+"2-n3"] = map[string]string{MethodKey: "template=fence-method-template-t2\naction=" + action}
		}
		three := o["fence-config-n3"]
		delete(o, "fence-config-n3")
		if got := Read(o, nil); got.Nodes["n2"].Broken != c.same || got.Nodes["n1"].Broken != c.same {
			t.Errorf("%s: of two nodes: %v", name, got.Problems)
		}
		o["fence-config-n3"] = three
		delete(o, "fence-config-n1")
		delete(o, "fence-config-n2")
		if got := Read(o, nil); got.Nodes["n3"].Broken != c.same {
			t.Errorf("%s: of two supplies: %v", name, got.Problems)
		}
	}
}

// Values that an agent could not use are refused.
func TestAddressesAndPorts(t *testing.T) {
	for line, bad := range map[string]bool{
		"ip=192.0.2.1": false, "ip=2001:db8::1": false, "ip=::1": false, "ip=fe80::1%eth0": false, "ip=bmc.example": false, "ipport=623": false, "udpport=161": false,
		"ip=192.0.2.1:623": true, "ip=[2001:db8::1]:623": true, "ip=[::1]": true, "ip=https://bmc.example": true, "ip=192.0.2.1 192.0.2.2": true, "ip=": true, "ipaddr=bmc:623": true,
		"ipport=0": true, "ipport=70000": true, "ipport=http": true, "udpport=-1": true, "ipport=0623": true,
	} {
		_, problems := Merge("m", "action=off\n"+line, "t", "agent_name=fence_x")
		if refused := len(problems) > 0; refused != bad {
			t.Errorf("%s: %v", line, problems)
		}
	}
}

// Methods returns all methods of a node, of each step, each once.
func TestMethodsOfANode(t *testing.T) {
	n := Read(example(t), nil).Nodes["host1"]
	var names []string
	for _, m := range n.Methods() {
		names = append(names, m.Name)
	}
	if got := strings.Join(names, " "); got != "fc-off apc-off apc-on eaton-off eaton-on fc-on" {
		t.Error(got)
	}
}
