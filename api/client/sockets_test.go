package client

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

// The socket of either installation is found, and a file that is not a socket is not. Without any socket, the result is
// the default.
func TestFindSocket(t *testing.T) {
	root, err := os.MkdirTemp("", "s") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(root)
	paths := []string{DefaultSocket, "/run/f/a.sock"}
	if got := findSocket(root, paths); got != DefaultSocket {
		t.Errorf("without any: %s", got)
	}
	if err := os.MkdirAll(filepath.Join(root, "run/f"), 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(root, "run/f/a.sock")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := findSocket(root, paths); got != DefaultSocket {
		t.Errorf("a file: %s", got)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", file)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got := findSocket(root, paths); got != "/run/f/a.sock" {
		t.Errorf("of the second: %s", got)
	}
}
