package swim

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/hashicorp/memberlist"
)

// maxKeyFile bounds what is read of a key file, which may be any path by mistake.
const maxKeyFile = 64 << 10

// LoadKeyring reads a key file: one base64 AES key of 16, 24 or 32 bytes a line, blank
// lines and # comments allowed. The first key encrypts, all of them decrypt, so keys are
// rotated by adding the new one last everywhere, then moving it first, then removing the
// old one. A file that others than its owner can read is used, with a warning.
// Errors name the line and never quote it.
func LoadKeyring(path string, log *slog.Logger) (*memberlist.Keyring, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return nil, fmt.Errorf("key file: %w", err)
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
	ring, err := memberlist.NewKeyring(keys, keys[0])
	if err != nil {
		return nil, fmt.Errorf("key file %s: %w", path, err)
	}
	return ring, nil
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
