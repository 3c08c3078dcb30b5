package statuspage

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/history"
)

var update = flag.Bool("update", false, "rewrite testdata/*.golden.html")

// scene is a status that whole agents reported in a simulation.
func scene(t *testing.T, name string) *fencingv1.Status {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "fencectl", "testdata", "scenes", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var kept struct{ Status json.RawMessage }
	st := new(fencingv1.Status)
	if err := json.Unmarshal(text, &kept); err != nil {
		t.Fatal(err)
	}
	if err := protojson.Unmarshal(kept.Status, st); err != nil {
		t.Fatal(err)
	}
	return st
}

func past(st *fencingv1.Status) []history.Record {
	at := func(ago time.Duration) time.Time { return st.GetTime().AsTime().Add(-ago) }
	return []history.Record{
		{Seq: 1, Boot: 1, Wall: at(30 * time.Hour), Kind: history.Decision, Action: "feed", Reason: "network_quorum", Quorum: true, Text: "majority of the group is reachable"},
		{Seq: 2, Boot: 1, Wall: at(23 * time.Hour), Kind: history.Gone, Nodes: []string{"n1", "n2"}},
		{Seq: 3, Boot: 1, Wall: at(23*time.Hour - time.Second), Kind: history.Decision, Action: "starve", Reason: "split_lost", Text: "the LUN's grant <names> the other half"},
		{Seq: 4, Boot: 1, Wall: at(23*time.Hour - time.Second), Kind: history.LastWords, Armed: true, Text: "equal split"},
		{Seq: 5, Boot: 2, Wall: at(22 * time.Hour), Kind: history.Started, Text: "version v0.1.0"},
		{Seq: 6, Boot: 2, Wall: at(22*time.Hour - time.Minute), Kind: history.Decision, Action: "feed", Reason: "network_quorum", Quorum: true, Text: "majority"},
	}
}

func serve(t *testing.T, st *fencingv1.Status, anybody bool) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	Register(mux, Config{
		Status: func() *fencingv1.Status { return st }, History: func() []history.Record { return past(st) },
		Now: func() time.Time { return st.GetTime().AsTime() }, Anybody: anybody,
		Follow: func(ctx context.Context, send func(*fencingv1.Status) error) error {
			other := proto.CloneOf(st)
			other.Verdict.Permission = fencingv1.Permission_PERMISSION_DISARM
			for _, s := range []*fencingv1.Status{st, st, other} {
				if err := send(s); err != nil {
					return err
				}
			}
			<-ctx.Done()
			return ctx.Err()
		},
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv
}

func get(t *testing.T, srv *httptest.Server, path string) (*http.Response, string) {
	t.Helper()
	resp, err := srv.Client().Get(srv.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var b strings.Builder
	if _, err := bufio.NewReader(resp.Body).WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return resp, b.String()
}

func TestPages(t *testing.T) {
	for _, name := range []string{"healthy", "split-lost", "large", "maintenance"} {
		srv := serve(t, scene(t, name), false)
		resp, html := get(t, srv, "/")
		if resp.StatusCode != 200 || !strings.Contains(resp.Header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: %v", name, resp)
		}
		for what, never := range map[string]*regexp.Regexp{
			"an address elsewhere": regexp.MustCompile(`(?i)(src|href)="[^"]*//`), "style or script within": regexp.MustCompile(`(?i) style=| on[a-z]+=|<style|<script[^>]*>[^<]`),
			"text that was not escaped": regexp.MustCompile(`<names>`),
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

func TestTicket(t *testing.T) {
	resp, text := get(t, serve(t, scene(t, "split-lost"), false), "/ticket")
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") || !strings.Contains(text, "n3: NOT FEEDING") || !strings.Contains(text, "time budget") {
		t.Errorf("%v\n%s", resp.Header, text)
	}
}

// TestLive: the first message has all sections, a later message has the sections that have changed.
func TestLive(t *testing.T) {
	srv := serve(t, scene(t, "split-lost"), false)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL+"/live", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	in := bufio.NewScanner(resp.Body)
	in.Buffer(nil, 1<<20)
	var got []map[string]string
	for len(got) < 3 && in.Scan() {
		if data, ok := strings.CutPrefix(in.Text(), "data: "); ok {
			m := map[string]string{}
			if err := json.Unmarshal([]byte(data), &m); err != nil {
				t.Fatal(err)
			}
			got = append(got, m)
		}
	}
	if len(got) != 3 || len(got[0]) != 7 || len(got[1]) != 1 || len(got[2]) != 2 || !strings.Contains(got[2]["verdict"], "DISARMED") {
		t.Errorf("%d messages: %v", len(got), got)
	}
}

func TestWhoMaySeeIt(t *testing.T) {
	st := scene(t, "healthy")
	for _, c := range []struct {
		remote, host string
		anybody      bool
		want         int
	}{
		{"127.0.0.1:5", "127.0.0.1:9110", false, 200},
		{"127.0.0.1:5", "localhost:9110", false, 200},
		{"127.0.0.1:5", "localhost", false, 200},
		{"[::1]:5", "[::1]:9110", false, 200},
		{"127.0.0.1:5", "evil.example:9110", false, 403}, // a name of a foreign page that resolves to the loopback
		{"127.0.0.1:5", "127.0.0.1.evil.example", false, 403},
		{"10.0.0.9:5", "127.0.0.1:9110", false, 403},
		{"10.0.0.9:5", "10.0.0.1:9110", false, 403},
		{"10.0.0.9:5", "10.0.0.1:9110", true, 200},
		{"", "", false, 403},
	} {
		mux := http.NewServeMux()
		Register(mux, Config{Status: func() *fencingv1.Status { return st }, Anybody: c.anybody})
		for _, path := range []string{"/", "/ticket", "/page.js", "/page.css"} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.RemoteAddr, r.Host = c.remote, c.host
			w := httptest.NewRecorder()
			mux.ServeHTTP(w, r)
			if w.Code != c.want {
				t.Errorf("%s from %s as %s: %d, want %d", path, c.remote, c.host, w.Code, c.want)
			}
		}
	}
}

// TestNothingCanBeChanged: every method except GET and HEAD is refused.
func TestNothingCanBeChanged(t *testing.T) {
	srv := serve(t, scene(t, "healthy"), false)
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch} {
		for _, path := range []string{"/", "/live", "/ticket", "/page.js"} {
			req, err := http.NewRequestWithContext(t.Context(), method, srv.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := srv.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %d", method, path, resp.StatusCode)
			}
		}
	}
}

// TestBeforeTheFirstView: an agent that has just started has nothing to show.
func TestBeforeTheFirstView(t *testing.T) {
	mux := http.NewServeMux()
	Register(mux, Config{Status: func() *fencingv1.Status { return nil }, Anybody: true})
	for _, path := range []string{"/", "/ticket"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != http.StatusServiceUnavailable {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}
