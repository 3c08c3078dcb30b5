package fenceconfig

import (
	"strings"
	"testing"
	"time"
)

const scsi = "agent_name=fence_scsi\ndevices=/dev/sdb,/dev/sdc\nhost_devices=yes\nstorage_driver=san.example\nstorage_barrier=lun-reset"

func mergeOf(method, template string) (Method, string) {
	m, problems := Merge("method", method, "template", template)
	var texts []string
	for _, p := range problems {
		texts = append(texts, p.Text)
	}
	return m, strings.Join(texts, "; ")
}

func TestStorage(t *testing.T) {
	m, problems := mergeOf("template=t\naction=off\nkey=4", scsi)
	if m.Storage != (Storage{Driver: "san.example", Reset: true}) || !m.HostDevices || len(m.Devices()) != 2 || problems != "" {
		t.Errorf("%+v, %s", m, problems)
	}
	for _, o := range m.Options { // they are not the agent's
		if strings.HasPrefix(o.Key, "storage") || o.Key == "host_devices" {
			t.Errorf("the agent is given %s", o.Key)
		}
	}
	if m, problems = mergeOf("template=t\naction=on\nkey=4", scsi); m.Storage != (Storage{}) || problems != "" {
		t.Errorf("on: %+v, %s", m.Storage, problems)
	}
	if m, problems = mergeOf("template=t\naction=off\nstorage_barrier=90", scsi); m.Storage.Vouched != 90*time.Second || m.Storage.Reset || problems != "" {
		t.Errorf("%+v, %s", m.Storage, problems)
	}
	for _, c := range []struct{ from, to, want string }{
		{"storage_barrier=lun-reset", "", "storage_driver needs storage_barrier; allowed: lun-reset, or the seconds"},
		{"=lun-reset", "=0", "1 to 86400"},
		{"=lun-reset", "=1m", "1 to 86400"},
		{"storage_driver=san.example\n", "", "without storage_driver"},
		{"san.example", "San/Example", "the name of a CSI driver"},
		{"host_devices=yes", "host_devices=no", "needs host_devices=yes"},
		{"devices=/dev/sdb,/dev/sdc\n", "", "the option devices lists"},
		{"host_devices=yes", "host_devices=yes\nconfirm=none", "needs confirm=status"},
		{"host_devices=yes", "host_devices=yes\nmust_success=no", "needs must_success=yes"},
	} {
		if m, problems := mergeOf("template=t\naction=off", strings.Replace(scsi, c.from, c.to, 1)); !strings.Contains(problems, c.want) || m.Storage.Reset || m.Storage.Vouched != 0 {
			t.Errorf("%q: %+v, %s", c.to, m.Storage, problems)
		}
	}
}

// A reservation key of two nodes would cut off the wrong one; and only isolation cuts a node off from a storage.
func TestKeysOfReservations(t *testing.T) {
	o := Objects{
		"fence-config-a":             {ConfigKey: "node_name=a\nisolation=cut\nrecovery=back"},
		"fence-config-b":             {ConfigKey: "node_name=b\nisolation=cut\nrecovery=back"},
		"fence-method-template-scsi": {TemplateKey: scsi},
	}
	for _, n := range []string{"a", "b"} {
		for name, action := range map[string]string{"cut": "off", "back": "on"} {
			o["fence-method-"+name+"-"+n] = map[string]string{MethodKey: "template=fence-method-template-scsi\nplug=" + n + "\nkey=a" + n + "\naction=" + action}
		}
	}
	if c := Read(o, nil); len(c.Problems) > 0 {
		t.Fatal(c.Problems)
	}
	o["fence-method-cut-b"] = map[string]string{MethodKey: "template=fence-method-template-scsi\nplug=b\nkey=AA\naction=off"}
	if c := Read(o, nil); !c.Nodes["a"].Broken || !c.Nodes["b"].Broken {
		t.Errorf("two nodes have one key: %v", c.Problems)
	}
	o["fence-method-cut-b"] = map[string]string{MethodKey: "template=fence-method-template-scsi\nplug=b\nkey=ab\naction=off"}
	o["fence-config-b"] = map[string]string{ConfigKey: "node_name=b\npower_management=cut back"}
	if c := Read(o, nil); !c.Nodes["b"].Broken || !strings.Contains(c.Problems[0].Text, "only a method of isolation") {
		t.Errorf("%v", c.Problems)
	}
}

func TestDevices(t *testing.T) {
	o := example(t)
	var got []string
	for _, d := range Read(o, nil).Devices() {
		got = append(got, d.Name+" of "+d.Node)
	}
	want := "fence_apc_snmp 192.168.1.3 of host1; fence_brocade 192.168.1.2 of host0; fence_eaton_snmp 192.168.1.4 of host0"
	if text := strings.Join(got, "; "); text != want {
		t.Errorf("%s, want %s", text, want)
	}
	for name := range o {
		if strings.HasPrefix(name, "fence-method-template-") && strings.Contains(o[name][TemplateKey], "fence_brocade") {
			o[name] = map[string]string{TemplateKey: o[name][TemplateKey] + "\nhost_devices=yes"}
		}
	}
	for _, d := range Read(o, nil).Devices() {
		if d.Method.Agent == "fence_brocade" {
			t.Errorf("%+v", d)
		}
	}
}
