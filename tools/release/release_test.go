package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
)

const checkout = "../.."

// programDir is the folder in which built puts the programs.
var programDir string

// built returns this machine's programs, built once without the additions of a release.
var built = sync.OnceValues(func() (string, error) {
	dir := programDir
	for _, pkg := range []string{"./cmd/fencing-agent", "./cmd/fencectl", "./testdata/program"} {
		cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", dir+"/", pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
		if strings.HasPrefix(pkg, "./cmd/") {
			cmd.Dir = checkout
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			return string(out), err
		}
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "fencing-agent-release-test-")
	if err != nil {
		panic(err)
	}
	programDir = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// some is a release that many tests use.
var (
	some     *release
	someOnce sync.Once
)

func someRelease(t *testing.T) *release {
	t.Helper()
	someOnce.Do(func() {
		r := assembled(t, someVersion)
		kept := filepath.Join(programDir, "release")
		if err := os.Rename(r.out, kept); err != nil {
			t.Fatal(err)
		}
		r.out, some = kept, r
	})
	if some == nil {
		t.Fatal("there is no release")
	}
	return some
}

// assembled makes a release with the pages of the real programs, and with a small program in place of all of them.
func assembled(t *testing.T, version string) *release {
	t.Helper()
	if !slices.Contains(nodes, host()) {
		t.Skipf("releases are made on one of %v", nodes)
	}
	dir, err := built()
	if err != nil {
		t.Fatalf("%v\n%s", err, dir)
	}
	root, err := filepath.Abs(checkout)
	if err != nil {
		t.Fatal(err)
	}
	r := &release{
		source: source{version: version, commit: strings.Repeat("ab", 20), time: time.Unix(1_750_000_000, 0).UTC()},
		root:   root, out: filepath.Join(t.TempDir(), "release"), work: t.TempDir(), programs: map[string]string{},
		nodes: nodes, tools: tools,
	}
	for _, name := range []string{"fencing-agent", "fencectl"} {
		r.programs[host().String()+"/"+name] = filepath.Join(dir, name)
	}
	if err := r.document(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, p := range slices.Concat(nodes, tools) {
		for _, name := range programsOf(p) {
			r.programs[p.String()+"/"+name] = filepath.Join(dir, "program")
		}
	}
	if err := r.empty(); err != nil {
		t.Fatal(err)
	}
	if err := r.assemble(context.Background()); err != nil {
		t.Fatal(err)
	}
	return r
}

// everything returns the contents of a folder.
func everything(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, e := range entries {
		if files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

func sameBytes(t *testing.T, a, b map[string][]byte) {
	t.Helper()
	if names := slices.Sorted(maps.Keys(a)); !slices.Equal(names, slices.Sorted(maps.Keys(b))) {
		t.Fatalf("%q\n%q", names, slices.Sorted(maps.Keys(b)))
	}
	for name := range a {
		if !bytes.Equal(a[name], b[name]) {
			t.Errorf("%s differs", name)
		}
	}
}

const someVersion = "v1.2.4-dev.20250615150640+gabababababab"

func TestTwiceTheSameBytes(t *testing.T) {
	first := assembled(t, someVersion)
	files := everything(t, first.out)
	if len(files) < 25 {
		t.Errorf("only %d files: %q", len(files), slices.Sorted(maps.Keys(files)))
	}
	sameBytes(t, files, everything(t, assembled(t, someVersion).out))
	// A release may replace an earlier one, and nothing else.
	if err := first.empty(); err != nil {
		t.Error(err)
	}
	first.out = t.TempDir()
	if err := os.WriteFile(filepath.Join(first.out, "letters.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := first.empty(); err == nil || !strings.Contains(err.Error(), "something other than a release") {
		t.Errorf("a folder with other files: %v", err)
	}
}

func TestVersions(t *testing.T) {
	clean := source{commit: strings.Repeat("ab", 20), time: time.Date(2026, 11, 25, 20, 2, 1, 0, time.UTC)}
	dirty := clean
	dirty.dirty = true
	for _, c := range []struct {
		tag  string
		s    source
		want string
	}{
		{"v1.2.3-0-gabab", clean, "v1.2.3"},
		{"v1.2.3-rc.1-0-gabab", clean, "v1.2.3-rc.1"},
		{"v1.2.3-0-gabab", dirty, "v1.2.4-dev.20261125200201+gabababababab.dirty"},
		{"v1.2.3-7-gabab", clean, "v1.2.4-dev.20261125200201+gabababababab"},
		{"v1.2.3-rc.1-7-gabab", clean, "v1.2.3-rc.1.dev.20261125200201+gabababababab"},
		{"", clean, "v0.0.0-dev.20261125200201+gabababababab"},
	} {
		if got := version(c.tag, c.s); got != c.want {
			t.Errorf("%q: %s, want %s", c.tag, got, c.want)
		}
	}
}

// The statements of a release about its files are true.
func TestChecksumsProvenanceAndManifest(t *testing.T) {
	r := someRelease(t)
	files := everything(t, r.out)
	listed := map[string]string{}
	for line := range strings.Lines(string(files[sums])) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		listed[name] = sum
	}
	var statement struct {
		Type    string `json:"_type"`
		Subject []struct {
			Name   string
			Digest map[string]string
		}
		Predicate struct {
			BuildDefinition struct {
				InternalParameters   map[string]any
				ResolvedDependencies []struct{ Digest map[string]string }
			}
		}
	}
	if err := json.Unmarshal(files[provenance], &statement); err != nil {
		t.Fatal(err)
	}
	if statement.Type != "https://in-toto.io/Statement/v1" || statement.Predicate.BuildDefinition.InternalParameters["signed"] != false ||
		statement.Predicate.BuildDefinition.ResolvedDependencies[0].Digest["gitCommit"] != r.commit {
		t.Errorf("provenance %+v", statement)
	}
	subjects := map[string]string{}
	for _, s := range statement.Subject {
		subjects[s.Name] = s.Digest["sha256"]
	}
	for name, data := range files {
		if name != sums && listed[name] != digest(data) {
			t.Errorf("%s: %s lists %q", name, sums, listed[name])
		}
		if name != sums && name != provenance && subjects[name] != digest(data) {
			t.Errorf("%s: the provenance has %q", name, subjects[name])
		}
	}
	manifest := string(files["fence.yaml"])
	for _, p := range slices.Concat(nodes, tools) {
		archive := r.archiveName("kubectl-fence", p)
		at := strings.Index(manifest, archive+"\n")
		if at < 0 || !strings.Contains(manifest[at:min(at+200, len(manifest))], digest(files[archive])) {
			t.Errorf("the krew manifest has no %s with its sum", archive)
		}
	}
}

func TestChartsHaveTheVersion(t *testing.T) {
	r := someRelease(t)
	files := everything(t, r.out)
	for name := range charts {
		archive := name + "-" + r.plain() + ".tgz"
		c, err := loader.Load(filepath.Join(r.out, archive))
		if err != nil {
			t.Fatal(err)
		}
		if c.Metadata.Name != name || c.Metadata.Version != r.plain() || c.Metadata.AppVersion != someVersion || c.Schema == nil || len(c.Templates) < 5 {
			t.Errorf("%+v, %d templates", c.Metadata, len(c.Templates))
		}
		if !slices.ContainsFunc(c.Files, func(f *common.File) bool { return f.Name == "README.md" }) {
			t.Errorf("%s: no README.md", name)
		}
		layout := unpack(t, files[name+"-chart_"+r.plain()+".oci.tar"])
		if layout["blobs/sha256/"+digest(files[archive])] == nil || layout["index.json"] == nil {
			t.Errorf("%s: the layout lacks the chart: %q", name, slices.Sorted(maps.Keys(layout)))
		}
	}
}

// unpack reads a tar archive, compressed or not, by name; modes, owners and times must be those of a release.
func unpack(t *testing.T, data []byte) map[string][]byte {
	t.Helper()
	var in io.Reader = bytes.NewReader(data)
	if z, err := gzip.NewReader(bytes.NewReader(data)); err == nil {
		in = z
	}
	files := map[string][]byte{}
	for r := tar.NewReader(in); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.Mode&0o022 != 0 && h.Typeflag != tar.TypeSymlink || h.ModTime.Unix() != 1_750_000_000 {
			t.Errorf("%s: owner %d:%d, mode %o, %v", h.Name, h.Uid, h.Gid, h.Mode, h.ModTime)
		}
		name := strings.TrimPrefix(h.Name, ".")
		if h.Typeflag == tar.TypeSymlink {
			files[name] = []byte("-> " + h.Linkname)
			continue
		}
		if files[name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

// Every command in a help text has a page, and roff finds no error in any page.
func TestManualPages(t *testing.T) {
	r := someRelease(t)
	if len(r.pages) < 15 {
		t.Errorf("only %d pages: %q", len(r.pages), slices.Sorted(maps.Keys(r.pages)))
	}
	reference := regexp.MustCompile(`([a-z\\-]+)\(([18])\)`)
	lint, _ := exec.LookPath("mandoc")
	for name, text := range r.pages {
		for _, m := range reference.FindAllStringSubmatch(string(text), -1) {
			if page := strings.ReplaceAll(m[1], `\`, "") + "." + m[2]; r.pages[page] == nil {
				t.Errorf("%s refers to %s, which is not there", name, page)
			}
		}
		for _, want := range []string{".TH ", ".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION", ".SH OPTIONS"} {
			if !strings.Contains(string(text), want) && !(want == ".SH OPTIONS" && !strings.Contains(string(text), `\-h`)) {
				t.Errorf("%s lacks %s", name, want)
			}
		}
		if lint == "" {
			continue
		}
		cmd := exec.Command(lint, "-Tlint", "-Werror")
		cmd.Stdin = bytes.NewReader(text)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %s", name, out)
		}
	}
}
