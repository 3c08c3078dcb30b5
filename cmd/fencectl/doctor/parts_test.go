//go:build linux

package doctor

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
)

// Guard: the doctor reports in advance what the agent will lack. It examines this machine with the agent's own code.
func TestPartsOfTheAgent(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	at := netip.MustParseAddrPort(taken.Addr().String())
	dir := t.TempDir()
	served := filepath.Join(dir, "served.sock")
	l, err := net.Listen("unix", served)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, folder := range []string{"empty", "full/x"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		edit    func(*config.Config)
		level   Level
		subject string
		says    string
		ends    bool // the fault ends the start
	}{
		"all in order":    {func(*config.Config) {}, OK, "address lo", "127.0.0.1 on lo", false},
		"no interface":    {func(c *config.Config) { c.SystemNetworks[0].At.Interface = "nosuch0" }, Wrong, "address lo", "does not exist", false},
		"another address": {func(c *config.Config) { c.Members.Static[0].Addresses["lo"] = netip.MustParseAddr("203.0.113.1") }, Wrong, "address lo", "203.0.113.1 for this node", false},
		"another member's address": {func(c *config.Config) {
			c.Members.Static = append(c.Members.Static, config.Member{Name: "n2", Addresses: c.Members.Static[0].Addresses})
			c.Members.Static[0].Addresses = map[string]netip.Addr{"lo": netip.MustParseAddr("203.0.113.1")}
		}, Wrong, "address lo", "another member's", true},
		"the port is free":     {func(*config.Config) {}, OK, "port 1 lo", "nobody listens", false},
		"the port is taken":    {func(c *config.Config) { c.SystemNetworks[0].Port = int(at.Port()) }, Wrong, "port " + portText(at) + " lo", "listens", false},
		"an empty folder":      {func(c *config.Config) { c.API.Socket = filepath.Join(dir, "empty") }, OK, "socket", "can be made", false},
		"a full folder":        {func(c *config.Config) { c.API.Socket = filepath.Join(dir, "full") }, Wrong, "socket", "with something in it", false},
		"a file":               {func(c *config.Config) { c.API.Socket = filepath.Join(dir, "file") }, Wrong, "socket", "something other than a socket", false},
		"no folder":            {func(c *config.Config) { c.API.Socket = filepath.Join(dir, "none", "a.sock") }, Wrong, "socket", "create it", false},
		"served by another":    {func(c *config.Config) { c.API.Socket = served }, Wrong, "socket", "is serving it", true},
		"metrics are taken":    {func(c *config.Config) { c.HTTP.Address = at.String() }, Wrong, "http.address", "listens", false},
		"not this node's":      {func(c *config.Config) { c.HTTP.Address = "203.0.113.1:9110" }, Wrong, "http.address", "not an address of this node", false},
		"no watchdog":          {func(c *config.Config) { c.Watchdog.Device = "/dev/no-such-watchdog" }, Wrong, "watchdog.device", "no such file", false},
		"no such identity":     {func(c *config.Config) { c.Watchdog.Device = "identity:none" }, Wrong, "watchdog.device", "watchdog \"none\"", false},
		"not on the list":      {func(c *config.Config) { c.NodeName = "" }, Wrong, "nodeName", "has no node", true},
		"lists can be kept":    {func(*config.Config) {}, OK, "members.cacheFile", "is writable", false},
		"lists cannot be kept": {func(c *config.Config) { c.Members.CacheFile = filepath.Join(dir, "file", "x", "members.json") }, Wrong, "members.cacheFile", "not a directory", true},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config.Default()
			cfg.NodeName = "n1"
			cfg.SystemNetworks = []config.SystemNetwork{{Name: "lo", At: config.Place{Interface: "lo"}, Port: 1}}
			cfg.Members.Source = config.SourceStatic
			cfg.Members.Static = []config.Member{{Name: "n1", Addresses: map[string]netip.Addr{"lo": netip.MustParseAddr("127.0.0.1")}}}
			cfg.Members.CacheFile = filepath.Join(dir, "state", "members.json")
			cfg.API.Socket, cfg.HTTP.Address, cfg.Watchdog.Driver = filepath.Join(dir, "a.sock"), "", config.DriverDevice
			c.edit(cfg)
			began := time.Now()
			for _, f := range (&Machine{Config: cfg}).Parts() {
				if f.Subject != c.subject {
					continue
				}
				if f.Level != c.level || !strings.Contains(f.Found, c.says) || (f.Do == "") != (f.Level == OK) || f.Ends() != c.ends {
					t.Errorf("%+v, want %s with %q", f, c.level, c.says)
				}
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("it took %v", took)
				}
				return
			}
			t.Errorf("nothing is found about %s", c.subject)
		})
	}
	if left, err := os.ReadDir(filepath.Join(dir, "empty")); err != nil || len(left) > 0 {
		t.Errorf("the folder is %v, %v: a look has changed something", left, err)
	}
}

// Guard: the doctor reports about the file of lists what the agent's start will do, whatever the state of the
// directory.
func TestFileOfLists(t *testing.T) {
	dir := t.TempDir()
	const known = `{"version":1,"cluster":"prod","nodeGroup":"g","node":"n1","chain":[]}`
	for name, c := range map[string]struct{ text, says string }{
		"remembered": {known, ""},
		"damaged":    {`{"x":`, "is damaged"},
		"empty":      {"", "is damaged"},
		"another's":  {strings.Replace(known, "n1", "n2", 1), `belongs to node "n2"`},
		"a folder":   {"/", "is not a regular file"},
		"later":      {strings.Replace(known, `"version":1`, `"version":2`, 1), "has format 2"},
		"a loop":     {"@", "too many levels"},
	} {
		cfg := config.Default()
		cfg.Cluster, cfg.NodeGroup, cfg.NodeName, cfg.Members.CacheFile = "prod", "g", "n1", filepath.Join(dir, "members.json")
		if c.text == "/" {
			cfg.Members.CacheFile = dir
		} else if c.text == "@" {
			cfg.Members.CacheFile = filepath.Join(dir, "loop")
			if err := os.Symlink("loop", cfg.Members.CacheFile); err != nil {
				t.Fatal(err)
			}
		} else if err := os.WriteFile(cfg.Members.CacheFile, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if f := (&Machine{Config: cfg}).memory(); f.Ends() != (c.says != "") || !strings.Contains(f.Found, c.says) {
			t.Errorf("%s: %+v, want %q", name, f, c.says)
		}
	}
}

// Guard: an agent that remembers a list starts even if it cannot write the list, and the doctor reports the same.
func TestListThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	cfg := config.Default()
	cfg.Cluster, cfg.NodeGroup, cfg.NodeName, cfg.Members.CacheFile = "prod", "g", "n1", filepath.Join(dir, "members.json")
	m := &Machine{Config: cfg, writes: func(string) error { return os.ErrPermission }}
	if f := m.memory(); f.Level != Wrong || !f.Ends() {
		t.Errorf("nothing is remembered: %+v", f)
	}
	if err := os.WriteFile(cfg.Members.CacheFile, []byte(`{"version":1,"cluster":"prod","nodeGroup":"g","node":"n1"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if f := m.memory(); f.Level != Wrong || f.Ends() || !strings.Contains(f.Do, "starts with the list that it remembers") {
		t.Errorf("a list is remembered: %+v", f)
	}
}

func portText(at netip.AddrPort) string { return at.String()[strings.LastIndex(at.String(), ":")+1:] }

// An interface that is down is reported for every way to name a network, from the state that the kernel shows.
func TestInterfaceThatIsDown(t *testing.T) {
	root := t.TempDir()
	for name, state := range map[string]string{"eth0": "up", "eth1": "down", "eth2": "lowerlayerdown", "lo": "unknown"} {
		file := filepath.Join(root, "sys/class/net", name, "operstate")
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(state+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m := &Machine{Root: root, Config: &config.Config{}}
	for _, name := range []string{"eth0", "eth1", "eth2", "lo", "eth9"} {
		m.Config.SystemNetworks = append(m.Config.SystemNetworks, config.SystemNetwork{At: config.Place{Interface: name}, Port: 7946})
	}
	var got []string
	for _, f := range m.networks() {
		got = append(got, string(f.Level)+" "+f.Subject)
	}
	want := "ok network eth0, wrong network eth1, wrong network eth2, ok network lo, wrong network eth9, ok port 7946"
	if strings.Join(got, ", ") != want {
		t.Errorf("%s\nwant %s", strings.Join(got, ", "), want)
	}
}

// Guard: if devices do not form a set, the doctor reports what the agent does with them.
func TestDevicesThatAreNoSet(t *testing.T) {
	of := func(set string, place int) Format { return Format{Set: set, Place: place, Of: 3} }
	single := Format{Place: 1, Of: 1}
	for name, c := range map[string]struct {
		devices []Format // a device without Of cannot be read
		found   string
		ends    bool
	}{
		"one":                         {[]Format{single}, "", false},
		"a set":                       {[]Format{of("x", 2), of("x", 1), of("x", 3)}, "", false},
		"a set, and one is away":      {[]Format{of("x", 2), {}, of("x", 3)}, "", false},
		"all are away":                {[]Format{{}, {}, {}}, "", false},
		"formatted by itself":         {[]Format{of("x", 1), single, of("x", 3)}, "d1 does not belong to the same set as the others", false},
		"by itself, and one is away":  {[]Format{of("x", 1), single, {}}, "d1 does not belong to the same set as the others", false},
		"by itself, and two are away": {[]Format{single, {}, {}}, "d0 does not belong to the same set as the others", false},
		"of another set":              {[]Format{of("y", 1), of("x", 2), of("x", 3)}, "d0 does not belong to the same set as the others", false},
		"of two sets":                 {[]Format{of("y", 1), of("x", 2), {}}, "do not belong together", true},
		"of other slots":              {[]Format{{Set: "x", Place: 1, Of: 3, Slots: 16}, {Set: "x", Place: 2, Of: 3, Slots: 16}, {Set: "x", Place: 3, Of: 3, Slots: 17}}, "d2 does not belong to the same set as the others", false},
		"a copy":                      {[]Format{of("x", 1), of("x", 2), of("x", 1)}, "do not belong together", true},
		"all by themselves":           {[]Format{single, single, single}, "do not belong together", true},
		"one of three alone":          {[]Format{of("x", 1)}, "do not belong together", true},
	} {
		m := &Machine{Config: config.Default(), FormattedFor: func(d string) (Format, error) {
			f := c.devices[d[1]-'0']
			if f.Of == 0 {
				return f, os.ErrNotExist
			}
			return f, nil
		}}
		for i := range c.devices {
			m.Config.LUN.Devices = append(m.Config.LUN.Devices, fmt.Sprint("d", i))
		}
		found := m.Set()
		if len(found) > 1 || (len(found) == 0) != (c.found == "") || len(found) == 1 && (!strings.Contains(found[0].Found, c.found) || found[0].Ends() != c.ends) {
			t.Errorf("%s: %+v, want %q", name, found, c.found)
		}
	}
}

// A kubeconfig that the agent cannot use is named, and so is a file that it refers to.
func TestKubeconfigThatCannotBeUsed(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"empty": "", "bare": "clusters: [{cluster: {certificate-authority: empty}}]\nusers: [{user: {client-certificate: /none.pem}}]\n",
		"user": "clusters: [{cluster: {certificate-authority: bare}}]\nusers: [{user: {client-certificate: /none.pem}}]\n", "good": "clusters: [{cluster: {certificate-authority: bare}}]\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for file, want := range map[string]string{"none": "no such file", "empty": "names no cluster", "bare": "empty is empty", "user": "/none.pem: no such file", "good": ""} {
		for _, by := range []config.TieBreak{config.TieBreakAuto, config.TieBreakLease} {
			m := &Machine{Config: config.Default()}
			m.Config.Kubernetes.Kubeconfig, m.Config.Quorum.TieBreak = filepath.Join(dir, file), by
			f := m.kubeconfig()
			if (f.Level == OK) != (want == "") || !strings.Contains(f.Found, want) || f.Ends() != (want != "" && by == config.TieBreakLease) {
				t.Errorf("%s, %s: %+v, want %q", file, by, f, want)
			}
		}
	}
}
