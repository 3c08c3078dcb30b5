//go:build !linux

package main

import "github.com/spf13/cobra"

func newLunCommand(env *environment) *cobra.Command {
	return needsLinux(env, "lun", "Format, show, measure and mend a LUN")
}
