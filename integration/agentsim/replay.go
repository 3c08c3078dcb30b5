package agentsim

import (
	"encoding/base64"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip/netgossiptest"
)

// replayer is an attacker on every wire that records what passes and sends it again: any packet or stream of any node,
// to any node, at any time. With a key in use it cannot read or create any, and sometimes changes the version byte.
//
// Frames that are older than D_max pass every cut. Younger ones pass only where the links allow it. To carry them
// through a cut would not be a replay but a wire, over which two nodes really hear each other.
type replayer struct {
	w    *world
	rng  *rand.Rand
	mu   sync.Mutex
	kept [][]recorded // by network
	seen []int
}

type recorded struct {
	netgossiptest.Frame
	at time.Duration
}

const (
	// replayPace is the pause between two replays on a network. After replayStreams replays of packets comes one of a
	// stream.
	replayPace, replayStreams = 40 * time.Millisecond, 50
	// replayKeeps is the number of frames of a network that are kept. Later frames replace random ones.
	replayKeeps = 4000
	keyFileName = "gossip.keys"
)

// drawReplay lets an attacker replay traffic in a third of the groups; half of these use a key.
func (s *Schedule) drawReplay() {
	rng := rand.New(rand.NewPCG(s.Seed, 0x2e91a7))
	s.Replay = rng.IntN(3) == 0
	s.Key = s.Replay && rng.IntN(2) == 0
}

func (w *world) writeKey() {
	text := base64.StdEncoding.EncodeToString(make([]byte, 32)) + "\n"
	if err := os.WriteFile(filepath.Join(w.dir, keyFileName), []byte(text), 0o600); err != nil {
		panic("agentsim: " + err.Error())
	}
}

func (w *world) replay() {
	r := &replayer{
		w: w, rng: rand.New(rand.NewPCG(w.s.Seed, 0x2e91a8)), kept: make([][]recorded, len(w.networks)), seen: make([]int, len(w.networks)),
	}
	for k, network := range w.networks {
		network.Tap(func(f netgossiptest.Frame) { r.keep(k, f) })
	}
	w.group.Go(func() {
		t := time.NewTicker(replayPace)
		defer t.Stop()
		for n := 0; ; n++ {
			select {
			case <-t.C:
				for k := range w.networks {
					r.send(k, n%replayStreams == 0)
				}
			case <-w.ctx.Done():
				return
			}
		}
	})
}

// parted reports whether nothing gets from one node to another on a network.
func (w *world) parted(network, from, to int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cut[network][from][to] || !w.machines[from].carrier[network] || !w.machines[to].carrier[network]
}

// keep records a frame. Every frame that has ever passed has the same chance of being kept.
func (r *replayer) keep(network int, f netgossiptest.Frame) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen[network]++
	if len(r.kept[network]) < replayKeeps {
		r.kept[network] = append(r.kept[network], recorded{f, r.w.now()})
	} else if i := r.rng.IntN(r.seen[network]); i < replayKeeps {
		r.kept[network][i] = recorded{f, r.w.now()}
	}
}

// send replays one frame. It looks for a stream if asked to, and may find none.
func (r *replayer) send(network int, stream bool) {
	r.mu.Lock()
	var f recorded
	for range 200 {
		if len(r.kept[network]) > 0 {
			f = r.kept[network][r.rng.IntN(len(r.kept[network]))]
		}
		if f.Stream == stream && (!stream || f.Dialed) {
			break
		}
	}
	node := r.rng.IntN(r.w.s.Nodes)
	to := netip.AddrPortFrom(addressOf(network, node), f.To.Port())
	from, flip := f.From, r.w.s.Key && r.rng.IntN(10) == 0
	r.mu.Unlock()
	if f.Data == nil || f.Stream != stream || stream && !f.Dialed || from.Addr() == to.Addr() {
		return
	}
	if r.w.now()-f.at <= r.w.times.maxAge+time.Second && r.w.parted(network, int(f.From.Addr().As4()[3])-1, node) {
		return
	}
	data := append([]byte(nil), f.Data...)
	if at := 2 + int(data[1]); flip && data[0] == 244 && at+5 < len(data) {
		if f.Stream {
			at += 5
		}
		data[at] = 0
	}
	if !f.Stream {
		r.w.networks[network].Inject(from, to, data)
		return
	}
	conn, err := r.w.networks[network].InjectStream(from, netip.AddrPortFrom(to.Addr(), 7946))
	if err != nil {
		return // nobody listens there
	}
	r.w.group.Go(func() {
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		if _, err := conn.Write(data); err == nil {
			_, _ = io.Copy(io.Discard, conn)
		}
	})
}
