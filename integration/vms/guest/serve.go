package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/integration/vms/control"
)

// poll is the pause between two checks for a change that no event announces.
const poll = 100 * time.Millisecond

// link is the line to the harness. Its methods may be called from any goroutine.
type link struct {
	mu   sync.Mutex
	port io.ReadWriter
}

func (l *link) send(m control.Message) {
	text, err := json.Marshal(m)
	if err != nil {
		return // plain strings can be encoded
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.port.Write(append(text, '\n')); err != nil {
		fmt.Println("guest: harness:", err)
	}
}

func (l *link) log(format string, args ...any) {
	l.send(control.Message{Kind: control.Log, Source: control.SourceGuest, Text: fmt.Sprintf(format, args...)})
}

// serve brings the machine up and then answers the harness until the port fails. It returns that error. Its goroutines
// run as long as the machine.
func serve() error {
	boot, err := readBoot()
	if err != nil {
		return err
	}
	if crashed() {
		return dump(boot)
	}
	port, err := openPort()
	if err != nil {
		return err
	}
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return err
	}
	l := &link{port: port}
	if _, err := port.Write([]byte("\n")); err != nil {
		return fmt.Errorf("harness: %w", err)
	}
	l.send(control.Message{Kind: control.Hello, Text: strings.TrimSpace(string(id))})
	s := newService(boot, l)
	go func() {
		if err := bringUp(boot, l); err != nil {
			l.log("not up: %v", err)
			return
		}
		l.log("up")
		if len(boot.Service) > 0 && !boot.Later {
			s.start()
		}
	}()
	requests := json.NewDecoder(bufio.NewReader(port))
	for {
		var r control.Request
		if err := requests.Decode(&r); err != nil {
			return fmt.Errorf("harness: %w", err)
		}
		go func() {
			text, err := answer(s, r)
			m := control.Message{Kind: control.Reply, ID: r.ID, Text: text}
			if err != nil {
				m.Error = err.Error()
			}
			l.send(m)
		}()
	}
}

// crashed reports whether a kernel that has panicked started this one. /proc then contains the memory of the former.
func crashed() bool {
	_, err := os.Stat("/proc/vmcore")
	return err == nil
}

// dump does the work of a crash kernel's initial file system. The harness hears of it only from the console.
func dump(boot *control.Boot) error {
	for _, i := range boot.Interfaces {
		if err := connect(i); err != nil {
			return fmt.Errorf("network %s: %w", i.Name, err)
		}
	}
	cmd := exec.Command("/bin/sh", "-c", boot.Crash)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("crash script: %w", err)
	}
	return nil
}

func openPort() (*os.File, error) {
	for range 100 {
		names, err := filepath.Glob("/sys/class/virtio-ports/*/name")
		if err != nil {
			return nil, err
		}
		for _, path := range names {
			name, err := os.ReadFile(path)
			if err == nil && strings.TrimSpace(string(name)) == control.Port {
				return os.OpenFile("/dev/"+filepath.Base(filepath.Dir(path)), os.O_RDWR, 0)
			}
		}
		time.Sleep(poll)
	}
	return nil, fmt.Errorf("no virtio port %q", control.Port)
}

func answer(s *service, r control.Request) (string, error) {
	if len(r.Args) != 1 {
		return "", fmt.Errorf("%s wants one argument", r.Op)
	}
	switch r.Op {
	case control.OpExec:
		out, err := exec.Command("/bin/sh", "-c", r.Args[0]).CombinedOutput()
		return string(out), err
	case control.OpGet:
		return get(r.Args[0])
	case control.OpService:
		return "", s.control(r.Args[0])
	}
	return "", fmt.Errorf("unknown operation %q", r.Op)
}

func get(url string) (string, error) {
	client := http.Client{Timeout: 5 * time.Second}
	response, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, response.Status)
	}
	return string(text), err
}

// bringUp does what the boot of a real machine does between kernel and services.
func bringUp(boot *control.Boot, l *link) error {
	for path, text := range boot.Files {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	if len(boot.Service) > 0 {
		if err := traceFeeds(l); err != nil {
			return err
		}
	}
	if boot.Disk != "" {
		if err := unix.Mount(boot.Disk, control.DiskMount, "ext4", 0, ""); err != nil {
			return fmt.Errorf("mount %s: %w", boot.Disk, err)
		}
	}
	for _, i := range boot.Interfaces {
		if err := connect(i); err != nil {
			return fmt.Errorf("network %s: %w", i.Name, err)
		}
	}
	if boot.Target != nil {
		if err := offer(boot.Target); err != nil {
			return err
		}
	}
	if boot.Initiator != nil {
		go func() {
			if err := login(boot.Initiator); err != nil {
				l.log("no LUN: %v", err)
				return
			}
			l.log("LUN attached")
		}()
	}
	return nil
}

// connect configures the name and the address of the card with this MAC.
func connect(i control.Interface) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return err
	}
	links, err := netlink.LinkList()
	if err != nil {
		return err
	}
	for _, card := range links {
		if card.Attrs().HardwareAddr.String() != i.MAC {
			continue
		}
		if err := netlink.LinkSetName(card, i.Name); err != nil {
			return err
		}
		address, err := netlink.ParseAddr(i.Address)
		if err != nil {
			return err
		}
		if err := netlink.AddrAdd(card, address); err != nil {
			return err
		}
		return netlink.LinkSetUp(card)
	}
	return fmt.Errorf("no card %s", i.MAC)
}

// tracing is the folder in which the kernel's trace is configured.
const tracing = "/sys/kernel/tracing/"

// traceFeeds reports to the harness each start, ping and stop that the kernel's watchdog core passes to the driver. If
// no driver uses the core, it reports the calls that feed.
func traceFeeds(l *link) error {
	enable := map[string]string{}
	for _, event := range []string{"start", "ping", "stop"} {
		enable["events/watchdog/watchdog_"+event+"/enable"] = "1"
	}
	mark := "watchdog_"
	if _, err := os.Stat(tracing + "events/watchdog"); err != nil {
		const calls = "events/syscalls/sys_enter_ioctl/"
		if err := os.WriteFile(tracing+calls+"filter", fmt.Appendf(nil, "cmd == %#x", unix.WDIOC_KEEPALIVE), 0); err != nil {
			return fmt.Errorf("trace the calls that feed: %w", err)
		}
		enable, mark = map[string]string{calls + "enable": "1"}, "sys_"
	}
	for file, text := range enable {
		if err := os.WriteFile(tracing+file, []byte(text), 0); err != nil {
			return fmt.Errorf("trace the watchdog: %w", err)
		}
	}
	pipe, err := os.Open(tracing + "trace_pipe")
	if err != nil {
		return fmt.Errorf("trace the watchdog: %w", err)
	}
	go func() {
		lines := bufio.NewScanner(pipe)
		for lines.Scan() {
			_, event, ok := strings.Cut(lines.Text(), ": "+mark)
			if kind := strings.FieldsFunc(event, func(r rune) bool { return r == ':' || r == '(' }); ok && len(kind) > 1 {
				l.send(control.Message{Kind: control.Feed, Source: kind[0], Text: lines.Text()})
			}
		}
		l.log("tracing of the watchdog ended: %v", lines.Err())
	}()
	return nil
}
