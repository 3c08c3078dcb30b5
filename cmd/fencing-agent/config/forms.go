package config

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// A form is a pattern for a string. Its name is used in the struct's form tags.
type form struct {
	allowed string // for the message
	valid   func(string) bool
}

// maxSocketPath is the length of sockaddr_un's path without the final zero.
const maxSocketPath = 107

// Patterns of names that appear alone and inside others.
var (
	isLabelValue = matches(63, `[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?`)
	isNodeName   = matches(253, `[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*`)
	isDNSLabel   = matches(63, `[a-z0-9]([a-z0-9-]*[a-z0-9])?`)
	isGroupName  = matches(32, `[A-Za-z0-9_][A-Za-z0-9_.-]*\$?`)
)

// Lengths of names that have a fixed place elsewhere: a node name in a slot (253), a
// label value and a DNS label (63). They keep the gossip label below 200 bytes.
var forms = map[string]form{
	"label value": {
		"1 to 63 letters, digits, '-', '_' or '.', first and last a letter or digit",
		isLabelValue,
	},
	"node name": {
		"the node's name in Kubernetes: at most 253 lower-case letters, digits, '-' or '.', first and last a letter or digit",
		isNodeName,
	},
	"label value or empty": {
		"1 to 63 letters, digits, '-', '_' or '.', or empty for $NODE_GROUP", orEmpty(isLabelValue),
	},
	"node name or empty": {
		"the node's name in Kubernetes: lower-case letters, digits, '-' or '.', or empty for $NODE_NAME",
		orEmpty(isNodeName),
	},
	"network name": {
		"1 to 63 lower-case letters, digits or '-', first and last a letter or digit",
		isDNSLabel,
	},
	"interface name": {"1 to 15 characters without blanks, '/' or ':'", isInterfaceName},
	"label key": {
		"a label or annotation key: [DNS name/]name",
		isLabelKey,
	},
	"absolute path": {"an absolute path", isAbsolutePath},
	"watchdog device": {
		"an absolute path, or identity:NAME as in /sys/class/watchdog/*/identity",
		isWatchdogDevice,
	},
	"watchdog device or empty": {
		"an absolute path, identity:NAME as in /sys/class/watchdog/*/identity, or empty for watchdog.device",
		orEmpty(isWatchdogDevice),
	},
	"LUN device": {
		"an absolute path, or wwn: with the 16 or 32 hexadecimal digits of the LUN's name, for NVMe wwn:eui.DIGITS or wwn:uuid.UUID",
		func(s string) bool { return isWWN(s) || isAbsolutePath(s) },
	},
	"absolute path or empty": {"an absolute path, or empty", orEmpty(isAbsolutePath)},
	"socket path": {
		"an absolute path of at most " + strconv.Itoa(maxSocketPath) + " bytes",
		func(s string) bool { return isAbsolutePath(s) && len(s) <= maxSocketPath },
	},
	"group or empty": {
		"the name or number of a group, or empty",
		orEmpty(isGroupName),
	},
	"host:port or empty": {
		"HOST:PORT with a port of 1..65535, $NODE_IP:PORT, or empty",
		orEmpty(isHostPort),
	},
}

// CheckName checks the name of a cluster or a node group as the configuration does, for programs that take such a name
// without a configuration.
func CheckName(name string) error {
	if f := forms["label value"]; !f.valid(name) {
		return fmt.Errorf("is not usable, found %q; allowed: %s", name, f.allowed)
	}
	return nil
}

func matches(most int, pattern string) func(string) bool {
	re := regexp.MustCompile(`^(` + pattern + `)$`)
	return func(s string) bool { return len(s) <= most && re.MatchString(s) && !strings.Contains(s, "\n") }
}

func orEmpty(valid func(string) bool) func(string) bool {
	return func(s string) bool { return s == "" || valid(s) }
}

// isWWN accepts what rawdev.Open looks up below /dev/disk/by-id.
var isWWN = matches(45, `wwn:((0x|eui\.)?([0-9a-fA-F]{16}|[0-9a-fA-F]{32})|uuid\.[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})`)

// identityPrefix marks a watchdog that is named by its driver's identity, in the form of watchdog/wdt.
const identityPrefix = "identity:"

func isWatchdogDevice(s string) bool {
	name, byIdentity := strings.CutPrefix(s, identityPrefix)
	return byIdentity && name != "" && len(name) <= 32 || isAbsolutePath(s)
}

func isAbsolutePath(s string) bool {
	return filepath.IsAbs(s) && !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' })
}

func isInterfaceName(s string) bool {
	return len(s) >= 1 && len(s) <= 15 && s != "." && s != ".." &&
		!strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c == '/' || c == ':' || c == 0x7f })
}

func isLabelKey(s string) bool {
	prefix, name, found := strings.Cut(s, "/")
	if !found {
		return isLabelValue(s)
	}
	return isNodeName(prefix) && isLabelValue(name)
}

func isHostPort(s string) bool {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return false
	}
	_, err = netip.ParseAddr(host)
	return err == nil || host+":" == onNodeIP || host == "" || isNodeName(strings.ToLower(host))
}

// parseAddress accepts what a node can be reached at: one address, without zone.
func parseAddress(s string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(s)
	return a, err == nil && a.Zone() == "" && !a.Is4In6() && !a.IsUnspecified() && !a.IsMulticast()
}

// parsePrefix accepts a network in its canonical form: no bits are set after the mask.
func parsePrefix(s string) (netip.Prefix, bool) {
	p, err := netip.ParsePrefix(s)
	return p, err == nil && p == p.Masked() && !p.Addr().Is4In6()
}
