package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fencing-agent/fencing-agent/api/view"
)

// mostTunnels is how many connections of browsers are carried at once, a kubectl for each.
const mostTunnels = 16

// tunnel serves a port here and carries each connection through kubectl exec to the agent's listener, until it is interrupted or
// kubectl fails. A forwarded port ends on the pod's loopback, where an agent that listens on its node's address is not.
func (u *viewer) tunnel(ctx context.Context, pod *agentPod) error {
	args := slices.Insert(pod.inPod(pageTunnel, pod.config), 1, "-i")
	_, err := u.kube.run(ctx, args...) // there and back without a word
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil && strings.Contains(err.Error(), fmt.Sprintf("unknown command %q", pageTunnel)):
		return fmt.Errorf("the agent's pod %s is older than this command, and listens on its node's address, which a forwarded port does not reach: upgrade it, or set http.page: any there and open http://%s/",
			view.Clean(pod.name), net.JoinHostPort(view.Clean(pod.address), strconv.Itoa(pod.port)))
	case err != nil:
		return err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(u.localPort)))
	if err != nil {
		return err
	}
	own, end := context.WithCancelCause(ctx)
	defer context.AfterFunc(own, func() { _ = l.Close() })()
	var conns sync.WaitGroup
	conns.Go(func() {
		room := make(chan struct{}, mostTunnels)
		for {
			conn, err := l.Accept()
			if err != nil {
				end(err) // without effect if that is why
				return
			}
			room <- struct{}{}
			conns.Go(func() {
				defer func() { <-room }()
				if err := u.carry(own, conn, u.kube.args(args...)); err != nil {
					end(err)
				}
			})
		}
	})
	if err := u.tell(own, "http://"+l.Addr().String()+"/"); err != nil {
		end(err)
	}
	<-own.Done()
	conns.Wait() // no kubectl is left behind
	if ctx.Err() != nil {
		return nil
	}
	return context.Cause(own)
}

// carry runs kubectl for one connection. That the browser went away is no error.
func (u *viewer) carry(ctx context.Context, conn net.Conn, args []string) error {
	own, leave := context.WithCancel(ctx)
	defer leave()
	defer conn.Close()
	defer context.AfterFunc(own, func() { _ = conn.Close() })()
	in := bufio.NewReader(conn)
	if _, err := in.Peek(1); err != nil { // browsers open more than they use
		return nil
	}
	c := exec.CommandContext(own, u.kube.program, args...)
	var complaint bytes.Buffer
	c.Stderr, c.WaitDelay = &complaint, time.Second
	stdin, err := c.StdinPipe()
	if err != nil {
		return err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return explainKubectl(err, args[0], "")
	}
	defer context.AfterFunc(own, func() { _ = out.Close() })() // what kubectl has started may keep it open
	var sent sync.WaitGroup
	sent.Go(func() {
		_, _ = in.WriteTo(stdin)
		_ = stdin.Close() // the agent ends, and with it kubectl
	})
	_, gone := io.Copy(conn, out)
	_ = conn.Close()
	if gone != nil {
		leave()
	}
	err = c.Wait()
	sent.Wait()
	exit := new(exec.ExitError)
	if gone != nil || !errors.As(err, &exit) || exit.ExitCode() < 0 { // a signal, such as an interrupt of the whole group
		return nil
	}
	return fmt.Errorf("the way to the agent has ended: %w", explainKubectl(err, args[0], complaint.String()))
}
