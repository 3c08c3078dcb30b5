package main

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/agent"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/integration/lab"
)

// These hidden commands let the program start itself.
const (
	roleBoot  = "boot"  // executes an agent in a separate boot
	roleArmed = "agent" // is an agent with a simulated watchdog
)

func newBootCommand() *cobra.Command {
	return &cobra.Command{
		Use: roleBoot, Hidden: true,
		DisableFlagParsing: true, // the flags belong to the program that it executes
		RunE:               func(_ *cobra.Command, args []string) error { return lab.ExecInBoot(args) },
	}
}

// newArmedCommand returns the command that is an agent whose watchdog is behind a socket of the lab.
func newArmedCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{Use: roleArmed + " SOCKET", Hidden: true, Args: cobra.ExactArgs(1)}
	file := cmd.Flags().String("config", "", "the agent's configuration")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cfg, _, err := config.Load(*file, os.Getenv)
		if err != nil {
			return fmt.Errorf("agent with a simulated watchdog: %w", err)
		}
		dog, err := lab.DialWatchdog(args[0])
		if err != nil {
			return err
		}
		log := slog.New(slog.NewJSONHandler(env.stderr, nil))
		return agent.Run(cmd.Context(), agent.Options{Config: cfg, ConfigPath: *file, Logger: log, Version: version, Watchdog: dog})
	}
	return cmd
}
