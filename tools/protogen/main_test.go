package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// files writes the contents to a new folder and returns its path.
func files(t *testing.T, contents map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range contents {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const header = "syntax = \"proto3\";\npackage a.v1;\noption go_package = \"example.com/a/v1;av1\";\n"

func repository(t *testing.T) string {
	return files(t, map[string]string{
		"api/v1/thing.proto": header + "import \"google/protobuf/timestamp.proto\";\n" +
			"// Thing is remarkable.\nmessage Thing { google.protobuf.Timestamp at = 1; }\n",
		"api/v1/service.proto": header + "import \"fencing-agent/api/v1/thing.proto\";\n" +
			"// Things deals in them.\nservice Things { rpc Get(Thing) returns (Thing); }\n",
		"other/broken.proto":         "this is no proto",
		"other/untouched.pb.go":      "package other",
		"api/v1/forgotten.pb.go":     "package av1",
		"api/v1/handwritten.go":      "package av1",
		"api/v1/forgotten.pb.go.txt": "",
	})
}

func read(t *testing.T, root, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestWriteThenCheck(t *testing.T) {
	root := repository(t)
	if err := run(t.Context(), root, true, folders); !errors.Is(err, errStale) {
		t.Fatalf("check before anything was generated: %v", err)
	}
	if err := run(t.Context(), root, false, folders); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), root, true, folders); err != nil {
		t.Fatalf("check of what was just generated: %v", err)
	}

	thing, service := read(t, root, "api/v1/thing.pb.go"), read(t, root, "api/v1/service_grpc.pb.go")
	for text, file := range map[string]string{"// Thing is remarkable.": thing, "// Things deals in them.": service} {
		if !strings.Contains(file, text) {
			t.Errorf("comment %q was lost", text)
		}
	}
	if strings.Contains(thing+service, filepath.Dir(root)) {
		t.Error("generated code names a folder of this machine")
	}
	for name, want := range map[string]bool{
		"api/v1/forgotten.pb.go": false, "api/v1/thing_grpc.pb.go": false, "api/v1/handwritten.go": true, "other/untouched.pb.go": true,
	} {
		if _, err := os.Stat(filepath.Join(root, name)); (err == nil) != want {
			t.Errorf("%s is there: %t, want %t", name, err == nil, want)
		}
	}

	again := repository(t)
	if err := run(t.Context(), again, false, folders); err != nil {
		t.Fatal(err)
	}
	if read(t, again, "api/v1/thing.pb.go") != thing {
		t.Error("the same source elsewhere gives other code")
	}
}

func TestCheckFindsEachDifference(t *testing.T) {
	changes := map[string]func(root string) error{
		"edited": func(root string) error {
			return os.WriteFile(filepath.Join(root, "api/v1/thing.pb.go"), []byte("package av1"), 0o644)
		},
		"missing": func(root string) error { return os.Remove(filepath.Join(root, "api/v1/service_grpc.pb.go")) },
		"orphan":  func(root string) error { return os.Remove(filepath.Join(root, "api/v1/service.proto")) },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			root := repository(t)
			if err := run(t.Context(), root, false, folders); err != nil {
				t.Fatal(err)
			}
			if err := change(root); err != nil {
				t.Fatal(err)
			}
			if err := run(t.Context(), root, true, folders); !errors.Is(err, errStale) {
				t.Errorf("check: %v", err)
			}
		})
	}
}

func TestErrorsNameTheirPlace(t *testing.T) {
	tests := map[string]struct{ path, text, want string }{
		"syntax":          {"api/v1/b.proto", header + "message {", "fencing-agent/api/v1/b.proto:4:9"},
		"unknown import":  {"api/v1/b.proto", header + "import \"b/other.proto\";", "b/other.proto"},
		"no go_package":   {"api/v1/b.proto", "syntax = \"proto3\";", "protoc-gen-go"},
		"nothing to do":   {"api/v1/b.txt", "", "no .proto file"},
		"taken file name": {"api/v1/b.proto", header + "message A {} message A {}", "a.v1.A"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := run(t.Context(), files(t, map[string]string{tt.path: tt.text}), false, folders)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v does not name %q", err, tt.want)
			}
		})
	}
}
