package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/fenceconfig"
)

const (
	rehearsals    = 4 // at the same time
	rehearsalTime = 40 * time.Second
)

// want matches the output of an agent that ended before it reached its device, because a program, a library or a name
// is missing. If ssh is missing, the agent only says that it could not log in, which on loopback means that it never
// tried.
var want = regexp.MustCompile(`(?i)no module named|command not found|command was not found|not found or not (?:accessible|executable)|no such file or directory|unable to run|unable to find|` +
	`no user exists|error while loading shared libraries|is missing or is not executable|cannot run command|unable to connect/login|nameerror|attributeerror|modulenotfounderror|importerror|permission ?error|name '\w+' is not defined`)

// elsewhere matches what an agent prints once it has tried to use a network.
var elsewhere = regexp.MustCompile(`(?i)connection refused|could not resolve host|name resolution|name or service not known`)

// rehearsal is one run of an agent against a device that refuses every login.
type rehearsal struct {
	agent, way string
	heard      bool   // a byte from the agent has reached the device
	said       string // the end of its output
}

// cannot reports whether the agent would never reach a device.
func (r rehearsal) cannot() bool { return !r.heard && want.MatchString(r.said) }

// stand is a device on loopback that listens on one port for both TCP and UDP, sends short answers and records that it
// was asked. It is also a proxy, so that agents for clouds connect to it and to nothing else.
type stand struct {
	tcp   net.Listener
	udp   net.PacketConn
	port  int
	heard atomic.Bool
}

func newStand(ctx context.Context) (*stand, error) {
	var lc net.ListenConfig
	tcp, err := lc.Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &stand{tcp: tcp, port: tcp.Addr().(*net.TCPAddr).Port}
	if s.udp, err = lc.ListenPacket(ctx, "udp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))); err != nil {
		_ = tcp.Close()
		return nil, err
	}
	go func() {
		for {
			c, err := tcp.Accept()
			if err != nil {
				return
			}
			go s.answer(c)
		}
	}()
	go func() {
		b := make([]byte, 2048)
		for {
			if _, _, err := s.udp.ReadFrom(b); err != nil {
				return
			}
			s.heard.Store(true)
		}
	}()
	return s, nil
}

func (s *stand) close() {
	_ = s.tcp.Close()
	_ = s.udp.Close()
}

// answer refuses every login. A connection is enough: no agent connects before it has found its programs.
func (s *stand) answer(c net.Conn) {
	defer c.Close()
	s.heard.Store(true)
	_ = c.SetDeadline(time.Now().Add(time.Second))
	b := make([]byte, 2048)
	n, _ := c.Read(b)
	switch first := string(b[:n]); {
	case strings.HasPrefix(first, "SSH-"), strings.HasPrefix(first, "\x16"):
	case strings.Contains(first, "HTTP/"):
		_, _ = io.WriteString(c, "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	default:
		_, _ = io.WriteString(c, "login: ")
		_, _ = c.Read(b)
	}
}

// ways returns the ways in which an agent may reach its device: its default way, ssh, and TLS. An agent for devices of
// its own machine has none of these.
func ways(a fenceconfig.Agent) []string {
	if a.Knows("devices") {
		return nil
	}
	out := []string{""}
	for _, key := range []string{"secure", "ssl"} {
		if a.Knows(key) {
			out = append(out, key)
		}
	}
	return out
}

// rehearse runs the status of an agent in one way.
func rehearse(ctx context.Context, dir, name, way string, known fenceconfig.Agent) rehearsal {
	r := rehearsal{agent: name, way: way}
	s, err := newStand(ctx)
	if err != nil {
		r.said = err.Error()
		return r
	}
	defer s.close()
	given := map[string]string{}
	offer := func(value string, keys ...string) {
		for _, key := range keys { // names of one option: the first one that the agent knows is used
			if known.Knows(key) {
				given[key] = value
				return
			}
		}
	}
	port := strconv.Itoa(s.port)
	offer("127.0.0.1", "ip", "ipaddr")
	offer(port, "ipport")
	offer(port, "udpport")
	offer("rehearsal", "username", "login")
	offer("rehearsal", "password", "passwd")
	offer("1", "plug", "port")
	for _, key := range []string{"login_timeout", "shell_timeout", "power_timeout"} {
		offer("3", key)
	}
	if way != "" {
		given[way] = "1"
	}
	names := map[string]bool{}
	for _, p := range known.Parameters {
		names[p.Getopt] = names[p.Getopt] || given[strings.ReplaceAll(p.Name, "-", "_")] != ""
	}
	for _, p := range known.Parameters {
		if p.Required && p.Name != "action" && !names[p.Getopt] {
			given[strings.ReplaceAll(p.Name, "-", "_")], names[p.Getopt] = "1", true
		}
	}
	m := fenceconfig.Method{Agent: name}
	for key, value := range given {
		m.Options = append(m.Options, fenceconfig.Option{Key: key, Value: value})
	}
	proxy := "http://127.0.0.1:" + port
	a := &agent{path: filepath.Join(dir, name), method: m, env: []string{"http_proxy=" + proxy, "https_proxy=" + proxy, "HTTPS_PROXY=" + proxy, "no_proxy=127.0.0.1"}}
	ctx, cancel := context.WithTimeout(ctx, rehearsalTime)
	defer cancel()
	_, said, err := a.run(ctx, "status")
	// An agent without an option for the address or the port has tried another device instead.
	r.heard = s.heard.Load() || elsewhere.MatchString(said)
	r.said = tail(mask(said+" "+errText(err), m, nil))
	return r
}

// tryAll runs the status of all agents in a directory, in each way, against a device on loopback that refuses every
// login. It prints the names of the agents that cannot run, and why. An agent without metadata cannot run either.
func tryAll(ctx context.Context, f flags, out, diag io.Writer) int {
	paths, err := filepath.Glob(filepath.Join(f.agents, "fence_*"))
	if err != nil || len(paths) == 0 {
		fmt.Fprintf(diag, "fencing-executor: there are no fence agents in %s\n", f.agents)
		return 1
	}
	if f.only != "" {
		only := strings.Split(f.only, ",")
		paths = slices.DeleteFunc(paths, func(p string) bool { return !slices.Contains(only, filepath.Base(p)) })
	}
	var wg sync.WaitGroup
	slots, all := make(chan struct{}, rehearsals), make([][]rehearsal, len(paths))
	for i, path := range paths {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			name := filepath.Base(path)
			known, err := (&agent{path: path}).metadata(ctx)
			if err != nil || len(known.Actions) == 0 {
				all[i] = []rehearsal{{agent: name, way: "metadata", said: "no module named anything: it has no metadata that can be read"}}
				return
			}
			for _, way := range ways(known) {
				all[i] = append(all[i], rehearse(ctx, f.agents, name, way, known))
			}
		})
	}
	wg.Wait()
	// Without a loopback or a terminal, all agents would seem unable to run.
	if !slices.ContainsFunc(all, func(one []rehearsal) bool { return slices.ContainsFunc(one, func(r rehearsal) bool { return r.heard }) }) {
		fmt.Fprintln(diag, "fencing-executor: no agent at all has reached a device on loopback: is there none here? Nothing is said of any")
		return 1
	}
	for _, one := range all {
		if i := slices.IndexFunc(one, func(r rehearsal) bool { return strings.Contains(r.said, "out of pty") }); i >= 0 {
			fmt.Fprintf(diag, "fencing-executor: %s has found no terminal (/dev/pts), which agents need that log in: %s\n", one[i].agent, one[i].said)
			return 1
		}
	}
	for _, one := range all {
		cannot := len(one) > 0 && !slices.ContainsFunc(one, func(r rehearsal) bool { return !r.cannot() })
		if cannot {
			fmt.Fprintln(out, one[0].agent)
		}
		for _, r := range one {
			switch {
			case r.heard:
				fmt.Fprintf(diag, "%s %s: reaches its device\n", r.agent, r.way)
			case r.cannot():
				fmt.Fprintf(diag, "%s %s: cannot run: %s\n", r.agent, r.way, r.said)
			default:
				fmt.Fprintf(diag, "%s %s: not heard: %s\n", r.agent, r.way, r.said)
			}
		}
	}
	if ctx.Err() != nil {
		return 1
	}
	return 0
}

// home sets HOME to a directory to which an agent, and the programs that it runs, may write: the executor's account has
// no home directory.
func home() string { return "HOME=" + os.TempDir() }

// tail returns the end of a text, where agents report their error.
func tail(text string) string {
	if len(text) > 300 {
		return "..." + strings.ToValidUTF8(text[len(text)-300:], "")
	}
	return text
}
