package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// builder makes the programs of one module of the repository.
type builder struct {
	name    string
	source  string // folder of the module
	release *regexp.Regexp
	costs   string // of the first time, for people
	builds  func(release string) []build
	program string // what is built: a program, or a folder of programs
	key     string // file: of what it was built
	out     io.Writer
	every   time.Duration // between two lines of progress
}

// build is one call of go build.
type build struct {
	cgo      bool
	flags    []string
	packages []string
}

// newBuilder is that of bin/kubetest.
func newBuilder(root string, out io.Writer) *builder {
	program := filepath.Join(root, "bin", "kubetest")
	return &builder{
		name: "kubetest", source: filepath.Join(root, "integration", "kube", "cmd", "kubetest"), program: program, key: program + ".key",
		release: releasePattern, costs: "all of Kubernetes, about 9 minutes on two cores, 600 MB to download, 4 GB of build cache",
		// cgo needs a compiler, and does nothing here.
		builds: func(release string) []build {
			return []build{{flags: []string{"-ldflags", ldflags(release)}, packages: []string{"."}}}
		},
		out: out, every: 15 * time.Second,
	}
}

func (b *builder) run(ctx context.Context) error {
	release, err := b.version()
	if err != nil {
		return err
	}
	key, err := b.wanted(ctx)
	if err != nil {
		return err
	}
	if b.current(key) {
		fmt.Fprintf(b.out, "%s: %s is built, of %s\n", b.name, b.program, release)
		return nil
	}
	fmt.Fprintf(b.out, "%s: builds %s: %s; once\n", b.name, release, b.costs)
	began := time.Now()
	if err := os.MkdirAll(filepath.Dir(b.program), 0o755); err != nil {
		return err
	}
	if _, err := b.goTool(ctx, "mod", "download"); err != nil {
		return fmt.Errorf("download modules: %w", err)
	}
	fmt.Fprintf(b.out, "%s: modules are there after %v\n", b.name, time.Since(began).Round(time.Second))
	if err := b.compile(ctx, release); err != nil {
		return err
	}
	if err := os.WriteFile(b.key, []byte(key), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(b.out, "%s: %s is built after %v\n", b.name, b.program, time.Since(began).Round(time.Second))
	return nil
}

var releasePattern = regexp.MustCompile(`(?m)^\s*(?:require )?k8s\.io/kubernetes (v(\d+)\.(\d+)\.\d+)$`)

// version is the version of Kubernetes, of which the programs do not know by themselves, or of
// what else the module is about.
func (b *builder) version() (string, error) {
	path := filepath.Join(b.source, "go.mod")
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	m := b.release.FindSubmatch(text)
	if m == nil {
		return "", fmt.Errorf("%s requires no release that %s is of", path, b.name)
	}
	return string(m[1]), nil
}

// wanted is the key of the present source, with the present Go.
func (b *builder) wanted(ctx context.Context) (string, error) {
	files, err := filepath.Glob(filepath.Join(b.source, "*.go"))
	if err != nil {
		return "", err
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		files = append(files, filepath.Join(b.source, name))
	}
	slices.Sort(files)
	sum := sha256.New()
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		fmt.Fprintf(sum, "%s %d\n%s", filepath.Base(path), len(text), text)
	}
	platform, err := b.goTool(ctx, "env", "GOVERSION", "GOOS", "GOARCH")
	if err != nil {
		return "", err
	}
	sum.Write(platform)
	return fmt.Sprintf("%x\n", sum.Sum(nil)), nil
}

func (b *builder) current(key string) bool {
	have, err := os.ReadFile(b.key)
	if err != nil || string(have) != key {
		return false
	}
	_, err = os.Stat(b.program)
	return err == nil
}

// compile builds beside the program and moves it there at the end: a build that was
// interrupted leaves no half program.
func (b *builder) compile(ctx context.Context, release string) error {
	fresh, err := filepath.Abs(b.program + ".new")
	if err != nil {
		return err
	}
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	defer os.RemoveAll(fresh)
	for _, build := range b.builds(release) {
		if err := b.compileOne(ctx, build, fresh); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(b.program); err != nil {
		return err
	}
	return os.Rename(fresh, b.program)
}

func (b *builder) compileOne(ctx context.Context, c build, fresh string) error {
	packages, err := b.goTool(ctx, append([]string{"list", "-deps"}, c.packages...)...)
	if err != nil {
		return err
	}
	if c.packages[0] != "." { // several programs
		fresh += string(filepath.Separator)
	}
	args := append([]string{"build", "-v", "-buildvcs=false", "-o", fresh}, c.flags...)
	cmd := b.command(ctx, append(args, c.packages...)...)
	if c.cgo {
		cmd.Env = append(cmd.Env, "CGO_ENABLED=1")
	}
	output, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	said := b.follow(output, bytes.Count(packages, []byte("\n")))
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, said)
	}
	return nil
}

// ldflags make the programs say what they are: kubectl, Helm and clients look at it.
func ldflags(release string) string {
	m := releasePattern.FindStringSubmatch("k8s.io/kubernetes " + release)
	const version = " -X k8s.io/component-base/version."
	return "-s -w" + version + "gitVersion=" + m[1] + version + "gitMajor=" + m[2] + version + "gitMinor=" + m[3]
}

// follow counts the packages that go build -v names, one a line, prints the count from time
// to time, and returns what else was said.
func (b *builder) follow(output io.Reader, total int) (said string) {
	began := time.Now()
	last, done := began, 0
	var other strings.Builder
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if strings.ContainsAny(line, " #\t") || line == "" {
			other.WriteString(line + "\n")
			continue
		}
		done++
		if now := time.Now(); now.Sub(last) >= b.every {
			fmt.Fprintf(b.out, "%s: %v: %d of at most %d packages compiled\n", b.name, now.Sub(began).Round(time.Second), done, total)
			last = now
		}
	}
	_, _ = io.Copy(io.Discard, output) // let go build end by itself, whatever it printed
	return other.String()
}

func (b *builder) command(ctx context.Context, args ...string) *exec.Cmd {
	name := "go"
	if nice, err := exec.LookPath("nice"); err == nil {
		name, args = nice, append([]string{"go"}, args...)
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = b.source
	// A workspace would bring in other versions.
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	return cmd
}

func (b *builder) goTool(ctx context.Context, args ...string) ([]byte, error) {
	cmd := b.command(ctx, args...)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, complaints.Bytes())
	}
	return out, nil
}
