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

// host holds the places where a machine shows its devices. Tests use other folders and tables.
type host struct {
	root string // of the file system, "" or a folder without a slash at its end
	sys  string // "/sys"
	dev  string // "/dev"
	// table returns the parameters of the targets of a device mapper device, one a line.
	table func(number uint64) (string, error)
}

var thisHost = hostBelow("/")

// hostBelow returns the machine whose file system is below root: in a pod, that of the node.
func hostBelow(root string) host {
	root = strings.TrimSuffix(filepath.Clean(root), "/")
	return host{root: root, sys: root + "/sys", dev: root + "/dev", table: func(number uint64) (string, error) {
		return deviceMapperTable(root+"/dev/mapper/control", number)
	}}
}

// slowPath is the time that a path may take to report that it is lost. An equal split is arbitrated within 10 s by
// default; a path that reports nothing for longer keeps its node, and with it its half, out of the decision.
const slowPath = 10 // seconds

// slowCommand is the time that a SCSI command may take. A lost command is answered only when the kernel has also tried
// to abort it, which takes half as long again: a command that times out after 10 s was answered after 15.7 s.
const slowCommand = 5 // seconds

// Advice is one setting of the way to a device that is wrong.
type Advice struct {
	Found string
	Do    string // which setting to change, and how
}

func (a Advice) String() string { return a.Found + ": " + a.Do }

// AdviceFor returns the advice about the device that spec names on the machine whose file system is below root. It is
// the advice that [Device.Advice] returns for an open device. The function opens only the device mapper's control file.
func AdviceFor(root, spec string) ([]Advice, error) { return hostBelow(root).adviceFor(spec) }

func (h host) adviceFor(spec string) ([]Advice, error) {
	path, err := h.find(spec)
	if err != nil {
		return nil, err
	}
	path = strings.TrimPrefix(path, h.root)
	var st unix.Stat_t
	if err := unix.Stat(h.root+path, &st); err != nil {
		return nil, fmt.Errorf("find %s: %w", path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFBLK || unix.Major(st.Rdev) == loopMajor {
		return nil, nil
	}
	return h.advice(path, st.Rdev), nil
}

// advice lists what is wrong with the way a block device is reached, each with the setting
// to change. What sysfs does not show is skipped: this is advice, not a condition.
func (h host) advice(path string, number uint64) []Advice {
	dir := h.blockDir(number)
	if attribute(dir, "partition") != "" { // a partition is reached like its disk
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dir = filepath.Dir(real)
		}
	}
	w := &way{host: h}
	w.note(h.unstableName(path, dir))
	for _, holder := range h.names(filepath.Join(dir, "holders")) {
		if uuid := attribute(dir, "holders", holder, "dm", "uuid"); strings.HasPrefix(uuid, multipathUUID) {
			name := "/dev/mapper/" + attribute(dir, "holders", holder, "dm", "name")
			w.note(Advice{fmt.Sprintf("%s is one path of the multipath device %s", path, name),
				"name " + name + ", or the LUN is lost with this path"})
			w.joined = true
		}
	}
	w.follow(dir, number)
	return w.advice
}

// multipathUUID begins the identity of a device that multipathd has made.
const multipathUUID = "mpath-"

// way lists what a device consists of, from the top to its paths.
type way struct {
	host
	advice []Advice
	joined bool // by multipathd: the paths are joined to one device, and it sets their time limits
}

// note records each piece of advice once: the paths of one session yield the same ones.
func (w *way) note(all ...Advice) {
	for _, a := range all {
		if a.Found != "" && !slices.Contains(w.advice, a) {
			w.advice = append(w.advice, a)
		}
	}
}

// follow goes down from a device, such as a logical volume, to all that it consists of.
func (w *way) follow(dir string, number uint64) {
	if strings.HasPrefix(attribute(dir, "dm", "uuid"), multipathUUID) {
		w.joined = true
		w.note(w.queueing(dir, number))
	}
	below := w.names(filepath.Join(dir, "slaves"))
	for _, name := range below {
		next := filepath.Join(dir, "slaves", name)
		var major, minor uint32
		if _, err := fmt.Sscanf(attribute(next, "dev"), "%d:%d", &major, &minor); err != nil {
			major, minor = 0, 0 // only the table of a device mapper device is asked for by its number
		}
		if attribute(next, "partition") != "" {
			if real, err := filepath.EvalSymlinks(next); err == nil {
				next = filepath.Dir(real)
			}
		}
		w.follow(next, unix.Mkdev(major, minor))
	}
	if len(below) == 0 {
		w.note(w.transport(dir, w.joined)...)
	}
}

func (h host) blockDir(number uint64) string {
	return filepath.Join(h.sys, "dev", "block", fmt.Sprintf("%d:%d", unix.Major(number), unix.Minor(number)))
}

// kernelName matches names that the kernel gives in the order of discovery.
var kernelName = regexp.MustCompile(`^(sd[a-z]+|vd[a-z]+|xvd[a-z]+|dm-[0-9]+|nvme[0-9]+n[0-9]+)$`)

// unstableName advises against a path that may be another device after a reboot.
func (h host) unstableName(path, dir string) Advice {
	if !kernelName.MatchString(filepath.Base(path)) {
		return Advice{}
	}
	better := "a path below /dev/disk/by-id"
	if name := attribute(dir, "dm", "name"); name != "" {
		better = "/dev/mapper/" + name
	} else if link := h.linkTo(path, attribute(dir, "wwid")); link != "" {
		better = "/dev/disk/by-id/" + link
	}
	return Advice{path + " may name another device after a reboot", "use " + better}
}

// linkTo returns the name below /dev/disk/by-id of the device at path, preferably the one with the storage's name for
// it: a serial number may only be valid until the storage restarts. Empty: there is none.
func (h host) linkTo(path, wwid string) (found string) {
	target, err := filepath.EvalSymlinks(h.root + path)
	if err != nil {
		return ""
	}
	byID := filepath.Join(h.dev, "disk", "by-id")
	for _, link := range h.names(byID) {
		to, err := filepath.EvalSymlinks(filepath.Join(byID, link))
		switch {
		case err != nil || to != target:
		case wwid != "" && strings.HasSuffix(link, "-"+wwid):
			return link
		case found == "":
			found = link
		}
	}
	return found
}

// queueing advises against a multipath device that never reports that all paths are lost, and reports if that cannot be
// found out.
func (h host) queueing(dir string, number uint64) Advice {
	name := attribute(dir, "dm", "name")
	table, err := h.table(number)
	if err != nil { // an agent without CAP_SYS_ADMIN; silence would be read as "it does not queue"
		return Advice{fmt.Sprintf("whether /dev/mapper/%s queues I/O when all paths are lost could not be checked (%v)", name, err),
			"run fencectl lun check on it as root, or look for queue_if_no_path in: dmsetup table " + name}
	}
	if !slices.Contains(multipathFeatures(table), "queue_if_no_path") {
		return Advice{}
	}
	return Advice{fmt.Sprintf("/dev/mapper/%s queues I/O when all paths are lost (queue_if_no_path)", name),
		fmt.Sprintf("set no_path_retry fail for it in multipath.conf and run multipathd reconfigure; until then: dmsetup message %s 0 fail_if_no_path", name)}
}

// multipathFeatures returns the features in the parameters of a multipath target: their number comes first.
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

// wwid returns the identity that the storage gives a device, or "". A LUN has the same one with and without multipath,
// which may take over the device at any time. A partition has that of its disk and its number, so that a clone of the
// disk is another one.
func (h host) wwid(number uint64) string { return identity(h.blockDir(number)) }

// partitionOfMap begins the identity of a partition that kpartx has made of a multipath device.
var partitionOfMap = regexp.MustCompile(`^part([0-9]+)-(` + multipathUUID + `.*)$`)

// identity returns the wwid of the device that sysfs has in dir.
func identity(dir string) string {
	if number := attribute(dir, "partition"); number != "" {
		real, err := filepath.EvalSymlinks(dir)
		if err != nil {
			return ""
		}
		return partOf(identity(filepath.Dir(real)), number)
	}
	id := attribute(dir, "dm", "uuid")
	if m := partitionOfMap.FindStringSubmatch(id); m != nil {
		return partOf(identityOfMap(m[2]), m[1])
	}
	if id != "" {
		return identityOfMap(id)
	}
	for _, parts := range [][]string{{"device", "wwid"}, {"wwid"}} {
		if id := attribute(append([]string{dir}, parts...)...); id != "" {
			return id
		}
	}
	return ""
}

func partOf(disk, number string) string {
	if disk == "" {
		return ""
	}
	return disk + "-part" + number
}

// identityOfMap returns the kernel's name of the LUN whose paths a device mapper device of this name joins; of another
// device, such as a logical volume, it is that name.
func identityOfMap(id string) string {
	lun, multipath := strings.CutPrefix(id, multipathUUID)
	naa, isNAA := strings.CutPrefix(lun, "3") // the type of the SCSI identifier
	eui, isEUI := strings.CutPrefix(lun, "2")
	switch {
	case !multipath:
		return id
	case isNAA:
		return "naa." + naa
	case isEUI:
		return "eui." + eui
	case strings.HasPrefix(lun, "eui."), strings.HasPrefix(lun, "uuid."), strings.HasPrefix(lun, "nvme."):
		return lun // of an NVMe namespace
	}
	return "" // other types are written in several ways
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
func deviceMapperTable(path string, number uint64) (string, error) {
	control, err := os.OpenFile(path, os.O_RDWR, 0)
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
		return "", errors.New("table of the device: it is too long")
	}
	return targetParams(buf[head:], int(io.Target_count)), nil
}

// targetParams reads the part of the kernel's answer behind the head. For each target it has a description with a
// string behind it. Next is the offset of the next description, counted from the first one.
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
