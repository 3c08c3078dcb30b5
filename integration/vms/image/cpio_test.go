package image

import (
	"bytes"
	"fmt"
	"strconv"
	"testing"
)

// unpack reads an archive as the kernel does: headers and contents begin at multiples of four.
func unpack(t *testing.T, data []byte) (names []string, entries map[string]string) {
	t.Helper()
	entries = map[string]string{}
	field := func(at, i int) int {
		n, err := strconv.ParseUint(string(data[at+6+8*i:at+14+8*i]), 16, 32)
		if err != nil {
			t.Fatalf("field %d of the header at %d: %v", i, at, err)
		}
		return int(n)
	}
	align := func(n int) int { return (n + 3) / 4 * 4 }
	for at := 0; ; {
		if string(data[at:at+6]) != "070701" {
			t.Fatalf("no header at %d: %q", at, data[at:at+6])
		}
		mode, size, nameSize := field(at, 1), field(at, 6), field(at, 11)
		name := string(data[at+110 : at+110+nameSize-1])
		content := align(at + 110 + nameSize)
		if name == "TRAILER!!!" {
			return names, entries
		}
		names = append(names, name)
		entries[name] = fmt.Sprintf("%o %s", mode, data[content:content+size])
		at = align(content + size)
	}
}

func TestArchive(t *testing.T) {
	var out bytes.Buffer
	a := newArchive(&out)
	a.file("/bin/tool", 0o755, []byte("12345"))
	a.link("/bin/other", "tool")
	a.file("/etc/conf", 0o644, nil)
	a.file("/bin/tool", 0o755, []byte("a second one is left out"))
	a.dir("/etc")
	if err := a.close(); err != nil {
		t.Fatal(err)
	}
	names, entries := unpack(t, out.Bytes())
	if got, want := fmt.Sprint(names), "[bin bin/tool bin/other etc etc/conf]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for name, want := range map[string]string{
		"bin": "40755 ", "bin/tool": "100755 12345", "bin/other": "120777 tool", "etc/conf": "100644 ",
	} {
		if entries[name] != want {
			t.Errorf("%s: %q, want %q", name, entries[name], want)
		}
	}
}

// TestOrderOfBuiltIn: a module that is built into the kernel is left out, and a module that cannot be read is an error.
func TestOrderOfBuiltIn(t *testing.T) {
	order, err := modules{}.order([]string{"a"}, "built_in")
	if err != nil || len(order) != 1 {
		t.Errorf("%v, %v", order, err)
	}
	if _, err := (modules{"broken": "/dev/null"}).order(nil, "broken"); err == nil {
		t.Error("a module that cannot be read was taken")
	}
}
