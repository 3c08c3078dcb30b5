package memberbook

import "net/netip"

// Address reports whether a text is one IP address of a node, written as netip.Addr writes it.
func Address(text string) bool {
	a, err := netip.ParseAddr(text)
	return err == nil && a.Zone() == "" && !a.IsUnspecified() && !a.IsMulticast() && a.Unmap().String() == text
}
