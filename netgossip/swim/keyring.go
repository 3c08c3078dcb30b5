package swim

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/hashicorp/memberlist"
	"golang.org/x/sys/unix"
)

// maxKeyFile bounds what is read of a key file, which may be any path by mistake.
const maxKeyFile = 64 << 10

// LoadKeyring reads a key file: one base64 AES key of 16, 24 or 32 bytes a line, blank
// lines and # comments allowed. The first key encrypts, all of them decrypt, so keys are
// rotated by adding the new one last everywhere, then moving it first, then removing the
// old one. A file that others than its owner can read is used, with a warning.
// Errors name the line and never quote it.
func LoadKeyring(path string, log *slog.Logger) (*memberlist.Keyring, error) {
	keys, err := readKeys(path, log)
	if err != nil {
		return nil, err
	}
	ring, err := memberlist.NewKeyring(keys, keys[0])
	if err != nil {
		return nil, fmt.Errorf("key file %s: %w", path, err)
	}
	return ring, nil
}

// Fingerprints names the keys of a ring, the one that encrypts first, without giving
// anything of them away: 8 hexadecimal digits of a hash of each. A nil ring has none.
func Fingerprints(ring *memberlist.Keyring) []string {
	if ring == nil {
		return nil
	}
	var out []string
	for _, k := range ring.GetKeys() {
		h := sha256.Sum256(append([]byte("fencing-agent gossip key:"), k...))
		out = append(out, hex.EncodeToString(h[:4]))
	}
	return out
}

// FollowKeyring reads the key file every interval and brings the ring in line with it, so
// that keys are rotated without a restart, until ctx ends. It polls, because a mounted
// secret is exchanged by moving links that no watch of the file sees. A file that cannot
// be used changes nothing: the keys in use stay, and the error is logged once.
func FollowKeyring(ctx context.Context, path string, ring *memberlist.Keyring, interval time.Duration, log *slog.Logger) {
	t := time.NewTicker(interval)
	defer t.Stop()
	quiet := slog.New(slog.DiscardHandler) // the mode was complained about at the start
	last := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		keys, err := readKeys(path, quiet)
		changed := false
		if err == nil {
			changed, err = replaceKeys(ring, keys)
		}
		switch {
		case err != nil && err.Error() != last:
			last = err.Error()
			log.Error("gossip keys stay as they were", "error", err)
		case err == nil:
			last = ""
		}
		if changed {
			log.Info("gossip keys changed", "path", path, "keys", len(keys))
		}
	}
}

// replaceKeys makes the ring hold exactly keys, the first one primary. Every key that is
// in the file before and after stays valid throughout.
func replaceKeys(ring *memberlist.Keyring, keys [][]byte) (changed bool, err error) {
	old := ring.GetKeys() // primary first
	if slices.EqualFunc(old, keys, bytes.Equal) {
		return false, nil
	}
	// The order of the others does not matter: only a change of the set or of the primary counts.
	for _, k := range keys {
		if !contains(old, k) {
			changed = true
			if err := ring.AddKey(k); err != nil {
				return changed, fmt.Errorf("add a gossip key: %w", err)
			}
		}
	}
	if !bytes.Equal(old[0], keys[0]) {
		changed = true
		if err := ring.UseKey(keys[0]); err != nil {
			return changed, fmt.Errorf("use the first gossip key: %w", err)
		}
	}
	for _, k := range old {
		if !contains(keys, k) {
			changed = true
			if err := ring.RemoveKey(k); err != nil {
				return changed, fmt.Errorf("remove a gossip key: %w", err)
			}
		}
	}
	return changed, nil
}

func contains(keys [][]byte, k []byte) bool {
	return slices.ContainsFunc(keys, func(o []byte) bool { return bytes.Equal(o, k) })
}

func readKeys(path string, log *slog.Logger) ([][]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // opening a pipe would wait for a writer
	if err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("key file: %s is not a regular file", path)
	} else if open := info.Mode().Perm() & 0o077; open != 0 {
		log.Warn("key file is accessible to other users; set its mode to 0600", "path", path, "mode", info.Mode().Perm())
	}
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	if len(text) > maxKeyFile {
		return nil, fmt.Errorf("key file %s: larger than %d bytes: is it the right file?", path, maxKeyFile)
	}
	keys, err := parseKeys(text)
	if err != nil {
		return nil, fmt.Errorf("key file %s: %w", path, err)
	}
	return keys, nil
}

// parseKeys returns at least one key or an error.
func parseKeys(text []byte) ([][]byte, error) {
	var keys [][]byte
	number := 0
	for line := range bytes.Lines(text) {
		number++
		line, _, _ = bytes.Cut(line, []byte("#")) // base64 has no such character
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		key, err := base64.StdEncoding.Strict().DecodeString(string(line))
		if err != nil {
			return nil, fmt.Errorf("line %d: not base64", number)
		}
		if memberlist.ValidateKey(key) != nil {
			return nil, fmt.Errorf("line %d: key of %d bytes, 16, 24 or 32 are possible (make one with: head -c 32 /dev/urandom | base64)", number, len(key))
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("no key in it: write one base64 AES key a line, or configure no key file")
	}
	return keys, nil
}
