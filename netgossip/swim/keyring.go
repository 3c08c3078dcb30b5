package swim

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/fencing-agent/fencing-agent/netgossip/keyfile"
)

// LoadKeyring reads a key file. The first key encrypts, all keys decrypt. So keys are rotated in three steps: add the
// new key at the end on all nodes, then move it to the front, then remove the old one. A file that users other than its
// owner can read is used, with a warning.
func LoadKeyring(path string, log *slog.Logger) (*memberlist.Keyring, error) {
	keys, mode, err := keyfile.Read(path)
	if err != nil {
		return nil, err
	}
	if keyfile.Open(mode) {
		log.Warn("key file is accessible to other users; set its mode to 0600", "path", path, "mode", mode)
	}
	ring, err := memberlist.NewKeyring(keys, keys[0])
	if err != nil {
		return nil, fmt.Errorf("key file %s: %w", path, err)
	}
	return ring, nil
}

// Fingerprints returns 8 hexadecimal digits of a hash of each key of a ring, the encrypting key first. They identify
// the keys without revealing them. A nil ring has none.
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

// FollowKeyring reads the key file every interval and brings the ring in line with it, so that keys are rotated without
// a restart, until ctx ends. It polls, because a mounted secret is replaced by moving links, which a watch of the file
// does not see. A file that cannot be used changes nothing: the keys in use stay, and the error is logged once.
func FollowKeyring(ctx context.Context, path string, ring *memberlist.Keyring, interval time.Duration, log *slog.Logger) {
	t := time.NewTicker(interval)
	defer t.Stop()
	last := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		keys, _, err := keyfile.Read(path) // the warning about its mode was logged at the start
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

// replaceKeys makes the ring hold exactly keys, the first one primary. Every key that is in both the old and the new
// file stays valid throughout.
func replaceKeys(ring *memberlist.Keyring, keys [][]byte) (changed bool, err error) {
	old := ring.GetKeys() // primary first
	if slices.EqualFunc(old, keys, bytes.Equal) {
		return false, nil
	}
	// The order of the other keys does not matter: only a change of the set or of the primary key counts.
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
