package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-controller/clusterpage"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-controller/config"
	"github.com/fencing-agent/fencing-agent/k8s/reconcile"
)

// pageServer serves the status page.
type pageServer struct {
	c       *config.Config
	picture func() *reconcile.Picture
	log     *slog.Logger
	version string
}

func (*pageServer) NeedLeaderElection() bool { return false }

// Start serves until the context ends. A page that cannot be served does not stop the recovery of nodes.
func (s *pageServer) Start(ctx context.Context) error {
	l, err := net.Listen("tcp", s.c.PageAddress)
	if err != nil {
		s.log.Warn("cannot serve the status page on page.address", "err", err)
		return nil
	}
	mux := http.NewServeMux()
	clusterpage.Register(mux, clusterpage.Config{Picture: s.picture, Version: s.version, Anybody: s.c.PageForAnybody})
	srv := &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }, // ends open pages
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	defer context.AfterFunc(ctx, func() { _ = srv.Close() })()
	s.log.Info("serving the status page", "address", l.Addr().String())
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		s.log.Warn("the status page is not served any more", "err", err)
	}
	return nil
}
