package members

import (
	"errors"
	"maps"
	"net/netip"
	"testing"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// An address that is away has not moved: it counts as the listed one. Without a list the error names what is missing,
// and the addresses that exist are returned.
func TestAddressesOfNetworksThatAreAway(t *testing.T) {
	c := config.Default()
	c.SystemNetworks = []config.SystemNetwork{{Name: "mgmt"}, {Name: "data"}}
	mgmt, data := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.1.0.1")
	r, err := roster.New(1, []roster.Member{{Name: "n1", Addresses: map[string]string{"mgmt": "10.0.0.1", "data": "10.1.0.1"}}}, "n1")
	if err != nil {
		t.Fatal(err)
	}
	asked := map[string]netip.Addr{}
	local := func(sn *config.SystemNetwork, listed netip.Addr) (netip.Addr, error) {
		if asked[sn.Name] = listed; sn.Name == "data" {
			return netip.Addr{}, errors.New("no carrier")
		}
		return mgmt, nil
	}
	got, err := addressesBy(c, local, r)
	if want := map[string]netip.Addr{"mgmt": mgmt, "data": data}; err != nil || !maps.Equal(got, want) || !maps.Equal(asked, want) {
		t.Errorf("by the list: %v, %v, asked for %v", got, err, asked)
	}
	got, err = addressesBy(c, local, nil)
	if want := map[string]netip.Addr{"mgmt": mgmt}; err == nil || err.Error() != "no carrier" || !maps.Equal(got, want) {
		t.Errorf("without a list: %v, %v", got, err)
	}
}
