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

// builder makes bin/kubetest of one repository.
type builder struct {
	source  string // folder of the module
	program string // what is built
	key     string // file: of what it was built
	out     io.Writer
	every   time.Duration // between two lines of progress
}

func newBuilder(root string, out io.Writer) *builder {
	program := filepath.Join(root, "bin", "kubetest")
	return &builder{
		source: filepath.Join(root, "integration", "kube", "cmd", "kubetest"), program: program, key: program + ".key",
		out: out, every: 15 * time.Second,
	}
}

func (b *builder) run(ctx context.Context) error {
	release, err := b.release()
	if err != nil {
		return err
	}
	key, err := b.wanted(ctx)
	if err != nil {
		return err
	}
	if b.current(key) {
		fmt.Fprintf(b.out, "kubetest: %s is built, with Kubernetes %s\n", b.program, release)
		return nil
	}
	fmt.Fprintf(b.out, "kubetest: builds etcd, kube-apiserver and kubectl %s: about 6 minutes on two cores, 600 MB to download, 3 GB of build cache; once\n", release)
	began := time.Now()
	if err := os.MkdirAll(filepath.Dir(b.program), 0o755); err != nil {
		return err
	}
	if _, err := b.goTool(ctx, "mod", "download"); err != nil {
		return fmt.Errorf("download modules: %w", err)
	}
	fmt.Fprintf(b.out, "kubetest: modules are there after %v\n", time.Since(began).Round(time.Second))
	if err := b.compile(ctx, release); err != nil {
		return err
	}
	if err := os.WriteFile(b.key, []byte(key), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(b.out, "kubetest: %s is built after %v\n", b.program, time.Since(began).Round(time.Second))
	return nil
}

var releasePattern = regexp.MustCompile(`(?m)^\s*(?:require )?k8s\.io/kubernetes (v(\d+)\.(\d+)\.\d+)$`)

// release is the version of Kubernetes, of which the programs do not know by themselves.
func (b *builder) release() (string, error) {
	path := filepath.Join(b.source, "go.mod")
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	m := releasePattern.FindSubmatch(text)
	if m == nil {
		return "", fmt.Errorf("%s requires no release of k8s.io/kubernetes", path)
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
	packages, err := b.goTool(ctx, "list", "-deps", ".")
	if err != nil {
		return err
	}
	fresh, err := filepath.Abs(b.program + ".new")
	if err != nil {
		return err
	}
	defer os.Remove(fresh)
	cmd := b.command(ctx, "build", "-v", "-buildvcs=false", "-ldflags", ldflags(release), "-o", fresh, ".")
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
	return os.Rename(fresh, b.program)
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
			fmt.Fprintf(b.out, "kubetest: %v: %d of at most %d packages compiled\n", now.Sub(began).Round(time.Second), done, total)
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
	// A workspace would bring in other versions; cgo needs a compiler, and does nothing here.
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
