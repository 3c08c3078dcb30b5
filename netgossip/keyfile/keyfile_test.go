package keyfile

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func key(size int, fill byte) string {
	return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{fill}, size))
}

func TestReadErrors(t *testing.T) {
	secret := key(32, 0xab)
	for name, c := range map[string]struct{ text, want string }{
		"empty":       {"", "no key in it"},
		"comments":    {"# nothing\n\n", "no key in it"},
		"not base64":  {"# x\n" + secret + "\n" + secret[:20] + "!" + secret[20:], "line 3: it is not base64"},
		"cut short":   {"\n" + secret[:43], "line 2: it is not base64"},
		"wrong size":  {key(31, 1), "line 1: key has 31 bytes, but must have 16, 24 or 32"},
		"two in line": {secret + " " + secret, "line 1: it is not base64"},
		"huge":        {strings.Repeat("#\n", most), "larger than"},
	} {
		path := filepath.Join(t.TempDir(), "keys")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, err := Read(path)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
			continue
		}
		if strings.Contains(err.Error(), secret[:8]) {
			t.Errorf("%s: the error shows key material: %v", name, err)
		}
	}
	if _, _, err := Read(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	if _, _, err := Read(t.TempDir()); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("folder: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(key(32, 1) + "\n# c\n" + key(16, 2)))
	f.Add([]byte("x"))
	f.Fuzz(func(t *testing.T, text []byte) {
		keys, err := parse(text)
		if err == nil && len(keys) == 0 {
			t.Error("neither keys nor error")
		}
	})
}
