package swim

import (
	"bytes"
	"context"
	"encoding/base64"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"
)

func key(size int, fill byte) string {
	return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{fill}, size))
}

func load(t *testing.T, text string, mode os.FileMode) (keys [][]byte, logged string, err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	ring, err := LoadKeyring(path, slog.New(slog.NewTextHandler(&out, nil)))
	if err == nil {
		keys = ring.GetKeys()
	}
	return keys, out.String(), err
}

func TestLoadKeyring(t *testing.T) {
	text := "# the new key\r\n\r\n  " + key(32, 1) + "  \r\n" + key(16, 2) + " # the old one\n" + key(24, 3)
	keys, logged, err := load(t, text, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	want := [][]byte{bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 16), bytes.Repeat([]byte{3}, 24)}
	if len(keys) != 3 || !bytes.Equal(keys[0], want[0]) || !bytes.Equal(keys[1], want[1]) || !bytes.Equal(keys[2], want[2]) {
		t.Errorf("keys %v", keys)
	}
	if logged != "" {
		t.Errorf("logged %q", logged)
	}
}

func TestLoadKeyringWarnsOfOpenFiles(t *testing.T) {
	for mode, warn := range map[os.FileMode]bool{0o600: false, 0o400: false, 0o640: true, 0o604: true} {
		_, logged, err := load(t, key(32, 1), mode)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(logged, "accessible to other users"); got != warn {
			t.Errorf("mode %o: warning %v, want %v", mode, got, warn)
		}
	}
}

func TestFollowKeyringRotatesWithoutARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	write := func(lines ...string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a, b := key(32, 1), key(16, 2)
	write(a)
	ring, err := LoadKeyring(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			FollowKeyring(ctx, path, ring, time.Second, slog.New(slog.NewTextHandler(&log, nil)))
		}()
		holds := func(step string, want ...string) {
			t.Helper()
			time.Sleep(1100 * time.Millisecond) // virtual time
			synctest.Wait()
			var got []string
			for _, k := range ring.GetKeys() {
				got = append(got, base64.StdEncoding.EncodeToString(k))
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: keys %v, want %v", step, got, want)
			}
		}
		write(a, b)
		holds("added", a, b)
		write(b, a)
		holds("moved first", b, a)
		write("not a key")
		holds("broken file", b, a)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		holds("no file", b, a)
		write(b)
		holds("old one removed", b)
		stop()
		<-done
	})
	if n := strings.Count(log.String(), "gossip keys changed"); n != 3 {
		t.Errorf("%d changes logged, want 3:\n%s", n, &log)
	}
	if n := strings.Count(log.String(), "gossip keys stay"); n != 2 {
		t.Errorf("%d errors logged, want one for each kind:\n%s", n, &log)
	}
	if strings.Contains(log.String(), a) || strings.Contains(log.String(), b) {
		t.Error("a key was logged")
	}
}

// Fingerprints are equal for equal keys, in the order of use, and reveal nothing else.
func TestFingerprints(t *testing.T) {
	a, b := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 16)
	ring, err := memberlist.NewKeyring([][]byte{a, b}, a)
	if err != nil {
		t.Fatal(err)
	}
	before := Fingerprints(ring)
	if len(before) != 2 || len(before[0]) != 8 || before[0] == before[1] {
		t.Fatalf("fingerprints %q", before)
	}
	if err := ring.UseKey(b); err != nil {
		t.Fatal(err)
	}
	if after := Fingerprints(ring); !slices.Equal(after, []string{before[1], before[0]}) {
		t.Errorf("after the other key was put to use: %q, before %q", after, before)
	}
	if got := Fingerprints(nil); got != nil {
		t.Errorf("without a ring: %q", got)
	}
}
