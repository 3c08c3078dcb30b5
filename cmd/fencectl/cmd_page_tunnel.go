package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
)

const (
	// pageTunnel is the verb that kubectl fence ui runs in an agent's pod.
	pageTunnel = "page-tunnel"
	// pageDial is for how long the agent may take to accept a connection.
	pageDial = 5 * time.Second
	// pageEnds is for how long the agent may go on after the other side has ended.
	pageEnds = 10 * time.Second
)

func newPageTunnelCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:    pageTunnel + " FILE",
		Hidden: true,
		Short:  "Connect stdin and stdout with the agent's page",
		Long: `Connect stdin and stdout with the listener of the agent on this node, which is http.address of FILE, its configuration.
kubectl fence ui runs this in the agent's pod. It goes to an address of this node, and to no other.`,
		Example: "  fencectl " + pageTunnel + " /etc/fencing-agent/agent.yaml",
		Args:    operands("FILE"),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		page, err := pageAddress(args[0], env.getenv)
		if err != nil {
			return err
		}
		return joinPage(cmd.Context(), env, page)
	}
	return cmd
}

// pageAddress is where the agent with this configuration serves its page. Guard: it is an address of this node, and the file is not
// what somebody writes to the command, so that this is no way to other hosts.
func pageAddress(file string, getenv func(string) string) (*net.TCPAddr, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file: the agent's configuration is needed", file)
	}
	c, _, err := config.Load(file, getenv)
	switch {
	case err != nil:
		return nil, err
	case c.HTTP.Address == "":
		return nil, errors.New("http.address is empty: the agent serves no page")
	case c.HTTP.Page == config.PageNone:
		return nil, errors.New("http.page is none: the agent serves no page")
	}
	a, err := net.ResolveTCPAddr("tcp", c.HTTP.Address)
	if err != nil {
		return nil, fmt.Errorf("http.address: %w", err)
	}
	if a.IP == nil || a.IP.IsUnspecified() {
		a.IP = loopbackLike(a.IP)
	}
	if !ofThisNode(a.IP) {
		return nil, fmt.Errorf("http.address: %s is no address of this node", c.HTTP.Address)
	}
	return a, nil
}

func ofThisNode(ip net.IP) bool {
	if ip.IsLoopback() {
		return true
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, a := range all {
		if n, is := a.(*net.IPNet); is && n.IP.Equal(ip) {
			return true
		}
	}
	return false
}

// loopbackLike is the loopback of an address's family.
func loopbackLike(ip net.IP) net.IP {
	if ip != nil && ip.To4() == nil {
		return net.IPv6loopback
	}
	return net.IPv4(127, 0, 0, 1)
}

// joinPage copies until the agent ends the connection. It comes from the loopback, as a forwarded port does: that is whom
// the agent shows its page unless http.page is any.
func joinPage(ctx context.Context, env *environment, page *net.TCPAddr) error {
	dialer := net.Dialer{Timeout: pageDial, LocalAddr: &net.TCPAddr{IP: loopbackLike(page.IP)}}
	conn, err := dialer.DialContext(ctx, "tcp", page.String())
	if err != nil {
		return fmt.Errorf("the agent's page: %w", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	go func() {
		_, _ = io.Copy(conn, env.stdin)
		if half, is := conn.(*net.TCPConn); is {
			_ = half.CloseWrite() // an agent that serves ends now, too
		}
		time.AfterFunc(pageEnds, func() { _ = conn.Close() })
	}()
	_, _ = io.Copy(env.stdout, conn) // the browser sees what was broken off
	return nil
}
