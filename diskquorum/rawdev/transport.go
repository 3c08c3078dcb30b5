package rawdev

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	iscsiSession   = regexp.MustCompile(`/session([0-9]+)/`)
	remotePort     = regexp.MustCompile(`/(rport-[0-9:-]+)/`)
	nvmeController = regexp.MustCompile(`^nvme[0-9]+$`)
)

// transport advises on the time limits of one path. If it is joined, it belongs to a multipath device, whose daemon
// sets the limits.
func (h host) transport(dir string, joined bool) []Advice {
	name := filepath.Base(dir)
	if target, err := filepath.EvalSymlinks(dir); err == nil {
		name = filepath.Base(target)
	}
	real, err := filepath.EvalSymlinks(filepath.Join(dir, "device"))
	if err != nil {
		return nil // no device of a storage
	}
	if strings.HasPrefix(name, "nvme") {
		return h.nvme(real)
	}
	var out []Advice
	if s, ok := seconds(attribute(real, "timeout")); ok && s > slowCommand {
		out = append(out, Advice{fmt.Sprintf("SCSI commands to %s time out after %d s", name, s),
			fmt.Sprintf("echo %d > /sys/block/%s/device/timeout, and a udev rule that does so (ATTR{device/timeout}=\"%d\")", slowCommand, name, slowCommand)})
	}
	if m := iscsiSession.FindStringSubmatch(real + "/"); m != nil {
		out = append(out, h.iscsi(m[1], name, joined)...)
	}
	if m := remotePort.FindStringSubmatch(real + "/"); m != nil {
		text := attribute(h.sys, "class", "fc_remote_ports", m[1], "fast_io_fail_tmo")
		if s, ok := seconds(text); text == "off" || ok && s > slowPath {
			do := fmt.Sprintf(`echo 1 > /sys/class/fc_remote_ports/%s/fast_io_fail_tmo, and a udev rule that does so (SUBSYSTEM=="fc_remote_ports", ATTR{fast_io_fail_tmo}="1")`, m[1])
			if joined {
				do = "set fast_io_fail_tmo 1 in the overrides of multipath.conf"
			}
			out = append(out, Advice{fmt.Sprintf("the FC port %s of %s reports a lost target late (fast_io_fail_tmo %s)", m[1], name, text), do})
		}
	}
	if !joined {
		out = append(out, h.unjoined(real, name)...)
	}
	return out
}

// iscsi advises on a session. The session asks its target whether it is there after it has heard nothing for
// noop_out_interval, waits noop_out_timeout for the answer, and then recovery_tmo for the target to come back before it
// fails its I/O.
func (h host) iscsi(session, name string, joined bool) []Advice {
	text := attribute(h.sys, "class", "iscsi_session", "session"+session, "recovery_tmo")
	recovery, ok := seconds(text)
	if text == "off" { // this is how the kernel shows -1
		recovery, ok = -1, true
	}
	if !ok {
		return nil
	}
	connection := filepath.Join(h.sys, "class", "iscsi_connection", "connection"+session+":0")
	interval, known := seconds(attribute(connection, "recv_tmo"))
	timeout, _ := seconds(attribute(connection, "ping_tmo"))
	who := fmt.Sprintf("the iSCSI session%s of %s", session, name)
	parts := fmt.Sprintf("noop_out_interval %d, noop_out_timeout %d, recovery_tmo %d", interval, timeout, recovery)
	do := "set node.session.timeo.replacement_timeout = 1, node.conn[0].timeo.noop_out_interval = 1 and node.conn[0].timeo.noop_out_timeout = 2 " +
		"(iscsiadm -m node -T TARGET -o update -n NAME -v VALUE) and log in again"
	if joined {
		do += "; set fast_io_fail_tmo 1 in the overrides of multipath.conf, from which multipathd sets recovery_tmo"
	}
	switch {
	case recovery < 0:
		return []Advice{{who + " never reports a lost target (" + parts + ")", do}}
	case known && (interval == 0 || timeout == 0):
		return []Advice{{who + " does not ask whether its target is there (" + parts + ")", do}}
	case interval+timeout+recovery > slowPath:
		return []Advice{{fmt.Sprintf("%s reports a lost target only after up to %d s (%s)", who, interval+timeout+recovery, parts), do}}
	}
	return nil
}

// unjoined advises against a disk that has several paths, of which this one is used alone.
func (h host) unjoined(device, name string) []Advice {
	wwid := attribute(device, "wwid")
	if wwid == "" {
		return nil
	}
	var same []string
	for _, disk := range h.names(filepath.Join(h.sys, "block")) {
		if attribute(h.sys, "block", disk, "device", "wwid") == wwid {
			same = append(same, disk)
		}
	}
	if len(same) < 2 {
		return nil
	}
	slices.Sort(same)
	lun := "WWID, as /lib/udev/scsi_id -g -u -d /dev/" + name + " shows it"
	if naa, ok := strings.CutPrefix(wwid, "naa."); ok {
		lun = "3" + naa
	}
	return []Advice{{strings.Join(same, " and ") + " are paths to the same LUN, and no multipath device joins them",
		"run multipath -a " + lun + " and multipathd reconfigure, and name the device below /dev/mapper"}}
}

// nvme advises on the controllers of a namespace. With the kernel's own multipath there may be several, and device is
// the subsystem; otherwise device is the only one. A local disk has no such settings.
func (h host) nvme(device string) (out []Advice) {
	controllers := []string{device}
	if !nvmeController.MatchString(filepath.Base(device)) {
		controllers = nil
		for _, name := range h.names(device) {
			if nvmeController.MatchString(name) {
				controllers = append(controllers, filepath.Join(device, name))
			}
		}
	}
	for _, c := range controllers {
		if transport := attribute(c, "transport"); transport != "" && transport != "pcie" {
			out = append(out, nvmeLimits(c)...)
		}
	}
	return out
}

// nvmeLimits advises on one controller over a network. The controller finds out that its target is lost within about
// three keep-alive times: one until it asks, one for the answer, and what the kernel's timers add. An I/O without a
// path then waits for fast_io_fail_tmo. If that is off, it waits until the controller is given up after ctrl_loss_tmo;
// then the device goes away, and nothing connects it again.
func nvmeLimits(controller string) (out []Advice) {
	name, off := filepath.Base(controller), "off"
	fail, loss := attribute(controller, "fast_io_fail_tmo"), attribute(controller, "ctrl_loss_tmo")
	if alive, ok := seconds(attribute(controller, "kato")); ok && (alive == 0 || 3*alive >= slowPath) {
		found := fmt.Sprintf("the NVMe controller %s reports a lost path only after up to %d s (keep-alive %d s)", name, 3*alive, alive)
		if alive == 0 {
			found = fmt.Sprintf("the NVMe controller %s does not ask whether its target is there (keep-alive 0)", name)
		}
		out = append(out, Advice{found, "connect it with --keep-alive-tmo=1"})
	}
	set := func(file string, value int) string {
		return fmt.Sprintf("echo %d > /sys/class/nvme/%s/%s, and a udev rule that does so (deploy/node/udev)", value, name, file)
	}
	if s, ok := seconds(fail); fail == off || ok && s > slowPath {
		wait := fmt.Sprintf("for %s s (fast_io_fail_tmo)", fail)
		if fail == off && loss == off {
			wait = "for ever (fast_io_fail_tmo off, ctrl_loss_tmo off)"
		} else if fail == off {
			wait = fmt.Sprintf("for %s s (fast_io_fail_tmo off, ctrl_loss_tmo %s)", loss, loss)
		}
		out = append(out, Advice{fmt.Sprintf("an I/O to the NVMe controller %s waits without a path %s", name, wait), set("fast_io_fail_tmo", 1)})
	}
	if _, ok := seconds(loss); ok {
		out = append(out, Advice{fmt.Sprintf("the NVMe controller %s is given up %s s after its path was lost, and nothing connects it again", name, loss), set("ctrl_loss_tmo", -1)})
	}
	return out
}

func seconds(text string) (int, bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil
}
