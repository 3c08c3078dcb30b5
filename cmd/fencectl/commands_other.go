//go:build !linux

package main

import "github.com/spf13/cobra"

func newLunCommand(env *environment) *cobra.Command {
	return needsLinux(env, "lun", "Format, show, measure and mend a LUN")
}

func newDemoCommand(env *environment) *cobra.Command {
	return needsLinux(env, "demo", "Show a whole cluster on this machine")
}

func newSimulateCommand(env *environment) *cobra.Command {
	return needsLinux(env, "simulate", "Measure the gossip of up to 1000 nodes in virtual time")
}
