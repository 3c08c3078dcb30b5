#!/bin/sh
# memberlist v0.7.0: Join returns success for a node whose new address every member refuses.
#
# A node crashes and comes back under its old name with another address (a new DHCP lease, a pod that was made again).
# Its Join exchanges state with all members and returns their number and no error. But each member logs "Conflicting
# address" and keeps the old address: while the old one is thought alive or suspect, and, as DeadNodeReclaimTime is 0 by
# default, also once it is dead, until the dead node is reaped. Meanwhile nobody probes the new address, and the
# newcomer, who sees all members alive, has no way to notice from Join, Members or NumMembers.
#
# Seen: three members on loopback with the timing of DefaultLANConfig and GossipToTheDeadTime shortened to 10 s; the
# third one is shut down without Leave and begins again at another address. Join returns 2 and no error, the newcomer
# lists three members, and ten seconds later neither of the two has the new address.
# Consequence for users: compare what peers say of you, set DeadNodeReclaimTime if addresses may change, and try to join
# again for as long as somebody does not list you.
#
# Needs Go; 20 s. Exits 0 while the behaviour is as described, 1 when it has changed.
set -eu
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cd "$dir"
cat > go.mod <<'MOD'
module finding

go 1.24
MOD
cat > main.go <<'GO'
package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// refusals counts the lines in which a member refuses an address.
type refusals struct {
	sync.Mutex
	lines int
}

func (r *refusals) Write(p []byte) (int, error) {
	r.Lock()
	defer r.Unlock()
	r.lines += strings.Count(string(p), "Conflicting address")
	return len(p), nil
}

func (r *refusals) count() int { r.Lock(); defer r.Unlock(); return r.lines }

func member(name, addr string, log io.Writer) *memberlist.Memberlist {
	c := memberlist.DefaultLANConfig()
	c.Name, c.BindAddr, c.BindPort, c.AdvertisePort, c.LogOutput = name, addr, 17946, 17946, log
	c.GossipToTheDeadTime = 10 * time.Second
	m, err := memberlist.Create(c)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	return m
}

// lists says at which address m lists the node, or "not at all".
func lists(m *memberlist.Memberlist, name string) string {
	for _, n := range m.Members() {
		if n.Name == name {
			return n.Addr.String()
		}
	}
	return "not at all"
}

func main() {
	var refused refusals
	a, b := member("a", "127.0.0.1", &refused), member("b", "127.0.0.2", &refused)
	c := member("c", "127.0.0.3", io.Discard)
	b.Join([]string{"127.0.0.1:17946"})
	c.Join([]string{"127.0.0.1:17946", "127.0.0.2:17946"})
	for began := time.Now(); lists(b, "c") != "127.0.0.3" && time.Since(began) < 10*time.Second; {
		time.Sleep(50 * time.Millisecond)
	}
	fmt.Printf("a and b list c at %s and %s\n", lists(a, "c"), lists(b, "c"))
	c.Shutdown() // a crash: no Leave

	again := member("c", "127.0.0.4", io.Discard)
	n, err := again.Join([]string{"127.0.0.1:17946", "127.0.0.2:17946"})
	fmt.Printf("c begins again at 127.0.0.4: Join returns %d, error %v; c lists %d members\n", n, err, again.NumMembers())
	time.Sleep(10 * time.Second) // what is measured is that nothing has changed after this time
	fmt.Printf("10 s later a and b list c: %s, %s; refused by them: %t\n", lists(a, "c"), lists(b, "c"), refused.count() >= 2)
	if n != 2 || err != nil || again.NumMembers() != 3 || lists(a, "c") == "127.0.0.4" || lists(b, "c") == "127.0.0.4" || refused.count() < 2 {
		fmt.Println("changed: this is not what v0.7.0 did")
		os.Exit(1)
	}
}
GO
go get github.com/hashicorp/memberlist@v0.7.0 >/dev/null 2>&1 || { echo "cannot get github.com/hashicorp/memberlist@v0.7.0: is the module proxy reachable?" >&2; exit 2; }
go run .
