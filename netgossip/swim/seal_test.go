package swim_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/fencing-agent/fencing-agent/netgossip/netgossiptest"
	"github.com/fencing-agent/fencing-agent/netgossip/swim"
)

var update = flag.Bool("update", false, "record testdata/frames")

// sealedKey is the key of every captured frame.
const sealedKey = "k"

func sealed(t *testing.T) func(*swim.Config) {
	return func(cfg *swim.Config) { cfg.Keyring = keyring(t, sealedKey) }
}

// record runs a cluster in which a node joins, is lost, returns and leaves, and a sender without the key provokes an
// error. It returns all frames from the wire.
func record(t *testing.T, change func(*swim.Config)) (frames []netgossiptest.Frame) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, change)
		c.net.Tap(func(f netgossiptest.Frame) { frames = append(frames, f) })
		for _, nd := range c.nodes {
			nd.start(t)
		}
		c.awaitComplete(5 * time.Second)
		c.net.Partition([]netip.Addr{memory(0)}, []netip.Addr{memory(1), memory(2)})
		c.await(time.Minute, "n1 is lost", func() bool { return !c.nodes[1].sink.isAlive(0) })
		c.net.Heal()
		c.awaitComplete(time.Minute)
		plain := slices.Concat(labelHeader, []byte{6})
		inject(t, c, netip.AddrPortFrom(memory(1), testPort), netip.AddrPortFrom(memory(0), testPort), plain)
		c.nodes[0].stop(t, true)
		c.net.Tap(nil)
	})
	return frames
}

// inject sends a stream that no member opened, and returns the reply.
func inject(t *testing.T, c *cluster, from, to netip.AddrPort, b []byte) {
	t.Helper()
	conn, err := c.net.InjectStream(from, to)
	if err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, conn)
	conn.Write(b) // fails when it is refused
	synctest.Wait()
	conn.Close()
	synctest.Wait()
}

// labelHeader returns the beginning of each packet and stream to a member.
var labelHeader = append([]byte{244, byte(len(testLabel))}, testLabel...)

// withVersion returns a frame with another version of the encryption.
func withVersion(t *testing.T, f netgossiptest.Frame, version byte) []byte {
	t.Helper()
	b := slices.Clone(f.Data)
	at := 0
	if b[0] == 244 {
		at = 2 + int(b[1])
	}
	if f.Stream {
		at += 1 + 4
	}
	if b[at] != 1 {
		t.Fatalf("no sealed frame: % x", b[:at+1])
	}
	b[at] = version
	return b
}

// A frame from the wire that is replayed with another version must not reach memberlist: version 0 would crash the
// process there.
func TestFrameOfAnotherVersionIsRefused(t *testing.T) {
	frames := record(t, sealed(t))
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, sealed(t))
		c.awaitComplete(5 * time.Second)
		n1, from := c.nodes[0], netip.AddrPortFrom(memory(1), 999)
		at := netip.AddrPortFrom(n1.addr, testPort)
		packets, streams := 0, 0
		for _, f := range frames {
			switch {
			case !f.Stream:
				c.net.Inject(from, at, withVersion(t, f, 0))
				packets++
			case f.Dialed:
				inject(t, c, from, at, withVersion(t, f, 0))
				streams++
			default: // an answer may also be replayed as a question
				inject(t, c, from, at, slices.Concat(labelHeader, withVersion(t, f, 0)))
				streams++
			}
			synctest.Wait()
		}
		if packets < 100 || streams < 10 {
			t.Fatalf("%d packets and %d streams recorded", packets, streams)
		}
		if got := n1.refused(t, "version"); got != float64(packets+streams) {
			t.Errorf("%v of %d packets and %d streams refused", got, packets, streams)
		}
		if got := n1.logs.count("encryption version 0 refused"); got != 1 {
			t.Errorf("logged %d times", got)
		}
		if got := n1.logs.count("memberlist reports") + n1.logs.count("ended before it said"); got != 0 {
			t.Errorf("a refused stream is reported twice: %s", n1.logs.text())
		}
		c.awaitComplete(5 * time.Second)
	})
}

// The peer to which a stream was opened may also be an attacker.
func TestReplyOfAnotherVersionIsRefused(t *testing.T) {
	frames := record(t, sealed(t))
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, sealed(t))
		n1 := c.nodes[0]
		imposed, err := c.net.Listen(netip.AddrPortFrom(memory(1), testPort))
		if err != nil {
			t.Fatal(err)
		}
		defer imposed.Shutdown()
		n1.start(t)
		replies := 0
		for _, f := range frames {
			if !f.Stream || f.Dialed {
				continue
			}
			replies++
			conn := <-imposed.StreamCh()
			go io.Copy(io.Discard, conn)
			conn.Write(withVersion(t, f, 0))
			conn.Close()
		}
		if <-time.After(time.Second); replies == 0 || n1.refused(t, "version") != float64(replies) {
			t.Errorf("%v of %d replies refused", n1.refused(t, "version"), replies)
		}
	})
}

func TestVersionIsRefusedOnRealSockets(t *testing.T) {
	frames := record(t, sealed(t))
	nd := configure(t, 2, 0, func(i int) netip.Addr { return loopback(120 + i) }, nil, sealed(t))
	nd.start(t)
	defer nd.stop(t, false)
	from := netip.AddrPortFrom(loopback(121), 0)
	to := netip.AddrPortFrom(nd.addr, testPort)
	udp, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(from), net.UDPAddrFromAddrPort(to))
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	sent := 0
	for _, f := range frames[:50] {
		if !f.Stream {
			if _, err := udp.Write(withVersion(t, f, 0)); err != nil {
				t.Fatal(err)
			}
			sent++
		}
	}
	i := slices.IndexFunc(frames, func(f netgossiptest.Frame) bool { return f.Stream && f.Dialed })
	tcp, err := net.DialTCP("tcp", net.TCPAddrFromAddrPort(from), net.TCPAddrFromAddrPort(to))
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	if _, err := tcp.Write(withVersion(t, frames[i], 0)); err != nil {
		t.Fatal(err)
	}
	awaitStep(t, patience, 10*time.Millisecond, "all is refused", func() bool { return nd.refused(t, "version") == float64(sent+1) })
}

// The cases list which streams are refused, by their beginning and by their division into reads.
func TestStreamHeads(t *testing.T) {
	head := func(length uint32, version byte) []byte {
		return append(binary.BigEndian.AppendUint32([]byte{10}, length), version)
	}
	for name, tc := range map[string]struct {
		head    []byte
		refused string // the reason
	}{
		"version 0":            {head(100, 0), "version"},
		"version 2":            {head(100, 2), "key"},
		"nothing inside":       {head(29, 1), "malformed"},
		"less than a seal":     {head(0, 1), "malformed"},
		"more than any table":  {head(512*256+1, 1), "malformed"},
		"20 MiB":               {head(20<<20, 1), "malformed"},
		"no key":               {[]byte{6, 0, 0, 0, 0, 0}, "key"}, // memberlist reports this
		"a label in the label": {append(slices.Clone(labelHeader), head(100, 0)...), "key"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, cut := range []int{1, 7, 4096} {
				synctest.Test(t, func(t *testing.T) {
					c := newCluster(t, 2, sealed(t))
					n1 := c.nodes[0]
					n1.start(t)
					conn, err := c.net.InjectStream(netip.AddrPortFrom(memory(1), 999), netip.AddrPortFrom(n1.addr, testPort))
					if err != nil {
						t.Fatal(err)
					}
					go io.Copy(io.Discard, conn)
					for part := range slices.Chunk(append(slices.Clone(labelHeader), tc.head...), cut) {
						conn.Write(part)
					}
					synctest.Wait()
					conn.Close()
					for _, reason := range []string{"version", "key", "malformed", "cut", "label"} {
						want := 0.0
						if reason == tc.refused {
							want = 1
						}
						if got := n1.refused(t, reason); got != want {
							t.Errorf("in pieces of %d: refused %v times for its %s, want %v", cut, got, reason, want)
						}
					}
				})
			}
		})
	}
}

// The number of a peer's streams is bounded: each may hold the largest table.
func TestStreamsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, sealed(t))
		n1 := c.nodes[0]
		n1.start(t)
		const opened = 300
		for range opened {
			conn, err := c.net.InjectStream(netip.AddrPortFrom(memory(1), 999), netip.AddrPortFrom(n1.addr, testPort))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			synctest.Wait()
		}
		if got := n1.refused(t, "overflow"); got != opened-256 {
			t.Errorf("%v of %d streams refused", got, opened)
		}
		<-time.After(n1.cfg.Params.TCPTimeout + time.Second)
		conn, err := c.net.InjectStream(netip.AddrPortFrom(memory(1), 999), netip.AddrPortFrom(n1.addr, testPort))
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		synctest.Wait()
		if got := n1.refused(t, "overflow"); got != opened-256 {
			t.Error("the streams are not given up after their time")
		}
	})
}

// The reason for the check: memberlist without it crashes. When this test fails, memberlist has been fixed.
func TestMemberlistEndsWithVersionZero(t *testing.T) {
	const child = "MEMBERLIST_ALONE"
	if os.Getenv(child) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestMemberlistEndsWithVersionZero$")
		cmd.Env = append(os.Environ(), child+"=1")
		if out, err := cmd.CombinedOutput(); err == nil || !bytes.Contains(out, []byte("slice bounds out of range")) {
			t.Errorf("memberlist takes version 0 without harm, see docs/adr/0016: %v\n%s", err, out)
		}
		return
	}
	network := netgossiptest.NewNetwork(1)
	transport, err := network.Listen(netip.AddrPortFrom(memory(0), testPort))
	if err != nil {
		t.Fatal(err)
	}
	conf := memberlist.DefaultLANConfig()
	conf.Name, conf.Label, conf.Transport, conf.Keyring, conf.LogOutput = "n001", testLabel, transport, keyring(t, sealedKey), io.Discard
	if _, err := memberlist.Create(conf); err != nil {
		t.Fatal(err)
	}
	for _, b := range readFrames(t, "packet") {
		b[len(labelHeader)] = 0
		network.Inject(netip.AddrPortFrom(memory(1), testPort), netip.AddrPortFrom(memory(0), testPort), b)
	}
	<-time.After(patience) // waits for the end
}

// captured returns the frames in testdata: the seeds of the fuzz targets.
const captured = "testdata/frames"

// The captured frames must be frames that agents send: otherwise the fuzz targets begin with noise.
func TestCapturedFramesAreTaken(t *testing.T) {
	if *update {
		writeFrames(t, record(t, sealed(t)))
	}
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, sealed(t))
		n1 := c.nodes[0]
		n1.start(t)
		from, at := netip.AddrPortFrom(memory(1), 999), netip.AddrPortFrom(n1.addr, testPort)
		packets, streams := readFrames(t, "packet"), readFrames(t, "stream")
		for _, b := range packets {
			c.net.Inject(from, at, b)
		}
		for _, b := range streams {
			conn, err := c.net.InjectStream(from, at)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Write(b); err != nil {
				t.Error(err)
			}
			if n, err := conn.Read(make([]byte, 64<<10)); n == 0 {
				t.Errorf("a captured stream is not answered: %v", err)
			}
			conn.Close()
		}
		synctest.Wait()
		for _, reason := range []string{"version", "key", "label", "malformed", "cut", "overflow"} {
			if got := n1.refused(t, reason); got != 0 {
				t.Errorf("%v captured frames refused: %s", got, reason)
			}
		}
		if n1.Stats().Members != 3 {
			t.Errorf("%d members", n1.Stats().Members)
		}
	})
}

// writeFrames keeps a few frames of each size: those of one size are of one kind.
func writeFrames(t *testing.T, frames []netgossiptest.Frame) {
	t.Helper()
	seen := map[string]int{}
	for _, f := range frames {
		kind := "packet"
		if f.Stream && f.Dialed {
			kind = "stream"
		} else if f.Stream {
			kind = "reply"
		}
		name := fmt.Sprintf("%s-%d", kind, len(f.Data))
		if seen[name]++; seen[name] > 1 {
			continue
		}
		if err := os.WriteFile(filepath.Join(captured, name), []byte(hex.EncodeToString(f.Data)+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func readFrames(t testing.TB, kind string) (frames [][]byte) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(captured, kind+"-*"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no captured frames of a %s: %v", kind, err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		b, err := hex.DecodeString(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		frames = append(frames, b)
	}
	return frames
}
