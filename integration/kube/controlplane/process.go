package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const (
	// stopLimit is the time that a program may take to end after SIGTERM.
	stopLimit = 80 * time.Second
	// quoted is the number of bytes of the end of a log that an error quotes.
	quoted = 2048
)

// process is one run of a program.
type process struct {
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	err  error         // how it ended; valid after done
}

// StartChild starts a program with the parent-death signal that its SysProcAttr names. When the program has ended, it
// calls ended with the result.
//
// The signal is sent when the forking thread ends, not when the process does. The goroutine that starts the program
// therefore keeps its thread until the program ends.
func StartChild(cmd *exec.Cmd, ended func(error)) error {
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			ended(cmd.Wait())
		}
	}()
	return <-started
}

// start runs kubetest as the named program, its output appended to DIR/NAME.log.
func start(binary, dir, name string, args ...string) (*process, error) {
	p := &process{name: name, log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p.cmd = exec.Command(binary, append([]string{name}, args...)...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	err = StartChild(p.cmd, func(err error) {
		p.err = err
		close(p.done)
	})
	_ = log.Close() // the program has its own descriptor
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// ended returns nil while the program runs. Otherwise its error says how the program ended, with the end of its log.
func (p *process) ended() error {
	select {
	case <-p.done:
	default:
		return nil
	}
	if p.err == nil {
		return fmt.Errorf("%s ended: exit status 0%s", p.name, p.lastLines())
	}
	return fmt.Errorf("%s ended: %w%s", p.name, p.err, p.lastLines())
}

func (p *process) lastLines() string {
	f, err := os.Open(p.log)
	if err != nil {
		return ""
	}
	defer f.Close()
	if end, err := f.Seek(0, io.SeekEnd); err == nil {
		_, _ = f.Seek(max(0, end-quoted), io.SeekStart) // if this fails, the error quotes more
	}
	// If this fails, the error quotes what was read.
	text, _ := io.ReadAll(f)
	return fmt.Sprintf("\nthe end of %s:\n%s", p.log, strings.TrimRight(string(text), "\n"))
}

func (p *process) signal(sig os.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s: %w", p.name, err)
	}
	return nil
}

// kill ends the program like a crash.
func (p *process) kill() error {
	err := p.signal(os.Kill)
	<-p.done
	return err
}

// stop asks the program to end, and kills it if that takes too long.
func (p *process) stop(ctx context.Context) error {
	// A frozen program would not receive the other signal.
	if err := p.signal(syscall.SIGCONT); err != nil {
		return err
	}
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("stop %s: %w%s", p.name, ctx.Err(), p.lastLines()), p.kill())
	}
}
