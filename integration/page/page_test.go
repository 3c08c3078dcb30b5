package page

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fencing-agent/fencing-agent/api/client"
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/statuspage"
)

// slow is the time limit, on a loaded machine, for steps of the browser that have no other bound.
const slow = 60 * time.Second

func chromium(t *testing.T) string {
	for _, name := range []string{os.Getenv("FENCING_CHROMIUM"), "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			return path
		}
	}
	t.Fatal("chromium is missing: apt-get install chromium, or set FENCING_CHROMIUM to a compatible browser")
	return ""
}

// browser is a window that records errors.
type browser struct {
	context.Context
	t *testing.T

	mu     sync.Mutex
	faults []string
}

func open(t *testing.T) *browser {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium(t)), chromedp.NoSandbox, chromedp.WindowSize(1000, 900))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &browser{Context: ctx, t: t}
	if err := chromedp.Listen(ctx, b.watch); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, cdplog.Enable, cdp.Empty{}); err != nil {
		t.Fatal(err)
	}
	return b
}

// watch finds requests to other hosts, and errors such as those of the content security policy. It is no error of the
// page if an agent has just started or is gone.
func (b *browser) watch(event any) {
	fault := ""
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(e.Request.URL); err != nil || u.Hostname() != "127.0.0.1" || e.Request.Method != "GET" {
			fault = "request: " + e.Request.Method + " " + e.Request.URL
		}
	case *runtime.EventExceptionThrown:
		fault = "exception: " + e.ExceptionDetails.Text
	case *cdplog.EventEntryAdded:
		if e.Entry.Level == cdplog.EntryLevelError && !strings.Contains(e.Entry.Text, "ERR_") && !strings.Contains(e.Entry.Text, "503") && !strings.Contains(e.Entry.URL, "favicon") {
			fault = "complaint: " + e.Entry.Text + " " + e.Entry.URL
		}
	}
	if fault != "" {
		b.mu.Lock()
		b.faults = append(b.faults, fault)
		b.mu.Unlock()
	}
}

func (b *browser) show(address string) {
	b.t.Helper()
	if err := chromedp.Do(b.Context, chromedp.Navigate(address)); err != nil {
		b.t.Fatal(err)
	}
}

// eval returns the value of a script.
func eval[T any](b *browser, script string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.Context, chromedp.Evaluate[T](script))
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

func (b *browser) text(selector string) string {
	b.t.Helper()
	return eval[string](b, fmt.Sprintf("(document.querySelector(%q)||{textContent:''}).textContent", selector))
}

// waitFor waits until a part of the page has a text.
func (b *browser) waitFor(selector, want string, limit time.Duration) {
	b.t.Helper()
	await(b.t, fmt.Sprintf("%q in %s", want, selector), limit, func() bool { return strings.Contains(b.text(selector), want) })
}

// shot stores a picture in $FENCING_PAGE_SHOTS.
func (b *browser) shot(name string, dark bool) {
	b.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
	if _, err := chromedp.Call(b.Context, emulation.SetEmulatedMedia, media); err != nil {
		b.t.Fatal(err)
	}
	picture, err := chromedp.Run(b.Context, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatal(err)
	}
	dir := os.Getenv("FENCING_PAGE_SHOTS")
	if dir == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(dir, "page-"+name+".png"), small(b.t, picture), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// small reduces the picture to its 256 most frequent colors.
func small(t *testing.T, picture []byte) []byte {
	t.Helper()
	in, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		t.Fatal(err)
	}
	count := map[color.RGBA]int{}
	area := in.Bounds()
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(in.At(x, y)).(color.RGBA) }
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			count[at(x, y)]++
		}
	}
	all := slices.SortedFunc(maps.Keys(count), func(a, b color.RGBA) int { return count[b] - count[a] })
	var few color.Palette
	for _, c := range all[:min(256, len(all))] {
		few = append(few, c)
	}
	out := image.NewPaletted(area, few)
	index := map[color.RGBA]uint8{}
	for _, c := range all {
		index[c] = uint8(few.Index(c))
	}
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			out.SetColorIndex(x, y, index[at(x, y)])
		}
	}
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, out); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func (b *browser) check() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.faults {
		b.t.Error(f)
	}
}

// stamp makes the page record when its heading first contains a word.
const stamp = `window.seen = {};
new MutationObserver(() => {
  const h = document.querySelector("h1").textContent + document.getElementById("trouble").textContent;
  for (const w of ["UNREACHABLE"]) if (!window.seen[w] && h.includes(w)) window.seen[w] = Date.now();
}).observe(document.querySelector("main"), {childList: true, subtree: true}); true`

func TestASplitInABrowser(t *testing.T) {
	names := []string{"n1", "n2", "n3", "n4"}
	c := startCluster(t, names...)
	b := open(t)
	await(t, "the first page", slow, func() bool {
		return chromedp.Do(b.Context, chromedp.Navigate(c.url("n1"))) == nil && strings.Contains(b.text("h1"), "FEEDING")
	})
	b.waitFor("#trouble", "all 4 nodes", slow)
	b.waitFor("#trouble", "watchdog 15s", slow)
	await(t, "the LUN in order, and the terms of ties known", slow, func() bool { return !strings.Contains(b.text("main"), "Not in order") })
	b.shot("healthy", false)

	eval[bool](b, stamp)
	known := make(chan time.Time, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go follow(ctx, c.socket("n1"), known)
	cut := time.Now()
	c.cut(names[:2], names[2:])
	b.waitFor("#trouble", "UNREACHABLE", slow)
	seen := eval[float64](b, `window.seen["UNREACHABLE"]`)
	agentKnew, pageShowed := <-known, time.UnixMilli(int64(seen))
	t.Logf("cut to known %v, known to shown %v", agentKnew.Sub(cut), pageShowed.Sub(agentKnew))
	if late := pageShowed.Sub(agentKnew); late > time.Second {
		t.Errorf("the page showed the split %v after the agent knew of it", late)
	}

	winner, loser := "n1", "n3"
	await(t, "the decision", slow, func() bool {
		head := b.text("#verdict")
		if strings.Contains(head, "NOT FEEDING") {
			winner, loser = loser, winner
			return true
		}
		return strings.Contains(head, "names this half")
	})
	b.show(c.url(winner))
	b.waitFor("#verdict", "names this half", slow)
	b.shot("split", false)
	b.show(c.url(loser))
	b.waitFor("h1", "NOT FEEDING", slow)
	b.shot("lost", true)
	<-c.ends[loser]
	b.waitFor("#lost", "NO NEWS", slow)
	b.show(c.url(winner))
	b.waitFor("#trouble", "FENCED, proof time", 2*slow)
	b.shot("fenced", false)

	// After the reset the page shows its reason.
	c.network.Heal()
	c.start(loser)
	await(t, "the page after the reset", slow, func() bool {
		return chromedp.Do(b.Context, chromedp.Navigate(c.url(loser))) == nil && strings.Contains(b.text("#parts"), "last boot")
	})
	if got := b.text("#trouble"); !strings.Contains(got, "NOT FED") || !strings.Contains(got, "names the other half") {
		t.Errorf("after the reset: %q", got)
	}
	b.shot("after", true)
	b.check()
}

// follow reports when the agent first calls a node unreachable.
func follow(ctx context.Context, socket string, known chan<- time.Time) {
	_ = client.FollowStatus(ctx, client.Config{Socket: socket}, func(u client.StatusUpdate) {
		for _, n := range u.Status.GetNodes() {
			if n.GetState() == fencingv1.NodeState_NODE_STATE_UNREACHABLE {
				select {
				case known <- time.Now():
				default:
				}
			}
		}
	})
}

// TestThreeHundredNodes: they fit on the page, without scrolling sideways.
func TestThreeHundredNodes(t *testing.T) {
	st := large(300)
	mux := http.NewServeMux()
	statuspage.Register(mux, statuspage.Config{Status: func() *fencingv1.Status { return st }, Follow: func(ctx context.Context, send func(*fencingv1.Status) error) error {
		if err := send(st); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	}})
	srv := httptest.NewServer(mux)
	defer func() { srv.CloseClientConnections(); srv.Close() }() // the page keeps one connection open
	b := open(t)
	b.show(srv.URL)
	b.waitFor("h1", "FEEDING", slow)
	chips := eval[int](b, `document.querySelectorAll(".chips li").length`)
	wide := eval[bool](b, `document.documentElement.scrollWidth > window.innerWidth`)
	if chips != 300 || wide {
		t.Errorf("%d nodes, too wide: %v", chips, wide)
	}
	b.shot("large", true)
	b.check()
}

func large(n int) *fencingv1.Status {
	now := time.Now()
	st := &fencingv1.Status{
		Time: timestamppb.New(now.Add(time.Hour)), Self: &fencingv1.NodeIdentity{Name: "node-1", Group: "storage", Cluster: "prod", Version: "v0.1.0", Uptime: durationpb.New(26 * time.Hour)},
		Verdict: &fencingv1.Verdict{
			Permission: fencingv1.Permission_PERMISSION_FEED, Reason: fencingv1.Reason_REASON_NETWORK_QUORUM, Quorum: true, TieBreaker: fencingv1.TieBreaker_TIE_BREAKER_LUN,
			Since: timestamppb.New(now.Add(-25 * time.Hour)), ValidFor: durationpb.New(3 * time.Second), Tally: &fencingv1.Tally{Reachable: uint32(n - 3), Counted: uint32(n - 3), Expected: uint32(n), Quorum: uint32(n/2 + 1)},
		},
		Watchdog: &fencingv1.WatchdogStatus{Driver: "device", Device: "/dev/watchdog0", Armed: true, State: fencingv1.WatchdogState_WATCHDOG_STATE_ARMED, Timeout: durationpb.New(30 * time.Second), Slack: durationpb.New(25 * time.Second), LastFeedAge: durationpb.New(time.Second)},
		Networks: []*fencingv1.NetworkStatus{{Name: "mgmt", Up: true, Address: "10.0.0.1"}, {Name: "data", Up: true, Address: "10.1.0.1"}},
	}
	for i := range n {
		name := fmt.Sprintf("node-%d", i+1)
		gone, half := i%100 == 41, i%50 == 7
		s := &fencingv1.NodeStatus{
			Name: name, State: fencingv1.NodeState_NODE_STATE_REACHABLE, Reachable: !gone, Counted: !gone, SeesThisNode: true, SameRoster: true, Feeding: true,
			WatchdogArmed: true, WatchdogTimeout: durationpb.New(30 * time.Second), EvidenceAge: durationpb.New(time.Second), Version: "v0.1.0",
		}
		if gone {
			s.State, s.EvidenceAge = fencingv1.NodeState_NODE_STATE_UNREACHABLE, durationpb.New(40*time.Second)
			s.ProvenIn = durationpb.New(30 * time.Second)
		}
		st.Nodes = append(st.Nodes, s)
		if i == 0 {
			continue
		}
		for k, network := range st.Networks {
			m := &fencingv1.NetworkMember{Name: name, Alive: true, Reachable: true, EvidenceAge: durationpb.New(time.Second)}
			if gone || half && k == 1 {
				m.Alive, m.Reachable, m.EvidenceAge = false, false, durationpb.New(40*time.Second)
			}
			network.Members = append(network.Members, m)
		}
	}
	return st
}
