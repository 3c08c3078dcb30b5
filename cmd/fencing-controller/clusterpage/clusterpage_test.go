package clusterpage

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencing-agent/fencing-agent/api/page"
	"github.com/fencing-agent/fencing-agent/k8s/deaths"
	"github.com/fencing-agent/fencing-agent/k8s/reconcile"
	"github.com/fencing-agent/fencing-agent/k8s/recovery"
	"github.com/fencing-agent/fencing-agent/k8s/storm"
)

var update = flag.Bool("update", false, "rewrite testdata/*.golden.html")

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// quiet returns a cluster in which all is well.
func quiet(nodes int) *reconcile.Picture {
	p := &reconcile.Picture{
		At: noon, Self: "controller-a", Groups: map[string][]string{}, Storm: storm.Settings{Evicting: 1, DeletesPerSecond: 20, MaxDeadPercent: 40},
		Replicas: []reconcile.Replica{{Name: "controller-a", Node: "node-1"}, {Name: "controller-b", Node: "node-2"}},
	}
	for i := range nodes {
		group := [...]string{"storage", "worker"}[i%2]
		p.Groups[group] = append(p.Groups[group], fmt.Sprintf("node-%d", i+1))
	}
	return p
}

// night returns a cluster with every kind of trouble.
func night(nodes int) *reconcile.Picture {
	p := quiet(nodes)
	at := func(name, group string, phase recovery.Phase, ago time.Duration, text string, told ...deaths.Death) {
		p.Nodes = append(p.Nodes, reconcile.NodePicture{Name: name, Group: group, Phase: phase, Since: noon.Add(-ago), Text: text, Told: told})
	}
	told := func(by, boot, proof string) deaths.Death {
		return deaths.Death{By: by, Boot: boot, Proof: proof, At: noon.Add(-20 * time.Second)}
	}
	at("node-2", "worker", recovery.Draining, 12*time.Second, "12 pods are not evicted yet", told("node-1", "024bc581b3a34be3", "sentence"), told("node-3", "024bc581b3a34be3", "sentence"), told("node-4", "111bc581b3a34be3", "<time>"))
	at("node-3", "storage", recovery.InDispute, time.Minute, "boot 324bc581b3a34be3 was heard after it was called dead")
	at("node-4", "worker", recovery.Unproven, 3*time.Second, "one Node alone calls it dead", told("node-1", "424bc581b3a34be3", "operator"))
	at("node-1", "storage", recovery.Watching, time.Hour, "nobody calls it dead")
	p.Nodes[0].Left, p.Nodes[0].Trouble, p.Nodes[0].Tainted = 12, "the webhook <refuses>", true
	p.Evicting = map[string]time.Time{"node-2": noon.Add(-12 * time.Second)}
	return p
}

func serve(t *testing.T, p *reconcile.Picture) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	Register(mux, Config{Picture: func() *reconcile.Picture { return p }, Version: "v0.1.0"})
	srv := httptest.NewServer(mux)
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	return srv
}

func get(t *testing.T, srv *httptest.Server, path string) (int, http.Header, string) {
	t.Helper()
	resp, err := srv.Client().Get(srv.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var b strings.Builder
	if err := resp.Write(&b); err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(b.String(), "\r\n\r\n")
	return resp.StatusCode, resp.Header, body
}

func TestPages(t *testing.T) {
	dry := night(4)
	dry.DryRun, dry.Replicas = true, dry.Replicas[:1]
	for name, p := range map[string]*reconcile.Picture{"quiet": quiet(4), "night": night(5), "dry": dry} {
		code, header, html := get(t, serve(t, p), "/")
		if code != 200 || !strings.Contains(header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: %d %v", name, code, header)
		}
		for what, never := range map[string]*regexp.Regexp{
			"an address elsewhere": regexp.MustCompile(`(?i)(src|href)="[^"]*//`), "style or script within": regexp.MustCompile(`(?i) style=| on[a-z]+=|<style|<script[^>]*>[^<]`),
			"text that was not escaped": regexp.MustCompile(`<time>|<refuses>`),
		} {
			if m := never.FindString(html); m != "" {
				t.Errorf("%s: %s: %q", name, what, m)
			}
		}
		file := filepath.Join("testdata", name+".golden.html")
		if *update {
			if err := os.WriteFile(file, []byte(html), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(file); err != nil || string(want) != html {
			t.Errorf("%s differs from %s (go test -update rewrites it): %v", name, file, err)
		}
	}
}

func TestWhatItSays(t *testing.T) {
	_, _, html := get(t, serve(t, night(5)), "/")
	for _, want := range []string{
		"3 of 5 nodes: 1 unproven, 1 draining, 1 disputed", "12 pods are left", "boot 024bc581b3a34be3, proof sentence: node-1 at 11:59:40, node-3 at 11:59:40",
		"storage</b>: <span class=\"bad\">1 of 3 nodes", "awaited from node-2 for 12s", "in worker it is reached: 1 of 2", "controller-b</dt><dd class=\"warn\">on node-2, which is draining", `aria-current="step"`,
	} {
		if !strings.Contains(html, want) {
			t.Errorf("it does not say %q:\n%s", want, html)
		}
	}
	if at, other := strings.Index(html, "<b>node-3</b>"), strings.Index(html, "<b>node-2</b>"); at < 0 || at > other {
		t.Error("what needs a person is not first")
	}
	if _, _, text := get(t, serve(t, night(5)), "/ticket"); !strings.Contains(text, "node-3 (storage): disputed for 1m00s") || !strings.Contains(text, "group worker: 2 of 2") {
		t.Error(text)
	}
}

func TestBeforeTheNodesAreSeen(t *testing.T) {
	for _, path := range []string{"/", "/ticket"} {
		if code, _, text := get(t, serve(t, &reconcile.Picture{At: noon}), path); code != http.StatusServiceUnavailable || !strings.Contains(text, "has just started") {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
}

// A change is sent within a second, and a message at least every five seconds: the page takes silence for a lost
// connection.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		c := Config{Picture: func() *reconcile.Picture {
			if since := time.Since(began); since < 7500*time.Millisecond {
				return quiet(4)
			}
			return night(5)
		}}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var at []time.Duration
		_ = c.follow(ctx, func(*page.Model) error {
			at = append(at, time.Since(began))
			return nil
		})
		if want := "[0s 5s 8s]"; fmt.Sprint(at) != want {
			t.Errorf("sent after %v, want %s", at, want)
		}
	})
}
