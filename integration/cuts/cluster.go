package cuts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/integration/lab"
)

const (
	lunSize = 16 << 20
	// patience bounds the wait until all is well: a boot, and what the slowest system takes to begin.
	patience = 3 * time.Minute
	pace     = 500 * time.Millisecond
)

// cluster is three machines with a system.
type cluster struct {
	system   *system
	lab      *lab.Lab
	machines []*machine
}

// newCluster boots the machines and has the system begin.
func newCluster(ctx context.Context, h *host, s *system, dir string) (*cluster, error) {
	l, err := lab.New(lab.Config{Nodes: names, Networks: networks, Dir: dir, StopGrace: time.Millisecond})
	if err != nil {
		return nil, err
	}
	c := &cluster{system: s, lab: l}
	lun := filepath.Join(dir, "lun")
	if err := c.begin(ctx, h, lun, dir); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func (c *cluster) begin(ctx context.Context, h *host, lun, dir string) error {
	if err := makeLUN(ctx, h, c.system, lun); err != nil {
		return err
	}
	for i, name := range names {
		m := &machine{host: h, lab: c.lab, name: name, id: i + 1, dir: filepath.Join(dir, name), lun: lun, wait: map[int]*answer{}}
		if err := c.lab.Links(name, quiet); err != nil {
			return err
		}
		if err := writeNode(m, c.system); err != nil {
			return err
		}
		c.machines = append(c.machines, m)
		if err := m.start(); err != nil {
			return err
		}
	}
	if c.system.prepare == "" {
		return nil
	}
	if err := c.machines[0].awaitBoot(ctx); err != nil {
		return err
	}
	text, code, err := c.machines[0].ask(ctx, c.system.prepare)
	if err == nil && code != 0 {
		err = fmt.Errorf("%s: exit code %d: %s", c.system.prepare, code, text)
	}
	return err
}

// awaitBoot waits until the machine takes questions.
func (m *machine) awaitBoot(ctx context.Context) error {
	for {
		if _, ok := m.first(time.Time{}, func(text string) bool { return text == "machine: up" }); ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pace):
		}
	}
}

// quiet takes the addresses of a namespace of the host away: they are the machine's.
func quiet(h *netlink.Handle) error {
	links, err := h.LinkList()
	if err != nil {
		return err
	}
	for _, link := range links {
		if link.Attrs().Name == "lo" {
			continue
		}
		addresses, err := h.AddrList(link, netlink.FAMILY_ALL)
		if err != nil {
			return err
		}
		for i := range addresses {
			if err := h.AddrDel(link, &addresses[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func makeLUN(ctx context.Context, h *host, s *system, path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Truncate(lunSize), f.Close()); err != nil {
		return err
	}
	if len(s.version) > 0 { // it makes its own
		return nil
	}
	out, err := exec.CommandContext(ctx, filepath.Join(h.programs, "fencectl"), "lun", "init", path, "--cluster", "lab", "--node-group", "worker", "--slots", "4").CombinedOutput()
	if err != nil {
		return fmt.Errorf("fencectl lun init: %w\n%s", err, out)
	}
	return nil
}

// writeNode writes what a machine finds at its boot.
func writeNode(m *machine, s *system) error {
	files, err := s.etc(m.id)
	if err != nil {
		return err
	}
	all := map[string]string{"service": s.service}
	for name, text := range files {
		all[filepath.Join("etc", name)] = text
	}
	for name, text := range all {
		path := filepath.Join(m.dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			return err
		}
	}
	return nil
}

// well waits until the system is ready on all machines.
func (c *cluster) well(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("not all is well"))
	defer cancel()
	for i := 0; i < len(c.machines); {
		err := c.ready(ctx, c.machines[i])
		if err == nil {
			i++
			continue
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(pace):
			i = 0
		}
	}
	return nil
}

func (c *cluster) ready(ctx context.Context, m *machine) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	text, code, err := m.ask(ctx, c.system.ready)
	if err == nil && code != 0 {
		err = fmt.Errorf("%s is not ready: %s", m.name, text)
	}
	return err
}

// close ends all machines.
func (c *cluster) close() error {
	var errs []error
	for _, m := range c.machines {
		errs = append(errs, m.kill())
	}
	errs = append(errs, c.lab.Close())
	for _, m := range c.machines {
		m.loops.Wait()
	}
	return errors.Join(errs...)
}

// cut keeps a machine and the others apart, in the network.
func (c *cluster) cut(victim *machine) (time.Time, error) {
	at := time.Now()
	_, err := c.lab.Isolate(victim.name)
	return at, err
}

func (c *cluster) heal() (time.Time, error) {
	_, err := c.lab.Heal()
	return time.Now(), err
}

// load is how many processes are ready to run on the host, on average over a minute.
func load() float64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return float64(info.Loads[0]) / (1 << 16)
}
