package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// versionInfo is the result of fencectl version.
type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"` // of the source; ends in "-dirty" if it was changed
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func newVersionCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Long:    "Print the version of fencectl, the revision it was built from and the Go it was built with.",
		Example: "  fencectl version -o json",
		Args:    operands(),
	}
	out := newPrinter(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		v := thisVersion()
		return out.print(env.stdout, v, func(t *table) {
			t.row("version", v.Version)
			if v.Revision != "" {
				t.row("revision", v.Revision)
			}
			t.row("go", v.Go)
			t.row("platform", v.Platform)
		})
	}
	return cmd
}

// printVersion prints the answer to --version. Scripts expect it to be one line.
func printVersion(env *environment) error {
	return writeText(env, fmt.Appendf(nil, "%s %s\n", env.command(), thisVersion().Version))
}

func thisVersion() versionInfo {
	build, _ := debug.ReadBuildInfo() // nil without module support: only the linker's version is known
	return versionOf(version, build)
}

// versionOf prefers the version set by the linker to what Go recorded about the build.
func versionOf(linked string, build *debug.BuildInfo) versionInfo {
	v := versionInfo{Version: linked, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if build == nil {
		return v
	}
	if m := build.Main.Version; linked == "dev" && m != "" && m != "(devel)" {
		v.Version = m
	}
	dirty := false
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.modified":
			dirty = s.Value == "true"
		}
	}
	if dirty && v.Revision != "" && !strings.HasSuffix(v.Revision, "-dirty") {
		v.Revision += "-dirty"
	}
	return v
}
