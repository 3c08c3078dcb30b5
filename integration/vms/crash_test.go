package vms

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fencing-agent/fencing-agent/integration/observe"
	"github.com/fencing-agent/fencing-agent/integration/vms/control"
	"github.com/fencing-agent/fencing-agent/integration/vms/image"
	"github.com/fencing-agent/fencing-agent/integration/vms/machine"
	"github.com/fencing-agent/fencing-agent/k8s/deaths"
	"github.com/fencing-agent/fencing-agent/k8s/fencing"
	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
)

const (
	crashMegabytes = 512
	crashReserved  = "crashkernel=192M"
	// dumpLasts is the time for which the crash kernel runs after its first message. It stands for the writing of a
	// dump.
	dumpLasts = 45 * time.Second
	crashPort = 7410
	// crashWord is the beginning of the crash kernel's lines on the console.
	crashWord = "lab: "
)

// crashPackages contain kexec, which loads a crash kernel, vmcore-dmesg, which reads the log of the kernel that
// panicked, and fence_kdump_send.
var crashPackages = []string{"kexec-tools", "fence-agents"}

// crashScript is all that a crash kernel of the lab does: it reads from the dump which boot has panicked and prints it,
// and it sends with the command line of docs/power.md.
var crashScript = fmt.Sprintf(`/sbin/vmcore-dmesg /proc/vmcore | grep -o '%[1]sboot .*'
/usr/libexec/fence-agents/fence_kdump_send -p %[2]d -f auto -c 0 -i 10 %[3]s &
echo '%[1]ssends'
sleep %.0[4]f
echo b > /proc/sysrq-trigger
`, crashWord, crashPort, address(1, 200), dumpLasts.Seconds())

// loadScript does what the kdump service does while a machine boots. The kernel keeps its log in memory, and so the
// dump contains it.
var loadScript = fmt.Sprintf(`set -e
line=$(sed 's/crashkernel=[^ ]*//' /proc/cmdline)
/sbin/kexec -p /boot/vmlinuz --initrd=/boot/initrd --command-line="$line irqpoll nr_cpus=1 reset_devices"
test "$(cat /sys/kernel/kexec_crash_loaded)" = 1
echo "%sboot $(cat /proc/sys/kernel/random/boot_id)" > /dev/kmsg
`, crashWord)

// TestCrashKernel makes one machine panic, whose crash kernel runs Debian's fence_kdump_send, and resets another at the
// same moment. The listener of fencing-controller, and the rest of its part for devices, run in this process, which is
// a host on their network.
func TestCrashKernel(t *testing.T) {
	need(t)
	s := &story{t: t, name: "crash kernel", began: time.Now(), stalls: observe.NewStalls()}
	defer s.stalls.Close()
	c := &contender{name: "fence_kdump", packages: crashPackages}
	if _, err := c.fetch(t.Context(), s.logf); err != nil {
		t.Fatal(err)
	}
	s.logf("booting two machines")
	l, err := newLab(t, crew{
		nodes: nodesNamed(2), megabytes: crashMegabytes, kernel: crashReserved,
		boot: func(l *lab) error { return bootToCrash(t.Context(), l, c.tree) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.close(t)
	s.begin(l)
	s.crashes()
}

// bootToCrash starts machines that have a crash kernel and an initial file system for it.
func bootToCrash(ctx context.Context, l *lab, tree string) error {
	var machines, crashed []image.Machine
	for i, name := range l.nodes {
		boot := control.Boot{Name: name, Interfaces: []control.Interface{card(1, i+1, networks[0])}, Crash: crashScript}
		machines = append(machines, image.Machine{Boot: boot, Modules: named("virtio_pci", "virtio_console", "virtio_net")})
		crashed = append(crashed, image.Machine{Boot: boot, Modules: named("virtio_pci", "virtio_net")})
	}
	dir := filepath.Join(l.dir, "crash")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	second, err := image.Build(built.tree, dir, built.guest, crashed, image.Extra{Tree: tree, Programs: map[string]string{
		"/sbin/vmcore-dmesg": "sbin/vmcore-dmesg", "/usr/libexec/fence-agents/fence_kdump_send": "usr/libexec/fence-agents/fence_kdump_send",
	}})
	if err != nil {
		return err
	}
	img, err := image.Build(built.tree, l.dir, built.guest, machines, image.Extra{
		Tree: tree, Programs: map[string]string{"/sbin/kexec": "sbin/kexec"},
		Files: map[string]string{"/boot/vmlinuz": second.Kernel, "/boot/initrd": second.Initrd},
	})
	if err != nil {
		return err
	}
	for i, name := range l.nodes {
		if err := l.start(ctx, img, name, nil, l.crew.megabytes, machines[i].Boot.Interfaces); err != nil {
			return err
		}
	}
	return nil
}

// crashes is the story of TestCrashKernel.
func (s *story) crashes() {
	const victim, other = "n1", "n2"
	mac, err := net.ParseMAC("52:54:00:00:01:c8")
	s.must(err)
	hears, err := newEar(s.lab, networks[0], mac, netip.AddrPortFrom(netip.MustParseAddr(address(1, 200)), crashPort))
	s.must(err)
	ctx, cancel := context.WithCancel(s.t.Context())
	served := make(chan error, 1)
	c, err := newCluster(ctx, s.t, func(log *slog.Logger, reg prometheus.Registerer) *fencing.Crashes {
		crashes := fencing.NewCrashes("", log, time.Now, reg)
		go func() { served <- crashes.Serve(ctx, hears) }()
		return crashes
	})
	s.must(err)
	defer func() {
		cancel()
		c.wg.Wait()
		if err := <-served; err != nil {
			s.t.Error(err)
		}
	}()
	for _, node := range s.nodes {
		s.eventually(time.Now().Add(upLimit), node+" boots", func() string {
			if _, ok := s.first(node, time.Time{}, func(e machine.Event) bool { return e.Kind == control.Log && e.Text == "up" }); !ok {
				return "it is not up"
			}
			return ""
		})
		at := time.Now()
		s.run(node, loadScript)
		s.logf("%s: its crash kernel is loaded, in %.1f s", node, time.Since(at).Seconds())
		c.wg.Go(func() { c.kubelet(ctx, s, node) })
	}
	s.eventually(time.Now().Add(time.Minute), "both Nodes are Ready", func() string {
		if c.ready(victim) == "" || c.ready(other) == "" {
			return "one is not"
		}
		return ""
	})
	c.wg.Go(func() { _ = c.runner.Start(ctx) }) // it returns nil
	died, unhurt := c.ready(victim), c.ready(other)
	// Otherwise its kubelet would be back before two messages have come.
	c.pause(other, true)
	panicked := s.trigger(victim, "c")
	reset := s.trigger(other, "b")
	s.logf("%s panics, %s is reset", victim, other)

	s.afterPanic(c, hears, panicked, died)
	s.afterReset(c, hears, reset, unhurt)
	s.backFromDump(c, hears, panicked, died)
}

// trigger writes a letter to the kernel's sysrq-trigger. The machine does not answer after that.
func (s *story) trigger(node, letter string) time.Time {
	at := time.Now()
	go func() {
		ctx, cancel := context.WithTimeout(s.t.Context(), askLimit)
		defer cancel()
		_, _ = s.machines[node].Run(ctx, "echo "+letter+" > /proc/sysrq-trigger")
	}()
	return at
}

// fence returns the NodeFence of a node, or nil if there is none.
func (c *cluster) fence(node string) *fencing.NodeFence {
	f := &fencing.NodeFence{}
	if c.api.Get(context.Background(), types.NamespacedName{Name: fencing.NameOf(node)}, f) != nil {
		return nil
	}
	return f
}

// afterPanic waits for the proof, and checks which boot it names.
func (s *story) afterPanic(c *cluster, hears *ear, at time.Time, died string) {
	s.t.Helper()
	source := netip.MustParseAddr(address(1, 1))
	var f *fencing.NodeFence
	s.eventually(at.Add(2*time.Minute), "a proof", func() string {
		for _, node := range s.nodes {
			s.nothingElse(c, node, died)
		}
		if f = c.fence("n1"); f == nil || f.Status.Proof == nil {
			return fmt.Sprintf("%d messages came, and there is none", len(hears.from(source)))
		}
		return ""
	})
	proven := f.Status.Proof
	if proven.Kind != nodefence.ByKdump || proven.Boot != deaths.Boot(died) || f.Status.Dump == nil {
		s.t.Errorf("%+v", f.Status)
	}
	if ok, err := c.runner.Proof(s.t.Context(), "n1", deaths.Boot(died)); !ok || err != nil {
		s.t.Errorf("the recovery is told %v, %v", ok, err)
	}
	if reset, ok := s.resetAt("n1", at); ok {
		s.t.Errorf("n1 was reset %v after the panic, before the proof", reset.Sub(at))
	}
	says := func(text string) time.Duration {
		when, ok := s.first("n1", at, func(e machine.Event) bool { return e.Kind == machine.Console && strings.Contains(e.Text, text) })
		if !ok {
			s.t.Errorf("the console of n1 has no %q", text)
		}
		return when.Sub(at)
	}
	// The crash kernel has read this from the memory of the kernel that panicked.
	says(crashWord + "boot " + died)
	messages := hears.from(source)
	s.logf("panic: %.1f s; the crash kernel sends: %.1f s; messages: %s; the Node is not Ready: %.1f s; the proof: %.1f s", says("Kernel panic").Seconds(),
		says(crashWord+"sends").Seconds(), since(at, messages), c.changed("n1").Sub(at).Seconds(), proven.At.Sub(at).Seconds())
}

func since(at time.Time, times []time.Time) string {
	var out []string
	for _, t := range times {
		out = append(out, fmt.Sprintf("%.1f", t.Sub(at).Seconds()))
	}
	return strings.Join(out, ", ") + " s"
}

// nothingElse fails if the end of any boot of the node is proven except the one that died, or if the node's power is
// cut while it dumps.
func (s *story) nothingElse(c *cluster, node, died string) {
	s.t.Helper()
	if cuts := c.cuts(); len(cuts) > 0 {
		s.t.Fatalf("started: %v", cuts)
	}
	for _, boot := range s.bootsOf(node) {
		if ok, err := c.runner.Proof(s.t.Context(), node, deaths.Boot(boot)); (ok || err != nil) && boot != died {
			s.t.Fatalf("%s: the end of boot %s is proven (%v), and %s has panicked", node, boot, err, died)
		}
	}
}

// afterReset checks what the listener concludes about a machine that was only reset, and is not Ready.
func (s *story) afterReset(c *cluster, hears *ear, at time.Time, unhurt string) {
	s.t.Helper()
	if _, ok := s.resetAt("n2", at); !ok || len(s.bootsOf("n2")) != 2 {
		s.fatal("n2: boots %v", s.bootsOf("n2"))
	}
	if c.ready("n2") != "" {
		s.t.Errorf("n2 is Ready: nothing could have been proven of it")
	}
	if n, f := hears.from(netip.MustParseAddr(address(1, 2))), c.fence("n2"); len(n) > 0 || f != nil {
		s.t.Errorf("n2 was reset: %d messages, %+v", len(n), f)
	}
	c.pause("n2", false)
	s.eventually(time.Now().Add(time.Minute), "n2 is Ready again", func() string {
		if boot := c.ready("n2"); boot == "" || boot == unhurt {
			return "it is not"
		}
		return ""
	})
	s.logf("n2, which was reset: no message, no NodeFence; its Node is Ready with another boot")
}

// backFromDump waits until the dump is over and the machine has booted, and checks what is reported about the boot that
// died.
func (s *story) backFromDump(c *cluster, hears *ear, at time.Time, died string) {
	s.t.Helper()
	s.eventually(at.Add(dumpLasts+upLimit), "n1 is Ready again", func() string {
		for _, node := range s.nodes {
			s.nothingElse(c, node, died)
		}
		if boot := c.ready("n1"); boot == "" || boot == died {
			return "it is not"
		}
		return ""
	})
	end, _ := s.resetAt("n1", at)
	back := time.Now()
	s.poll(back.Add(15*time.Second), func() string { // the time of two messages
		s.nothingElse(c, "n1", died)
		return "it goes on"
	})
	messages := hears.from(netip.MustParseAddr(address(1, 1)))
	s.logf("the crash kernel's end: %.1f s; Ready again: %.1f s; messages: %s", end.Sub(at).Seconds(), back.Sub(at).Seconds(), since(at, messages))
	if last := slices.MaxFunc(messages, time.Time.Compare); last.After(end.Add(time.Second)) {
		s.t.Errorf("a message came %v after the end of the crash kernel", last.Sub(end))
	}
	if f := c.fence("n1"); f != nil {
		s.logf("its NodeFence: %s %s", f.Status.Step, f.Status.Phase)
		if f.Status.Proof == nil || f.Status.Proof.Contradicted {
			s.t.Errorf("%+v", f.Status)
		}
	}
}
