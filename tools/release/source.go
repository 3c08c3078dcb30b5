package main

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	homepage = "https://github.com/fencing-agent/fencing-agent"
	vendor   = "The fencing-agent authors"
	license  = "Apache-2.0"
	summary  = "Feeds this node's watchdog while its group has quorum"
)

// source is what a release is made from. All times in the release are that of the commit.
type source struct {
	// It is v1.2.3, or a version between two releases; always a semantic version with a v.
	version string
	commit  string
	time    time.Time
	dirty   bool
}

// describe asks git. Without a clone there is no commit to name, and hence no release.
func describe(ctx context.Context, root string) (source, error) {
	ask := func(args ...string) (string, error) {
		out, err := exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...).Output()
		return strings.TrimSpace(string(out)), err
	}
	commit, err := ask("rev-parse", "HEAD")
	if err != nil {
		return source{}, fmt.Errorf("a release is made from a clone that belongs to this user: git rev-parse: %w", err)
	}
	seconds, err := ask("log", "-1", "--format=%ct")
	if err != nil {
		return source{}, err
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return source{}, err
	}
	changes, err := ask("status", "--porcelain", "--untracked-files=no")
	if err != nil {
		return source{}, err
	}
	// This fails if there is no tag.
	tag, _ := ask("describe", "--tags", "--long", "--match", "v[0-9]*")
	s := source{commit: commit, time: time.Unix(unix, 0).UTC(), dirty: changes != ""}
	s.version = version(tag, s)
	return s, nil
}

var described = regexp.MustCompile(`^v([0-9]+)\.([0-9]+)\.([0-9]+)((?:-[0-9A-Za-z.]+)?)-([0-9]+)-g[0-9a-f]+$`)

// version returns the version of the tag on the commit, or one between those of the last tag and the next one. The
// latter grows with the time of the commit, as packages and charts need it.
func version(tag string, s source) string {
	major, minor, patch, pre, ahead := 0, 0, 0, "", "1"
	if m := described.FindStringSubmatch(tag); m != nil {
		major, minor, patch = number(m[1]), number(m[2]), number(m[3])
		pre, ahead = m[4], m[5]
		if ahead == "0" && !s.dirty {
			return fmt.Sprintf("v%d.%d.%d%s", major, minor, patch, pre)
		}
		if pre == "" {
			patch++
		}
	}
	if pre != "" {
		pre = strings.TrimPrefix(pre, "-") + "."
	}
	v := fmt.Sprintf("v%d.%d.%d-%sdev.%s+g%.12s", major, minor, patch, pre, s.time.Format("20060102150405"), s.commit)
	if s.dirty {
		v += ".dirty"
	}
	return v
}

func number(digits string) int {
	// The pattern allows only digits.
	n, _ := strconv.Atoi(digits)
	return n
}

// plain returns the version without the v, for packages and charts.
func (s source) plain() string { return strings.TrimPrefix(s.version, "v") }

// tag returns the version in the spelling of an image's tag.
func (s source) tag() string { return strings.ReplaceAll(s.version, "+", "_") }
