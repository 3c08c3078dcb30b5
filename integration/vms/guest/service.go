package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/vms/control"
)

// These values are those of the systemd unit in deploy/systemd.
const (
	restartPause = time.Second
	badUsage     = 2 // RestartPreventExitStatus
)

// service runs the agent. Its methods may be called from any goroutine.
type service struct {
	boot *control.Boot
	link *link

	mu        sync.Mutex
	cmd       *exec.Cmd // guarded by mu; nil: not running
	wanted    bool      // guarded by mu
	norestart bool      // guarded by mu
}

func newService(boot *control.Boot, l *link) *service { return &service{boot: boot, link: l} }

func (s *service) control(verb string) error {
	switch verb {
	case "start":
		s.start()
	case "stop":
		return s.stop()
	case "restart":
		return s.restart()
	case "norestart":
		s.mu.Lock()
		defer s.mu.Unlock()
		s.norestart = true
	default:
		return fmt.Errorf("unknown verb %q", verb)
	}
	return nil
}

func (s *service) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted, s.norestart = true, false
	if s.cmd == nil {
		s.run()
	}
}

// stop asks the agent to end, as "systemctl stop" does, and does not wait for its end.
func (s *service) stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = false
	if s.cmd == nil {
		return errors.New("the agent is not running")
	}
	return s.cmd.Process.Signal(syscall.SIGTERM)
}

func (s *service) restart() error {
	if err := s.stop(); err != nil {
		return err
	}
	for {
		s.mu.Lock()
		gone := s.cmd == nil
		s.mu.Unlock()
		if gone {
			break
		}
		time.Sleep(poll)
	}
	s.start()
	return nil
}

// run starts the agent; the caller holds s.mu.
func (s *service) run() {
	cmd := exec.Command(s.boot.Service[0], s.boot.Service[1:]...)
	cmd.Env = append(os.Environ(), s.boot.Env...)
	out, err := cmd.StdoutPipe()
	if err == nil {
		cmd.Stderr = cmd.Stdout
		err = cmd.Start()
	}
	if err != nil {
		s.link.log("agent: %v", err)
		return
	}
	s.cmd = cmd
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", cmd.Process.Pid), []byte("-1000"), 0); err != nil {
		s.link.log("agent: %v", err)
	}
	go func() {
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			s.link.send(control.Message{Kind: control.Log, Source: control.SourceAgent, Text: lines.Text()})
		}
		s.ended(cmd.Wait())
	}()
}

func (s *service) ended(err error) {
	s.link.log("agent ended: %v", err)
	s.mu.Lock()
	s.cmd = nil
	again := s.again(err)
	s.mu.Unlock()
	if !again {
		return
	}
	time.Sleep(restartPause)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil && s.again(err) {
		s.run()
	}
}

// again reports whether an agent that ended with err must be restarted; the caller holds s.mu.
func (s *service) again(err error) bool {
	var exit *exec.ExitError
	if !s.wanted || s.norestart || err == nil {
		return false
	}
	return !errors.As(err, &exit) || exit.ExitCode() != badUsage
}
