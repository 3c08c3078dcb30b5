package soak

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/lab"
)

// replayer is an attacker on every cable. It keeps packets that pass and sends old ones again, from any node to any
// node, through every cut. With a key it sometimes changes the version of the encryption. It sends no packet younger
// than replayAge: passing on fresh packets is not a replay but a wire, over which two halves really hear each other.
type replayer struct {
	wire  *lab.Wire
	key   bool
	hosts []host // by node, of each network
	sent  atomic.Int64

	mu   sync.Mutex
	rng  *rand.Rand
	kept []oldFrame
	seen int
}

type host struct{ macs, addresses [][]byte } // by network

type oldFrame struct {
	data    []byte
	network int
	at      time.Time
}

const (
	// replayAge is longer than any D_max here.
	replayAge = 15 * time.Second
	// replayPace is the pause between two packets, and replayKeeps is how many are kept. Later packets replace kept
	// ones at random.
	replayPace, replayKeeps = 5 * time.Millisecond, 20000
)

// These are the offsets in an Ethernet frame with IPv4 and UDP, without options: none of the nodes sends any.
const (
	etherType  = 12
	ipHead     = 14
	ipProtocol = ipHead + 9
	ipSum      = ipHead + 10
	ipTo       = ipHead + 16
	udpHead    = ipHead + 20
	udpSum     = udpHead + 6
	payload    = udpHead + 8
)

func newReplayer(l *lab.Lab, seed uint64, key bool) (*replayer, error) {
	wire, err := l.Wire()
	if err != nil {
		return nil, err
	}
	r := &replayer{wire: wire, key: key, rng: rand.New(rand.NewPCG(seed, 0x2e91a9))}
	for j, node := range l.Nodes() {
		var h host
		for i, network := range l.Networks() {
			mac, err := wire.Hardware(j, i)
			if err != nil {
				return nil, errors.Join(err, wire.Close())
			}
			h.macs, h.addresses = append(h.macs, mac), append(h.addresses, l.Address(node, network).AsSlice())
		}
		r.hosts = append(r.hosts, h)
	}
	return r, nil
}

// run attacks until ctx ends.
func (r *replayer) run(ctx context.Context) error {
	var group sync.WaitGroup
	var failed error
	group.Go(func() { failed = r.listen() })
	defer group.Wait()
	defer r.wire.Close()
	t := time.NewTicker(replayPace)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			if err := r.send(); err != nil {
				return errors.Join(err, failed)
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// listen keeps packets so that all that have ever passed have the same chance to be kept.
func (r *replayer) listen() error {
	b := make([]byte, 64<<10)
	for {
		n, _, network, err := r.wire.Read(b)
		if errors.Is(err, os.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		if n <= payload || binary.BigEndian.Uint16(b[etherType:]) != 0x0800 || b[ipHead] != 0x45 || b[ipProtocol] != 17 {
			continue
		}
		f := oldFrame{append([]byte(nil), b[:n]...), network, time.Now()}
		r.mu.Lock()
		r.seen++
		if len(r.kept) < replayKeeps {
			r.kept = append(r.kept, f)
		} else if i := r.rng.IntN(r.seen); i < replayKeeps {
			r.kept[i] = f
		}
		r.mu.Unlock()
	}
}

// send sends one old packet; half of them go to their original receiver.
func (r *replayer) send() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.kept) == 0 {
		return nil
	}
	f := r.kept[r.rng.IntN(len(r.kept))]
	if time.Since(f.at) < replayAge {
		return nil
	}
	to, data := r.rng.IntN(len(r.hosts)), append([]byte(nil), f.data...)
	readdress(data, r.hosts[to].macs[f.network], r.hosts[to].addresses[f.network])
	if r.key && r.rng.IntN(10) == 0 && data[payload] == 244 {
		if at := payload + 2 + int(data[payload+1]); at < len(data) {
			data[at] = 0
		}
	}
	r.sent.Add(1)
	return r.wire.Send(data, to, f.network)
}

func readdress(b, mac, ip []byte) {
	copy(b, mac)
	copy(b[ipTo:], ip)
	b[ipSum], b[ipSum+1] = 0, 0
	var sum uint32
	for i := ipHead; i < udpHead; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(b[ipSum:], ^uint16(sum))
	b[udpSum], b[udpSum+1] = 0, 0 // no checksum, which IPv4 allows
}

// writeKey writes a gossip key for the group and returns its path.
func writeKey(dir string) (string, error) {
	path := filepath.Join(dir, "gossip.keys")
	if err := os.WriteFile(path, []byte("c29ha3NvYWtzb2Frc29ha3NvYWtzb2Frc29ha3NvYWs=\n"), 0o600); err != nil {
		return "", fmt.Errorf("write gossip key: %w", err)
	}
	return path, nil
}
