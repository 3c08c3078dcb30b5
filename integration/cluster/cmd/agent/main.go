// Agent is cmd/fencing-agent with another watchdog, for a node that does not have its own kernel ([lab.ServeWatchdog]).
// Everything else is the agent as shipped.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/agent"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/integration/lab"
)

func main() {
	signal.Ignore(syscall.SIGHUP, syscall.SIGPIPE)
	path := flag.String("config", "", "")
	var level slog.Level
	flag.TextVar(&level, "log-level", slog.LevelInfo, "")
	flag.Parse()
	log := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	cfg, _, err := config.Load(*path, os.Getenv)
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
		defer stop()
		o := agent.Options{Config: cfg, ConfigPath: *path, Logger: log, Version: "cluster"}
		if cfg.Watchdog.Driver != config.DriverNone {
			o.Watchdog, err = lab.DialWatchdog(cfg.Watchdog.Device)
		}
		if err == nil {
			err = agent.Run(ctx, o)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fencing-agent:", err)
		os.Exit(1)
	}
}
