package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Process is a program that runs inside a node. It dies with the lab.
type Process struct {
	lab  *Lab
	node string
	spec exec.Cmd // the command, used for each start

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when cmd has ended
	err  error         // of the end of cmd; valid after done
}

// LogPath returns the file for the output of the node's processes.
func (l *Lab) LogPath(node string) string { return filepath.Join(l.cfg.Dir, node+".log") }

// StartProcess starts the command inside the node. The command is only a description: do not start it elsewhere; it is
// not changed. Output that the command does not redirect is appended to LogPath. The process gets a separate process
// group, so that only the lab's owner receives Ctrl-C and can decide the order in which processes stop.
func (l *Lab) StartProcess(node string, cmd *exec.Cmd) (*Process, error) {
	if _, err := l.namespace(node); err != nil {
		return nil, err
	}
	p := &Process{lab: l, node: node, spec: exec.Cmd{
		Path: cmd.Path, Args: slices.Clone(cmd.Args), Env: slices.Clone(cmd.Env), Dir: cmd.Dir,
		Stdin: cmd.Stdin, Stdout: cmd.Stdout, Stderr: cmd.Stderr, Err: cmd.Err,
	}}
	if err := p.start(); err != nil {
		return nil, err
	}
	return p, nil
}

// start runs under the lab's lock, too. Close then either sees the process in the list or has made the start
// impossible.
func (p *Process) start() error {
	l := p.lab
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errClosed
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	cmd := &exec.Cmd{
		Path: p.spec.Path, Args: p.spec.Args, Env: p.spec.Env, Dir: p.spec.Dir, Err: p.spec.Err,
		Stdin: p.spec.Stdin, Stdout: p.spec.Stdout, Stderr: p.spec.Stderr,
		SysProcAttr: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true},
	}
	log, err := os.OpenFile(l.LogPath(p.node), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("lab: log of node %s: %w", p.node, err)
	}
	defer log.Close() // the process has its own descriptor
	if cmd.Stdout == nil {
		cmd.Stdout = log
	}
	if cmd.Stderr == nil {
		cmd.Stderr = log
	}
	l.nodes[p.node].resident(func() { err = cmd.Start() })
	if err != nil {
		return fmt.Errorf("lab: start process on node %s: %w", p.node, err)
	}
	done := make(chan struct{})
	p.cmd, p.done = cmd, done
	if !slices.Contains(l.processes, p) {
		l.processes = append(l.processes, p)
	}
	go func() {
		err := cmd.Wait()
		p.mu.Lock()
		p.err = err
		p.mu.Unlock()
		close(done)
	}()
	return nil
}

// Node returns the node in which the process runs.
func (p *Process) Node() string { return p.node }

// PID returns the process id of the present run.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd.Process.Pid
}

// Done returns a channel that is closed when the present run has ended.
func (p *Process) Done() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done
}

// Wait waits until the present run ends. It returns nil for exit status 0, and an *exec.ExitError otherwise. It returns
// earlier when ctx ends.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.Done():
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.err
	case <-ctx.Done():
		return fmt.Errorf("lab: wait for process on node %s: %w", p.node, context.Cause(ctx))
	}
}

// Signal sends a signal. If the process has ended, it does nothing.
func (p *Process) Signal(sig os.Signal) error {
	p.mu.Lock()
	process := p.cmd.Process
	p.mu.Unlock()
	if err := process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("lab: signal process on node %s: %w", p.node, err)
	}
	return nil
}

// Kill ends the process at once, as a crash would, and waits until it is gone.
func (p *Process) Kill() error {
	if err := p.Signal(os.Kill); err != nil {
		return err
	}
	<-p.Done()
	return nil
}

// Restart starts the command again, killing the present run first if there is one.
func (p *Process) Restart() error {
	if err := p.Kill(); err != nil {
		return err
	}
	return p.start()
}

// stopAll asks all processes to end, and kills those that are still running after the StopGrace.
func stopAll(processes []*Process, grace time.Duration) {
	for _, p := range processes {
		_ = p.Signal(syscall.SIGTERM)
	}
	deadline := time.NewTimer(grace)
	defer deadline.Stop()
	for i, p := range processes {
		select {
		case <-p.Done():
		case <-deadline.C:
			for _, late := range processes[i:] {
				_ = late.Kill()
			}
			return
		}
	}
}
