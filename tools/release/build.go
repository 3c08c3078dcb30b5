package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// platform is a system and a machine, in Go's spelling.
type platform struct{ system, machine string }

func (p platform) String() string { return p.system + "/" + p.machine }

// nodes are the platforms of agents; tools are the additional platforms of operators.
var (
	nodes = []platform{{"linux", "amd64"}, {"linux", "arm64"}}
	tools = []platform{{"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}}
)

func programsOf(p platform) []string {
	if p.system == "linux" {
		return []string{"fencing-agent", "fencectl", "fencing-controller", executor}
	}
	return []string{"fencectl"}
}

// executor runs Debian's fence agents and is of no use without them. It has a separate archive, from which its image is
// built.
const executor = "fencing-executor"

// withoutExecutor returns the programs of a platform except for the executor.
func withoutExecutor(p platform) []string {
	return slices.DeleteFunc(programsOf(p), func(name string) bool { return name == executor })
}

// build compiles the programs. It ignores the Go settings in the caller's environment, except for the caches.
func (r *release) build(ctx context.Context) error {
	r.programs = map[string]string{}
	for _, p := range append(append([]platform{}, r.nodes...), r.tools...) {
		dir := filepath.Join(r.work, "bin", p.system+"-"+p.machine)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		args := []string{"build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-tags", "grpcnotrace", "-ldflags", "-s -w -funcalign=16 -X main.version=" + r.version, "-o", dir + string(filepath.Separator)}
		for _, name := range programsOf(p) {
			args = append(args, "./cmd/"+name)
			file := name
			if p.system == "windows" {
				file += ".exe"
			}
			r.programs[p.String()+"/"+name] = filepath.Join(dir, file)
		}
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir = r.root
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.system, "GOARCH="+p.machine, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOEXPERIMENT=", "GOWORK=off", "GOTOOLCHAIN=local")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", p, err, out)
		}
	}
	return nil
}

// host returns the platform whose programs can be run here.
func host() platform { return platform{runtime.GOOS, runtime.GOARCH} }

// entry is a file of an archive; dirs end in a slash and have no data.
type entry struct {
	name string
	mode int64
	data []byte
	link string // target of a symbolic link
}

// tarball packs entries in the given order, all with the time of the commit and owned by root.
func (r *release) tarball(entries []entry) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: e.mode, Size: int64(len(e.data)), ModTime: r.time, Format: tar.FormatPAX, Typeflag: tar.TypeReg, Linkname: e.link}
		switch {
		case e.link != "":
			h.Typeflag = tar.TypeSymlink
		case strings.HasSuffix(e.name, "/"):
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.data); err != nil {
			return nil, err
		}
	}
	// This must precede the use of the bytes, because it writes the end.
	err := w.Close()
	return b.Bytes(), err
}

func zipped(data []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	// This must precede the use of the bytes, because it writes the end.
	err = w.Close()
	return b.Bytes(), err
}

// archives packs the programs for users who need no package: one archive with all three programs for nodes, one with
// the executor and what its image is built from, and for each system one with the plugin of kubectl, in the form that
// krew installs.
func (r *release) archives(context.Context) error {
	text, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return err
	}
	for _, p := range r.nodes {
		entries := []entry{{name: "LICENSE", mode: 0o644, data: text}}
		for _, name := range withoutExecutor(p) {
			data, err := os.ReadFile(r.programs[p.String()+"/"+name])
			if err != nil {
				return err
			}
			entries = append(entries, entry{name: name, mode: 0o755, data: data})
		}
		if err := r.archive("fencing-agent", p, entries); err != nil {
			return err
		}
		if err := r.recipe(p, text); err != nil {
			return err
		}
	}
	for _, p := range append(append([]platform{}, r.nodes...), r.tools...) {
		program := r.programs[p.String()+"/fencectl"]
		data, err := os.ReadFile(program)
		if err != nil {
			return err
		}
		entries := []entry{{name: "LICENSE", mode: 0o644, data: text}, {name: "kubectl-fence" + path.Ext(filepath.Base(program)), mode: 0o755, data: data}}
		if err := r.archive("kubectl-fence", p, entries); err != nil {
			return err
		}
	}
	return nil
}

// recipe packs what is needed to build the executor's image for one platform with docker build in the archive's folder.
// The image itself is not released: with Debian's fence agents in it, a second build would not give the same bytes, and
// it would be out of date with their next security update.
func (r *release) recipe(p platform, license []byte) error {
	entries := []entry{{name: "LICENSE", mode: 0o644, data: license}}
	for _, f := range []struct {
		name, from string
		mode       int64
	}{
		{"Dockerfile", filepath.Join(r.root, "deploy", "executor", "Dockerfile"), 0o644}, {"root.sh", filepath.Join(r.root, "deploy", "executor", "root.sh"), 0o755},
		{"bin/" + executor, r.programs[p.String()+"/"+executor], 0o755},
	} {
		data, err := os.ReadFile(f.from)
		if err != nil {
			return err
		}
		entries = append(entries, entry{name: f.name, mode: f.mode, data: data})
	}
	return r.archive(executor, p, entries)
}

// archiveName returns the name of a program's archive for a platform.
func (r *release) archiveName(of string, p platform) string {
	suffix := ".tar.gz"
	if p.system == "windows" {
		suffix = ".zip"
	}
	return fmt.Sprintf("%s_%s_%s_%s%s", of, r.plain(), p.system, p.machine, suffix)
}

func (r *release) archive(of string, p platform, entries []entry) error {
	name := r.archiveName(of, p)
	var data []byte
	var err error
	if strings.HasSuffix(name, ".zip") {
		data, err = r.zip(entries)
	} else if data, err = r.tarball(entries); err == nil {
		data, err = zipped(data)
	}
	if err != nil {
		return err
	}
	return r.put(name, data)
}

func (r *release) zip(entries []entry) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: r.time}
		h.SetMode(os.FileMode(e.mode)) //nolint:gosec // permission bits
		f, err := w.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := f.Write(e.data); err != nil {
			return nil, err
		}
	}
	// This must precede the use of the bytes, because it writes the end.
	err := w.Close()
	return b.Bytes(), err
}
