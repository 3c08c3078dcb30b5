package script

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

const (
	// runLimit bounds the time of a program that must end, and every wait of a script.
	runLimit = 2 * time.Minute
	// nobody is the user without privileges, in scripts that root runs.
	nobody = 65534
)

// process is an agent or another program that runs beside the script.
type process struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when the process has ended
	code int           // valid after that; -1: ended by a signal
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may already have ended
	<-p.done
}

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// wait waits for the process and returns its exit code.
func (p *process) wait() (int, error) {
	limit := time.NewTimer(runLimit)
	defer limit.Stop()
	select {
	case <-p.done:
		return p.code, nil
	case <-limit.C:
		return 0, fmt.Errorf("the program still runs after %v", runLimit)
	}
}

// command prepares a program of the script. Options come first: -nobody runs it as a user without privileges, -netns in
// a new network namespace whose loopback has no address, and -pidns (only as root) in a new PID namespace.
func command(ctx context.Context, ts *testscript.TestScript, args []string) (*exec.Cmd, error) {
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		switch args[0] {
		case "-nobody":
			if os.Getuid() == 0 {
				attr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
			}
		case "-netns":
			isolate(attr)
		case "-pidns":
			attr.Cloneflags |= syscall.CLONE_NEWPID
		default:
			return nil, fmt.Errorf("unknown option %s", args[0])
		}
		args = args[1:]
	}
	if len(args) == 0 {
		return nil, errors.New("a program is missing")
	}
	path := args[0]
	if p := programs + "/" + path; exists(p) {
		path = p
	}
	cmd := exec.CommandContext(ctx, path, args[1:]...)
	cmd.Dir = ts.MkAbs(".")
	cmd.SysProcAttr = attr
	for _, key := range []string{"PATH", "HOME", "TMPDIR", "NODE_NAME", "NODE_GROUP", "GORACE"} {
		if v := ts.Getenv(key); v != "" {
			cmd.Env = append(cmd.Env, key+"="+v)
		}
	}
	return cmd, nil
}

func isolate(attr *syscall.SysProcAttr) {
	attr.Cloneflags |= syscall.CLONE_NEWNET
	if os.Getuid() != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// cmdExit is "exit CODE [-nobody] [-netns] [-pidns] PROGRAM ARG...": the program ends by itself with this code. Scripts
// check its output with stdout, stderr and refused.
func cmdExit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exit CODE [-nobody] [-netns] [-pidns] PROGRAM ARG...")
	}
	ctx, cancel := context.WithTimeout(context.Background(), runLimit)
	defer cancel()
	cmd, err := command(ctx, ts, args[1:])
	ts.Check(err)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = time.Second
	err = cmd.Run()
	stateOf(ts).stderr = stderr.String()
	_, _ = io.WriteString(ts.Stdout(), stdout.String())
	_, _ = io.WriteString(ts.Stderr(), stderr.String())
	if ctx.Err() != nil {
		ts.Fatalf("the program still runs after %v\n%s%s", runLimit, stdout.String(), stderr.String())
	}
	if cmd.ProcessState == nil {
		ts.Fatalf("%v", err)
	}
	if code := strconv.Itoa(cmd.ProcessState.ExitCode()); code != args[0] {
		ts.Fatalf("exit code %s, want %s", code, args[0])
	}
}

// cmdStart is "start NODE [-nobody]": it runs the agent of NODE.yaml, with its log in NODE.log.
func cmdStart(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: start NODE [-nobody]")
	}
	node := args[0]
	run(ts, node, append(args[1:], "fencing-agent", "--config", ts.MkAbs(node+".yaml")))
}

// cmdFollow is "follow NAME PROGRAM ARG...": it runs a program beside the script, with all its output in NAME.log.
func cmdFollow(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: follow NAME PROGRAM ARG...")
	}
	run(ts, args[0], args[1:])
}

func run(ts *testscript.TestScript, name string, args []string) {
	s := stateOf(ts)
	if p := s.agents[name]; p != nil && p.running() {
		ts.Fatalf("%s runs already", name)
	}
	cmd, err := command(context.Background(), ts, args)
	ts.Check(err)
	p := &process{cmd: cmd, log: ts.MkAbs(name + ".log"), done: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	ts.Check(err)
	defer func() { _ = log.Close() }() // the program has its own descriptor
	cmd.Stdout, cmd.Stderr = log, log
	ts.Check(cmd.Start())
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // the exit code contains the result
		p.code = cmd.ProcessState.ExitCode()
	}()
	if s.agents[name] == nil {
		s.order = append(s.order, name)
	}
	s.agents[name] = p
}

func (s *state) process(ts *testscript.TestScript, name string) *process {
	p := s.agents[name]
	if p == nil {
		ts.Fatalf("%s was not started", name)
	}
	return p
}

// cmdTerminate is "terminate NODE CODE": it sends SIGTERM, and the agent must end with CODE.
func cmdTerminate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: terminate NODE CODE")
	}
	p := stateOf(ts).process(ts, args[0])
	ts.Check(p.cmd.Process.Signal(syscall.SIGTERM))
	expectEnd(ts, args[0], args[1])
}

// cmdEnds is "ends NODE CODE": the agent must end by itself with CODE.
func cmdEnds(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: ends NODE CODE")
	}
	expectEnd(ts, args[0], args[1])
	text, err := os.ReadFile(stateOf(ts).process(ts, args[0]).log)
	ts.Check(err)
	stateOf(ts).stderr = string(text)
}

func expectEnd(ts *testscript.TestScript, name, want string) {
	code, err := stateOf(ts).process(ts, name).wait()
	if err != nil {
		ts.Fatalf("%s %v", name, err)
	}
	if strconv.Itoa(code) != want {
		ts.Fatalf("%s ended with exit code %d, want %s", name, code, want)
	}
}

// cmdCrash is "crash NODE": it sends SIGKILL.
func cmdCrash(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: crash NODE")
	}
	stateOf(ts).process(ts, args[0]).kill()
}

// cmdAlive is "alive NODE...": these agents must still be running.
func cmdAlive(ts *testscript.TestScript, neg bool, args []string) {
	for _, name := range args {
		if p := stateOf(ts).process(ts, name); p.running() == neg {
			ts.Fatalf("%s: running: %v", name, p.running())
		}
	}
}
