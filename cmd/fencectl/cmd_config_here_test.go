//go:build linux

package main

import (
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
)

// A missing part without which the agent starts is a warning, a fault that ends its start is an error.
func TestConfigCheckHere(t *testing.T) {
	c := config.Default()
	c.NodeName, c.HTTP.Address, c.Watchdog.Driver = "n1", "", config.DriverNone
	c.API.Socket, c.Members.CacheFile = filepath.Join(t.TempDir(), "a.sock"), filepath.Join(t.TempDir(), "members.json")
	c.Members.Source = config.SourceStatic
	c.Members.Static = []config.Member{{Name: "n1", Addresses: map[string]netip.Addr{"lo": netip.MustParseAddr("127.0.0.1")}}}
	c.SystemNetworks = []config.SystemNetwork{{Name: "lo", At: config.Place{Interface: "nosuch0"}, Port: 1}}
	var said strings.Builder
	env := &environment{stderr: &said}
	if err := lookHere(env, c); err != nil || !strings.Contains(said.String(), "warning: address lo: interface") {
		t.Errorf("%v, said %q", err, said.String())
	}
	c.Members.CacheFile = "/proc/version/members.json"
	if err := lookHere(env, c); err == nil || !strings.Contains(err.Error(), "members.cacheFile: ") {
		t.Errorf("a memory that cannot be kept: %v", err)
	}
}
