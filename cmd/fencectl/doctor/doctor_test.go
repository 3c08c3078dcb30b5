package doctor

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
)

// machine creates a root with these files; a value that begins with -> is a link.
func machine(t *testing.T, files map[string]string) *Machine {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if to, ok := strings.CutPrefix(text, "->"); ok {
			err = os.Symlink(to, p)
		} else {
			err = os.WriteFile(p, []byte(text+"\n"), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	c := &config.Config{SystemNetworks: []config.SystemNetwork{{At: config.Place{Interface: "eth0"}, Port: 7946}}}
	c.Members.CacheFile = "/var/lib/fencing-agent/members.json"
	c.Gossip.KeyFile, c.LUN.Devices, c.LUN.IOTimeout = "/etc/keys", []string{"/dev/mapper/fence"}, 2*time.Second
	return &Machine{Root: root, Config: c, Paths: func(string, string) ([]Finding, error) { return nil, nil }}
}

func good() map[string]string {
	return map[string]string{
		"sys/class/watchdog/watchdog0/identity": "iTCO_wdt", "sys/class/watchdog/watchdog0/timeout": "30", "sys/class/watchdog/watchdog0/state": "active",
		"proc/sys/kernel/random/boot_id": "6b1b7c1e-9a3c-4d8e-8a57-0b1c2d3e4f50",
		"var/lib/fencing-agent/members-watchdog": `{"version":1}
{"trial":{"identity":"iTCO_wdt","timeout":30000000000,"boot":7,"began":"2026-01-02T03:04:05Z","ran":60000000000,"next":60200000000}}`,
		"proc/7/comm": "fencing-agent", "proc/7/fd/3": "->/dev/watchdog0", "etc/keys": "MDEyMzQ1Njc4OWFiY2RlZg==", "sys/class/net/eth0/operstate": "up", "dev/mapper/fence": "",
		"etc/systemd/system.conf": "#RuntimeWatchdogSec=1\nRuntimeWatchdogSec=off", "proc/net/udp": "  sl  local_address\n   0: 0100000A:1F0A 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4711 2 0", "proc/7/fd/9": "->socket:[4711]",
	}
}

// On a machine in good order every finding is ok.
func TestGoodMachine(t *testing.T) {
	findings := machine(t, good()).Look()
	for _, f := range findings {
		if f.Level != OK || f.Do != "" || f.Found == "" {
			t.Errorf("%+v", f)
		}
	}
	if len(findings) != 7 {
		t.Errorf("%d findings: %+v", len(findings), findings)
	}
}

// Guards: each row is a machine with one fault, and the finding for it.
func TestFindings(t *testing.T) {
	for name, c := range map[string]struct {
		change  map[string]string // "-": the file does not exist
		level   Level
		subject string
		says    string
	}{
		"no watchdog":                     {map[string]string{"sys/class/watchdog/watchdog0/identity": "-", "sys/class/watchdog/watchdog0/timeout": "-", "sys/class/watchdog/watchdog0/state": "-"}, Wrong, "watchdog", "there is none"},
		"no driver":                       {map[string]string{"sys/class/watchdog/watchdog0/identity": "-", "sys/class/watchdog/watchdog0/timeout": "-", "sys/class/watchdog/watchdog0/state": "-", "dev/watchdog": ""}, Wrong, "watchdog", "/dev/watchdog has no driver"},
		"outside of the core":             {map[string]string{"sys/class/watchdog/watchdog0/identity": "-", "sys/class/watchdog/watchdog0/timeout": "-", "sys/class/watchdog/watchdog0/state": "-", "dev/watchdog": "", "sys/class/misc/watchdog/dev": "10:130", "sys/module/ipmi_watchdog/refcnt": "0", "proc/7/fd/3": "->/dev/watchdog"}, Warn, "watchdog", "IPMI, timeout ? s, held by fencing-agent (7)"},
		"held by another":                 {map[string]string{"proc/7/comm": "wd_keepalive"}, Wrong, "watchdog0", "held by wd_keepalive (7)"},
		"held by two":                     {map[string]string{"proc/9/comm": "sbd", "proc/9/fd/5": "->/dev/watchdog"}, Wrong, "watchdog0", "sbd (9)"},
		"left counting":                   {map[string]string{"proc/7/fd/3": "-"}, Warn, "watchdog0", "nobody holds it"},
		"nowayout":                        {map[string]string{"sys/class/watchdog/watchdog0/nowayout": "1"}, Warn, "watchdog0", "nowayout"},
		"softdog":                         {map[string]string{"sys/class/watchdog/watchdog0/identity": "Software Watchdog"}, Warn, "watchdog0", "Software Watchdog"},
		"systemd feeds":                   {map[string]string{"etc/systemd/system.conf.d/9.conf": "[Manager]\nRuntimeWatchdogSec=30s"}, Wrong, "systemd", "RuntimeWatchdogSec=30s in /etc/systemd/system.conf.d/9.conf"},
		"no key in the key file":          {map[string]string{"etc/keys": "# to be filled in"}, Wrong, "keys", "no key in it"},
		"a short key":                     {map[string]string{"etc/keys": "c2hvcnQ="}, Wrong, "keys", "key has 5 bytes, but must have 16, 24 or 32"},
		"no key file":                     {map[string]string{"etc/keys": "-"}, Wrong, "keys", "no such file"},
		"no interface":                    {map[string]string{"sys/class/net/eth0/operstate": "-"}, Wrong, "network eth0", "no such interface"},
		"interface is down":               {map[string]string{"sys/class/net/eth0/operstate": "down"}, Wrong, "network eth0", "down"},
		"port of another":                 {map[string]string{"proc/7/comm": "speaker", "proc/7/fd/3": "-"}, Wrong, "port 7946", "speaker (process 7) listens"},
		"port of another beside an agent": {map[string]string{"proc/7/fd/9": "-", "proc/8/comm": "speaker", "proc/8/fd/9": "->socket:[4711]"}, Wrong, "port 7946", "speaker (process 8) listens"},
		"port of somebody unseen":         {map[string]string{"proc/7/fd/9": "-"}, Warn, "port 7946", "not visible"},
		"no LUN":                          {map[string]string{"dev/mapper/fence": "-"}, Wrong, "LUN", "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			files := good()
			for file, text := range c.change {
				if files[file] = text; text == "-" {
					delete(files, file)
				}
			}
			m := machine(t, files)
			for _, f := range m.Look() {
				if f.Subject == c.subject && f.Level == c.level {
					if !strings.Contains(f.Found, c.says) || f.Do == "" || strings.Contains(f.Found+f.Do, m.Root) {
						t.Errorf("%+v", f)
					}
					return
				}
			}
			t.Errorf("not found: %+v", m.Look())
		})
	}
}

// A driver outside of the watchdog core may have taken /dev/watchdog from the one that sysfs shows. Nothing tells which has it.
func TestTwoDriversForOneNode(t *testing.T) {
	for device, want := range map[string]bool{"/dev/watchdog": true, "/dev/watchdog0": false, "identity:iTCO_wdt": false, "": true} {
		files := good()
		files["dev/watchdog"], files["sys/class/misc/watchdog/dev"], files["sys/module/ipmi_watchdog/refcnt"] = "", "10:130", "0"
		m := machine(t, files)
		if m.Config.Watchdog.Device = device; device == "" {
			m.Config = nil
		}
		found := false
		for _, f := range m.watchdogs() {
			found = found || f.Level == Warn && f.Subject == OutsideOfCore &&
				f.Found == "ipmi_watchdog is loaded beside watchdog0: /dev/watchdog belongs to the one that was loaded first, and nothing shows which that is" &&
				strings.Contains(f.Do, "set watchdog.device to /dev/watchdog0")
		}
		if found != want {
			t.Errorf("%q: %+v", device, m.watchdogs())
		}
	}
}

// With watchdog.driver none, as one begins, a machine without a watchdog is not wrong yet.
func TestNoWatchdogIsNeeded(t *testing.T) {
	files := good()
	for _, file := range []string{"identity", "timeout", "state"} {
		delete(files, "sys/class/watchdog/watchdog0/"+file)
	}
	for driver, want := range map[config.Driver]Level{config.DriverNone: Warn, config.DriverDevice: Wrong} {
		m := machine(t, files)
		m.Config = &config.Config{}
		m.Config.Watchdog.Driver = driver
		if f := m.watchdogs()[0]; f.Level != want || f.Do == "" {
			t.Errorf("driver %s: %+v, want %v", driver, f, want)
		}
	}
}

// systemd keeps a copy of the agent's descriptor (FileDescriptorStoreMax=); this does not feed the watchdog.
func TestStoredDescriptor(t *testing.T) {
	for name, c := range map[string]struct {
		change map[string]string
		level  Level
		says   string
	}{
		"the agent runs":             {nil, OK, "fencing-agent (7)"},
		"the agent was killed":       {map[string]string{"proc/7/comm": "-", "proc/7/fd/3": "-"}, Warn, "nobody feeds it"},
		"another has it, too":        {map[string]string{"proc/9/comm": "sbd", "proc/9/fd/5": "->/dev/watchdog0"}, Wrong, "sbd (9)"},
		"a process of the same name": {map[string]string{"proc/8/comm": "systemd", "proc/8/fd/5": "->/dev/watchdog0"}, Wrong, "systemd (8)"},
		"systemd feeds it itself":    {map[string]string{"proc/7/comm": "-", "proc/7/fd/3": "-", "etc/systemd/system.conf": "RuntimeWatchdogSec=30"}, Wrong, "systemd (1)"},
	} {
		files := good()
		files["proc/1/comm"], files["proc/1/fd/40"] = "systemd", "->/dev/watchdog0"
		for file, text := range c.change {
			if files[file] = text; text == "-" {
				delete(files, file)
			}
		}
		if f := machine(t, files).watchdogs()[0]; f.Level != c.level || !strings.Contains(f.Found, c.says) || (f.Level == OK) != (f.Do == "") {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// A LUN that is configured by its name is looked for in the way of the agent.
func TestLUNByName(t *testing.T) {
	const wwn = "6001405ABCDEF01234567890abcdef01"
	for _, link := range []string{"wwn-0x", "dm-uuid-mpath-3"} {
		files := good()
		files["dev/disk/by-id/"+link+strings.ToLower(wwn)] = ""
		for _, spec := range []string{"wwn:0x" + wwn, "wwn:" + wwn} {
			m := machine(t, files)
			m.Config.LUN.Devices = []string{spec}
			if f := m.storage()[0]; f.Level != OK || !strings.Contains(f.Found, spec) {
				t.Errorf("%s, %s: %+v", link, spec, f)
			}
		}
	}
	const namespace = "uuid.6ba7b810-9dad-11d1-80b4-00c04fd430c8"
	files := good()
	files["dev/disk/by-id/nvme-"+namespace] = ""
	m := machine(t, files)
	m.Config.LUN.Devices = []string{"wwn:" + namespace}
	if f := m.storage()[0]; f.Level != OK {
		t.Errorf("NVMe: %+v", f)
	}
	m = machine(t, good())
	m.Config.LUN.Devices = []string{"wwn:" + wwn}
	if f := m.storage()[0]; f.Level != Wrong || f.Do == "" {
		t.Errorf("without a link: %+v", f)
	}
}

// TestPathsAreThoseInForce: what is wrong with the paths comes from the code that the agent uses, whatever the files of
// multipath and iSCSI say: of these, conf.d, a built-in table and multipathd override a part.
func TestPathsAreThoseInForce(t *testing.T) {
	queues := Finding{Found: "/dev/mapper/fence queues I/O when all paths are lost (queue_if_no_path)", Do: "set no_path_retry fail"}
	for name, c := range map[string]struct {
		files map[string]string
		wrong []Finding
		err   error
		want  []Finding
	}{
		"the built-in table queues":   {nil, []Finding{queues}, nil, []Finding{{Warn, "LUN paths", queues.Found, queues.Do}}},
		"a file queues, the map not":  {map[string]string{"etc/multipath.conf": "no_path_retry queue"}, nil, nil, []Finding{{OK, "LUN paths", "/dev/mapper/fence: no setting of its paths is known to be wrong", ""}}},
		"multipathd has set recovery": {map[string]string{"etc/iscsi/iscsid.conf": "node.session.timeo.replacement_timeout = 120"}, nil, nil, []Finding{{OK, "LUN paths", "/dev/mapper/fence: no setting of its paths is known to be wrong", ""}}},
		"another FC port waits":       {map[string]string{"sys/class/fc_remote_ports/rport-1/fast_io_fail_tmo": "off"}, nil, nil, []Finding{{OK, "LUN paths", "/dev/mapper/fence: no setting of its paths is known to be wrong", ""}}},
		"no permission":               {nil, nil, fs.ErrPermission, []Finding{{Warn, "LUN paths", "/dev/mapper/fence: permission denied", "run this as root"}}},
	} {
		files := good()
		maps.Copy(files, c.files)
		m := machine(t, files)
		m.Paths = func(root, device string) ([]Finding, error) {
			if root != m.Root || device != "/dev/mapper/fence" {
				t.Errorf("%s: asked for %s below %s", name, device, root)
			}
			return c.wrong, c.err
		}
		if got := m.storage()[1:]; !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestLUNThatCannotBeUsed: the agent runs without it, so the doctor must not call it in order.
func TestLUNThatCannotBeUsed(t *testing.T) {
	for name, c := range map[string]struct {
		format Format
		err    error
		says   string
	}{
		"read-only":   {format: Format{Cluster: "prod", NodeGroup: "st", Slots: 8, ReadOnly: true}, says: "is read-only; map it read-write to this node; " + lunLater},
		"no LUN":      {err: errors.New("block device required"), says: "cannot be used: block device required; " + lunLater},
		"other group": {format: Format{Cluster: "test", NodeGroup: "st", Slots: 8, ReadOnly: true}, says: "the agent exits with this error"},
	} {
		m := &Machine{Config: &config.Config{Cluster: "prod", NodeGroup: "st"}, FormattedFor: func(string) (Format, error) { return c.format, c.err }}
		if f := m.lun("/dev/x"); f.Level != Wrong || !strings.Contains(f.Found+"; "+f.Do, c.says) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// Guard: a key file that others can read is found, and its content is not printed.
func TestKeysThatOthersRead(t *testing.T) {
	m := machine(t, good())
	if err := os.Chmod(filepath.Join(m.Root, "etc/keys"), 0o644); err != nil {
		t.Fatal(err)
	}
	found := false
	for _, f := range m.Look() {
		found = found || f.Subject == "keys" && f.Level == Wrong && strings.Contains(f.Found, "0644")
		if strings.Contains(f.Found+f.Do, "MDEyMzQ1Njc4OWFiY2RlZg==") {
			t.Errorf("it says the key: %+v", f)
		}
	}
	if !found {
		t.Error("not found")
	}
	if m.Config.Gossip.KeyFile = ""; m.keys()[0].Level != Warn {
		t.Errorf("without keys: %+v", m.keys())
	}
}

// A driver that is known to fire late is ok, and the output shows how long other nodes wait for it.
func TestLateWatchdogIsSaid(t *testing.T) {
	for _, f := range machine(t, good()).Look() {
		if f.Subject == "watchdog0" && (f.Level != OK || !strings.Contains(f.Found, "iTCO_wdt, timeout 30 s, reset this machine on 2026-01-02 after 1m0s of 30s, fires within 1m0s")) {
			t.Errorf("%+v", f)
		}
	}
}

// What others wait for is rounded up, not to nanoseconds.
func TestLatenessIsRounded(t *testing.T) {
	files := good()
	files["var/lib/fencing-agent/members-watchdog"] += "\n{\"ran\":66103579541,\"next\":66103579541}"
	for _, f := range machine(t, files).watchdogs() {
		if !strings.HasSuffix(f.Found, "fires within 1m6.2s, which is what others wait for, held by fencing-agent (7)") {
			t.Errorf("%+v", f)
		}
	}
}

// What was tried is said: never, that it failed, that it cannot be read. What others wait for is said all the same.
func TestWhatWasTriedIsSaid(t *testing.T) {
	const file = "var/lib/fencing-agent/members-watchdog"
	for name, c := range map[string]struct {
		change func(map[string]string)
		level  Level
		found  string
	}{
		"never":           {func(m map[string]string) { delete(m, file) }, Warn, "never seen to reset this machine, fires within 1m0s"},
		"another driver":  {func(m map[string]string) { m["sys/class/watchdog/watchdog0/identity"] = "SP5100 TCO timer" }, Warn, "never seen"},
		"other firmware":  {func(m map[string]string) { m["sys/class/dmi/id/bios_version"] = "2.0" }, Warn, "never seen to reset this machine, fires within 1m0s"},
		"failed":          {func(m map[string]string) { m[file] += "\n{\"end\":\"failed\"}" }, Wrong, "did not reset this machine on 2026-01-02"},
		"cannot be read":  {func(m map[string]string) { m[file] = "{}" }, Warn, "cannot be read: "},
		"boot is unknown": {func(m map[string]string) { delete(m, "proc/sys/kernel/random/boot_id") }, Warn, "cannot be read: "},
	} {
		files := good()
		c.change(files)
		for _, f := range machine(t, files).watchdogs() {
			if f.Level != c.level || f.Do == "" || !strings.Contains(f.Found, c.found) || name == "failed" && strings.Contains(f.Found, "others wait") {
				t.Errorf("%s: %+v", name, f)
			}
		}
	}
	files := good()
	delete(files, file)
	m := machine(t, files)
	m.Config.Watchdog.Driver = config.DriverTested
	for _, f := range m.watchdogs() {
		if f.Level != Wrong || !strings.Contains(f.Found, "watchdog.driver is tested: the agent does not use it") {
			t.Errorf("a test is demanded: %+v", f)
		}
	}
}
