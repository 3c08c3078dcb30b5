package script

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
)

// commands lists what scripts can do in addition to testscript's commands.
var commands = map[string]func(*testscript.TestScript, bool, []string){
	"alive":     cmdAlive,
	"await":     cmdAwait,
	"awaithttp": cmdAwaitHTTP,
	"awaitlog":  cmdAwaitLog,
	"cluster":   cmdCluster,
	"crowd":     cmdCrowd,
	"crash":     cmdCrash,
	"ends":      cmdEnds,
	"exit":      cmdExit,
	"follow":    cmdFollow,
	"http":      cmdHTTP,
	"metrics":   cmdMetrics,
	"node":      cmdNode,
	"occupy":    cmdOccupy,
	"put":       cmdPut,
	"refused":   cmdRefused,
	"release":   cmdRelease,
	"remember":  cmdRemember,
	"set":       cmdSet,
	"signal":    cmdSignal,
	"staleat":   cmdStaleSocket,
	"start":     cmdStart,
	"terminate": cmdTerminate,
	"truncate":  cmdTruncate,
	"unchanged": cmdUnchanged,
}

// condition reports whether the machine offers something that may be missing.
func condition(name string) (bool, error) {
	switch name {
	case "unprivileged": // a program can be run as a user without privileges
		cmd := exec.Command(programs+"/fencing-agent", "--version")
		if os.Getuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		}
		return cmd.Run() == nil, nil
	case "root":
		return os.Getuid() == 0, nil
	case "netns":
		cmd := exec.Command(programs+"/fencing-agent", "--version")
		cmd.SysProcAttr = new(syscall.SysProcAttr)
		isolate(cmd.SysProcAttr)
		return cmd.Run() == nil, nil
	case "mknod":
		return canMknod(), nil
	case "directio":
		return directIO(), nil
	}
	if verb, ok := strings.CutPrefix(name, "fencectl:"); ok {
		return exec.Command(programs+"/fencectl", verb, "--help").Run() == nil, nil
	}
	return false, fmt.Errorf("unknown condition %q", name)
}

// cmdRefused is "refused PATTERN": the last program that ended gave exactly one error, in one line, which matches. Log
// lines of a level below ERROR may surround it.
func cmdRefused(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: refused PATTERN")
	}
	errors := errorLines(stateOf(ts).stderr)
	if len(errors) != 1 {
		ts.Fatalf("%d errors instead of one:\n%s", len(errors), strings.Join(errors, "\n"))
	}
	re, err := regexp.Compile(args[0])
	ts.Check(err)
	if !re.MatchString(errors[0]) {
		ts.Fatalf("the error does not match %s:\n%s", args[0], errors[0])
	}
	ts.Logf("%s", errors[0])
}

// errorLines returns the lines of stderr that report an error: lines that do not belong to the log, and log lines of
// level ERROR.
func errorLines(stderr string) []string {
	var out []string
	for line := range strings.Lines(stderr) {
		line = strings.TrimSpace(line)
		var entry struct{ Level string }
		if line == "" || json.Unmarshal([]byte(line), &entry) == nil && entry.Level != "" && entry.Level != "ERROR" {
			continue
		}
		out = append(out, line)
	}
	return out
}
