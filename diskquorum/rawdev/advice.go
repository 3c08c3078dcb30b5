package rawdev

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// host is where a machine shows its devices. Tests use folders and tables of their own.
type host struct {
	sys string // "/sys"
	dev string // "/dev"
	// table is the parameters of a device mapper device's targets, one a line.
	table func(number uint64) (string, error)
}

var thisHost = host{sys: "/sys", dev: "/dev", table: deviceMapperTable}

// slowPath is how long a path may take to report that it is lost. An equal split is
// arbitrated within 10 s by default; a path that says nothing for longer keeps its node,
// and with it its half, out of the decision.
const slowPath = 10 // seconds

// advice lists what is wrong with the way a block device is reached, each with the setting
// to change. What sysfs does not show is skipped: this is advice, not a condition.
func (h host) advice(path string, number uint64) []string {
	dir := h.blockDir(number)
	var out []string
	if a := h.unstableName(path, dir); a != "" {
		out = append(out, a)
	}
	for _, holder := range h.names(filepath.Join(dir, "holders")) {
		if uuid := attribute(dir, "holders", holder, "dm", "uuid"); strings.HasPrefix(uuid, "mpath-") {
			out = append(out, fmt.Sprintf("%s is one path of the multipath device /dev/mapper/%s: name that, or the LUN is lost with this path",
				path, attribute(dir, "holders", holder, "dm", "name")))
		}
	}
	paths := []string{dir}
	if strings.HasPrefix(attribute(dir, "dm", "uuid"), "mpath-") {
		if a := h.queueing(dir, number); a != "" {
			out = append(out, a)
		}
		paths = nil
		for _, below := range h.names(filepath.Join(dir, "slaves")) {
			paths = append(paths, filepath.Join(dir, "slaves", below))
		}
	}
	for _, p := range paths {
		for _, a := range h.transport(p) {
			if !slices.Contains(out, a) { // paths of one session say the same
				out = append(out, a)
			}
		}
	}
	return out
}

func (h host) blockDir(number uint64) string {
	return filepath.Join(h.sys, "dev", "block", fmt.Sprintf("%d:%d", unix.Major(number), unix.Minor(number)))
}

// kernelName matches names that the kernel gives in the order of discovery.
var kernelName = regexp.MustCompile(`^(sd[a-z]+|vd[a-z]+|xvd[a-z]+|dm-[0-9]+|nvme[0-9]+n[0-9]+)$`)

// unstableName advises against a path that may be another device after a reboot.
func (h host) unstableName(path, dir string) string {
	if !kernelName.MatchString(filepath.Base(path)) {
		return ""
	}
	better := "a path below /dev/disk/by-id"
	if name := attribute(dir, "dm", "name"); name != "" {
		better = "/dev/mapper/" + name
	} else if target, err := filepath.EvalSymlinks(path); err == nil {
		byID := filepath.Join(h.dev, "disk", "by-id")
		for _, link := range h.names(byID) {
			if to, err := filepath.EvalSymlinks(filepath.Join(byID, link)); err == nil && to == target {
				better = "/dev/disk/by-id/" + link
				break
			}
		}
	}
	return fmt.Sprintf("%s may name another device after a reboot: use %s", path, better)
}

// queueing advises against a multipath device that never reports that all paths are lost, and
// says so when that cannot be found out.
func (h host) queueing(dir string, number uint64) string {
	name := attribute(dir, "dm", "name")
	table, err := h.table(number)
	if err != nil { // an agent without CAP_SYS_ADMIN; silence would pass for "it does not queue"
		return fmt.Sprintf("whether /dev/mapper/%s queues I/O when all paths are lost could not be checked (%v): "+
			"run fencectl lun check on it as root, or look for queue_if_no_path in: dmsetup table %s", name, err, name)
	}
	if !slices.Contains(multipathFeatures(table), "queue_if_no_path") {
		return ""
	}
	return fmt.Sprintf("/dev/mapper/%s queues I/O when all paths are lost (queue_if_no_path): set no_path_retry fail for it in multipath.conf and run "+
		"multipathd reconfigure; until then: dmsetup message %s 0 fail_if_no_path", name, name)
}

// multipathFeatures are the features in the parameters of a multipath target: their number
// comes first.
func multipathFeatures(params string) []string {
	words := strings.Fields(params)
	if len(words) == 0 {
		return nil
	}
	n, err := strconv.Atoi(words[0])
	if err != nil || n < 0 || n > len(words)-1 {
		return nil
	}
	return words[1 : 1+n]
}

var (
	iscsiSession = regexp.MustCompile(`/(session[0-9]+)/`)
	remotePort   = regexp.MustCompile(`/(rport-[0-9:-]+)/`)
)

// transport advises on the timeouts of one path: SCSI commands, iSCSI sessions, FC ports.
func (h host) transport(dir string) []string {
	real, err := filepath.EvalSymlinks(filepath.Join(dir, "device"))
	if err != nil {
		return nil // no SCSI device
	}
	name := filepath.Base(dir)
	if target, err := filepath.EvalSymlinks(dir); err == nil {
		name = filepath.Base(target)
	}
	var out []string
	if s, ok := seconds(attribute(real, "timeout")); ok && s > slowPath {
		out = append(out, fmt.Sprintf("SCSI commands to %s time out after %d s: echo 5 > /sys/block/%s/device/timeout, and a udev rule that does so (ATTR{device/timeout}=\"5\")", name, s, name))
	}
	if m := iscsiSession.FindStringSubmatch(real + "/"); m != nil {
		if s, ok := seconds(attribute(h.sys, "class", "iscsi_session", m[1], "recovery_tmo")); ok && (s > slowPath || s < 0) {
			out = append(out, fmt.Sprintf("the iSCSI %s of %s reports a lost target after %s: set node.session.timeo.replacement_timeout = 5 "+
				"(iscsiadm -m node -T TARGET -o update -n node.session.timeo.replacement_timeout -v 5) and log in again", m[1], name, never(s)))
		}
	}
	if m := remotePort.FindStringSubmatch(real + "/"); m != nil {
		text := attribute(h.sys, "class", "fc_remote_ports", m[1], "fast_io_fail_tmo")
		if s, ok := seconds(text); text == "off" || ok && s > slowPath {
			out = append(out, fmt.Sprintf("the FC port %s of %s reports a lost target late (fast_io_fail_tmo %s): set fast_io_fail_tmo 5 in the defaults of multipath.conf", m[1], name, text))
		}
	}
	return out
}

func never(s int) string {
	if s < 0 {
		return "never"
	}
	return fmt.Sprintf("%d s", s)
}

func seconds(text string) (int, bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil
}

// wwid is the identity that the storage gives a device, or "". A LUN has the same one with and without multipath,
// which may take over the device at any time.
func (h host) wwid(number uint64) string {
	dir := h.blockDir(number)
	if id := attribute(dir, "dm", "uuid"); id != "" {
		lun, multipath := strings.CutPrefix(id, "mpath-")
		naa, isNAA := strings.CutPrefix(lun, "3") // the type of the SCSI identifier
		eui, isEUI := strings.CutPrefix(lun, "2")
		switch {
		case !multipath:
			return id
		case isNAA:
			return "naa." + naa
		case isEUI:
			return "eui." + eui
		}
		return "" // other types are written in several ways
	}
	for _, parts := range [][]string{{"device", "wwid"}, {"wwid"}} {
		if id := attribute(append([]string{dir}, parts...)...); id != "" {
			return id
		}
	}
	return ""
}

// attribute returns the content of a file without its line break, or "".
func attribute(parts ...string) string {
	b, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func (h host) names(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// deviceMapperTable asks the kernel, as dmsetup table does. It needs CAP_SYS_ADMIN.
func deviceMapperTable(number uint64) (string, error) {
	control, err := os.OpenFile("/dev/mapper/control", os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer func() { _ = control.Close() }()
	const head = int(unsafe.Sizeof(unix.DmIoctl{}))
	buf := make([]byte, 16<<10)
	io := (*unix.DmIoctl)(unsafe.Pointer(&buf[0]))
	io.Version = [3]uint32{4, 0, 0}
	io.Data_size, io.Data_start = uint32(len(buf)), uint32(head)
	io.Dev, io.Flags = number, unix.DM_STATUS_TABLE_FLAG
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, control.Fd(), unix.DM_TABLE_STATUS, uintptr(unsafe.Pointer(io))); errno != 0 {
		return "", fmt.Errorf("table of device %d:%d: %w", unix.Major(number), unix.Minor(number), errno)
	}
	if io.Flags&unix.DM_BUFFER_FULL_FLAG != 0 {
		return "", errors.New("table of the device: too long")
	}
	return targetParams(buf[head:], int(io.Target_count)), nil
}

// targetParams reads what the kernel put behind the head: for each target a description
// whose Next is the offset, from the first, of the one after, and a string behind it.
func targetParams(data []byte, count int) string {
	const size = int(unsafe.Sizeof(unix.DmTargetSpec{}))
	var lines []string
	for at := 0; count > 0 && at >= 0 && at+size <= len(data); count-- {
		spec := *(*unix.DmTargetSpec)(unsafe.Pointer(&data[at]))
		params := data[at+size:]
		if end := slices.Index(params, 0); end >= 0 {
			params = params[:end]
		}
		lines = append(lines, string(params))
		at = int(spec.Next)
	}
	return strings.Join(lines, "\n")
}
