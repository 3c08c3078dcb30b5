package fenceconfig

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// aliases maps older names of the options that identify an outlet to the present ones.
var aliases = map[string]string{"ipaddr": "ip", "port": "plug", "login": "username", "passwd": "password"}

// manner lists options, or their beginnings, that configure how to talk to a device, and not which of its outlets is
// meant. Two nodes that differ only in these options have the same outlet.
var manner = []string{
	"username", "password", "passw", "snmp_", "community", "login_", "shell_", "power_", "retry_on", "delay", "method", "lanplus", "cipher", "privlvl", "auth",
	"hexadecimal_kg", "ssl", "secure", "ssh", "identity_file", "inet4_only", "inet6_only", "notls", "tls1", "quiet", "separator", "disable_", "stonith_status_sleep", "cmd_prompt",
	"command_prompt", "use_sudo", "sudo", "ipport", "udpport",
}

// families maps agents that are other names of one agent: they talk to one board.
var families = map[string]string{
	"fence_idrac": "fence_ipmilan", "fence_ilo3": "fence_ipmilan", "fence_ilo4": "fence_ipmilan", "fence_ilo5": "fence_ipmilan", "fence_imm": "fence_ipmilan", "fence_ipmilanplus": "fence_ipmilan",
	"fence_ilo3_ssh": "fence_ilo_ssh", "fence_ilo4_ssh": "fence_ilo_ssh", "fence_ilo5_ssh": "fence_ilo_ssh",
}

// outlet identifies an outlet: plug, switch, or any other option of the method that does not configure how to talk to
// the device. Boards with the same address are one board, whatever their port: several boards behind one address have
// different ports.
func (m Method) outlet() string {
	parts := []string{cmp.Or(families[m.Agent], m.Agent), m.option("ipport"), m.option("udpport")}
	for _, o := range m.Options {
		key := cmp.Or(aliases[o.Key], o.Key)
		if !slices.ContainsFunc(manner, func(p string) bool { return strings.HasPrefix(key, p) }) {
			parts = append(parts, key+"="+sameAddress(o.Value))
		}
	}
	slices.Sort(parts[3:])
	return strings.Join(parts, "\x00")
}

// sameAddress normalizes an address or a name, which can be written in several ways.
func sameAddress(v string) string {
	bare := strings.Trim(v, "[]")
	if a, err := netip.ParseAddr(bare); err == nil {
		return a.Unmap().String()
	}
	return strings.TrimSuffix(strings.ToLower(v), ".")
}

// where checks whether an agent can use the address and the port of a device.
func (m *Method) where(r *reader, p property) {
	switch cmp.Or(aliases[p.key], p.key) {
	case "ipport", "udpport":
		if n, err := strconv.Atoi(p.value); err != nil || n < 1 || n > 65535 || strconv.Itoa(n) != p.value {
			r.add(p.line, "%s is %q; allowed: 1 to 65535", p.key, p.value)
		}
	case "ip":
		_, err := netip.ParseAddr(p.value)
		switch host, port, has := strings.Cut(p.value, ":"); {
		case strings.ContainsAny(p.value, " \t/") || p.value == "":
			r.add(p.line, "%s is %q; allowed: an address or a name of one device, without a scheme or a path", p.key, p.value)
		case err == nil, !has:
		case strings.HasPrefix(p.value, "["):
			r.add(p.line, "%s is %q: write the address without brackets, and its port as ipport", p.key, p.value)
		default:
			r.add(p.line, "%s is %q: write %s=%s and ipport=%s", p.key, p.value, p.key, host, port)
		}
	}
}
