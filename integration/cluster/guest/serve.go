package guest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/cluster/machine"
	"github.com/fencing-agent/fencing-agent/integration/lab"
)

const (
	socket    = "/run/containerd/containerd.sock"
	pace      = 20 * time.Millisecond
	restarted = time.Second // pause before a program that ended is started again
	patience  = 2 * time.Minute
)

// serve starts the programs, reports when they run, and then answers requests.
func serve(s *machine.Spec) error {
	if err := os.Setenv("PATH", s.Runtime+":"+os.Getenv("PATH")+":"+s.Tools); err != nil {
		return err
	}
	if err := configure(s); err != nil {
		return err
	}
	programs := map[string]*program{
		"containerd": newProgram(s, "containerd", filepath.Join(s.Runtime, "containerd"), "--config="+config(s, "containerd.toml")),
		"kubelet": newProgram(s, "kubelet", s.Kubelet, "--config="+config(s, "kubelet.yaml"), "--kubeconfig="+config(s, "kubelet.kubeconfig"),
			"--hostname-override="+s.Name, "--node-ip="+address(s)),
	}
	if err := watchdog(s); err != nil {
		return err
	}
	lun, err := attachLUN(s)
	if err != nil {
		return err
	}
	go programs["containerd"].supervise()
	if err := ready(s); err != nil {
		return err
	}
	if s.CSI != "" {
		// Because of a socket of the last boot, the kubelet would not try the new one for up to half a minute.
		if err := os.RemoveAll("/var/lib/kubelet/plugins_registry"); err != nil {
			return err
		}
		programs["csi"] = newProgram(s, "csi", s.CSI, s.Name, s.Volumes)
		go programs["csi"].supervise()
	}
	go programs["kubelet"].supervise()
	return answer(os.NewFile(control, "control"), programs, lun)
}

// watchdog gives the node a watchdog that resets it: it ends this process, then the node's process 1 ends, and with it
// everything that runs in the node.
func watchdog(s *machine.Spec) error {
	if s.Watchdog == "" {
		return nil
	}
	l, err := net.Listen("unix", s.Watchdog)
	if err != nil {
		return fmt.Errorf("guest: watchdog: %w", err)
	}
	go lab.ServeWatchdog(l, func() {
		fmt.Fprintln(os.Stderr, "guest: reset by the watchdog")
		os.Exit(1)
	})
	return nil
}

// ready waits for containerd and imports the images, once for all boots.
func ready(s *machine.Spec) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		c, err := net.Dial("unix", socket)
		if err == nil {
			_ = c.Close() // it is listening
			break
		}
		if ctx.Err() != nil {
			return fmt.Errorf("guest: containerd does not answer: %w; see %s", err, filepath.Join(s.Dir, "containerd.log"))
		}
		time.Sleep(pace)
	}
	for _, image := range s.Images {
		marker := filepath.Join("/var/lib/containerd", "imported-"+filepath.Base(image))
		if _, err := os.Stat(marker); err == nil {
			continue
		}
		out, err := exec.CommandContext(ctx, filepath.Join(s.Runtime, "ctr"), "--address="+socket, "--namespace=k8s.io", "images", "import", image).CombinedOutput()
		if err != nil {
			return fmt.Errorf("guest: import %s: %w\n%s", image, err, out)
		}
		if err := os.WriteFile(marker, nil, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// answer answers requests one after the other, except for those that run a command, which run in parallel.
func answer(harness io.ReadWriter, programs map[string]*program, lun *lab.LoopSet) error {
	var writing sync.Mutex
	out := json.NewEncoder(harness)
	say := func(a machine.Answer) error {
		writing.Lock()
		defer writing.Unlock()
		return out.Encode(a)
	}
	if err := say(machine.Answer{}); err != nil { // reports that the node is ready
		return err
	}
	in := json.NewDecoder(harness)
	for {
		var q machine.Request
		if err := in.Decode(&q); err != nil {
			return fmt.Errorf("guest: the harness is gone: %w", err)
		}
		if q.Do == machine.Run {
			go func() { _ = say(run(q)) }() // if it fails, the next Decode fails, too
			continue
		}
		a := machine.Answer{ID: q.ID}
		if q.Do == machine.Lose || q.Do == machine.Restore {
			if err := lunFault(lun, q.Do); err != nil {
				a.Error = err.Error()
			}
		} else if p := programs[q.Program]; p == nil {
			a.Error = fmt.Sprintf("there is no program %q", q.Program)
		} else if err := p.do(q.Do); err != nil {
			a.Error = err.Error()
		}
		if err := say(a); err != nil {
			return err
		}
	}
}

func run(q machine.Request) machine.Answer {
	a := machine.Answer{ID: q.ID}
	if len(q.Args) == 0 {
		a.Error = "no command"
		return a
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var both bytes.Buffer
	cmd := exec.CommandContext(ctx, q.Args[0], q.Args[1:]...)
	cmd.Stdout, cmd.Stderr = &both, &both
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		a.Error = err.Error()
		return a
	}
	a.Output, a.Code = both.Bytes(), cmd.ProcessState.ExitCode()
	return a
}

// program is a program that is started again when it ends.
type program struct {
	log  string
	argv []string

	mu   sync.Mutex // guards the fields below
	held bool
	cmd  *exec.Cmd // nil: it does not run
}

func newProgram(s *machine.Spec, name string, argv ...string) *program {
	return &program{log: filepath.Join(s.Dir, name+".log"), argv: argv}
}

// supervise never returns: the node ends when its process 1 ends.
func (p *program) supervise() {
	for {
		p.mu.Lock()
		cmd, err := p.start()
		p.mu.Unlock()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		if cmd != nil {
			_ = cmd.Wait() // however it ended
		}
		p.mu.Lock()
		p.cmd = nil
		p.mu.Unlock()
		time.Sleep(restarted)
	}
}

// start returns nil while the program is held.
func (p *program) start() (*exec.Cmd, error) {
	if p.held {
		return nil, nil
	}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(p.argv[0], p.argv[1:]...)
	cmd.Args[0] = filepath.Base(p.argv[0])
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p.cmd = cmd
	return cmd, nil
}

func (p *program) do(what string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch what {
	case machine.Free:
		p.held = false
		return nil
	case machine.Hold:
		p.held = true
	case machine.Kill:
	default:
		return fmt.Errorf("unknown request %q", what)
	}
	switch {
	case p.cmd == nil && what == machine.Kill:
		return errors.New("the program does not run")
	case p.cmd == nil:
		return nil
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}
