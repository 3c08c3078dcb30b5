package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

// needsLinux replaces a verb that works only on Linux, whatever its arguments are.
func needsLinux(env *environment, name, short string) *cobra.Command {
	return &cobra.Command{
		Use:                name,
		Short:              short + " (on Linux)",
		Long:               short + ". It needs Linux: run it on a node, or on another Linux machine.",
		Example:            "  fencectl " + name + " --help",
		Args:               cobra.ArbitraryArgs,
		FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true},
		RunE: func(*cobra.Command, []string) error {
			return fmt.Errorf("%s %s needs Linux, and this is %s: run it on a node, or on another Linux machine", env.command(), name, runtime.GOOS)
		},
	}
}
