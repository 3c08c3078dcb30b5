package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/integration/vms/control"
)

// commandTimeout is longer than docs/operations.md advises, and so are the times in the initiator's configuration.
const commandTimeout = "10"

// login attaches the LUN and returns when it is there, however long the target is away.
func login(i *control.Initiator) error {
	if err := os.WriteFile("/etc/iscsi/initiatorname.iscsi", []byte("InitiatorName="+i.Name+"\n"), 0o644); err != nil {
		return err
	}
	daemon := exec.Command("iscsid") // it forks, and its child keeps its output open
	daemon.Stdout, daemon.Stderr = os.Stdout, os.Stderr
	if err := daemon.Run(); err != nil {
		return fmt.Errorf("iscsid: %w", err)
	}
	for {
		out, err := exec.Command("iscsiadm", "-m", "node", "-o", "new", "-T", i.Target, "-p", i.Portal).CombinedOutput()
		if err == nil {
			break
		}
		fmt.Printf("guest: iscsiadm: %v: %s\n", err, out)
		time.Sleep(time.Second)
	}
	for {
		out, err := exec.Command("iscsiadm", "-m", "node", "-T", i.Target, "-p", i.Portal, "--login").CombinedOutput()
		if err == nil || strings.Contains(string(out), "already present") {
			break
		}
		fmt.Printf("guest: iscsiadm: %v: %s\n", err, out)
		time.Sleep(time.Second)
	}
	for {
		disks, err := filepath.Glob("/sys/block/sd*/device/timeout")
		if err != nil {
			return err
		}
		if len(disks) > 0 {
			return os.WriteFile(disks[0], []byte(commandTimeout), 0)
		}
		time.Sleep(poll)
	}
}

// offer sets up the kernel's target: one LUN, only for the named initiators.
func offer(t *control.Target) error {
	const root = "/sys/kernel/config"
	if err := unix.Mount("configfs", root, "configfs", 0, ""); err != nil {
		return fmt.Errorf("mount %s: %w", root, err)
	}
	core := root + "/target/core/iblock_0/lun"
	group := root + "/target/iscsi/" + t.Name + "/tpgt_1"
	c := &configfs{}
	c.mkdir(core)
	c.write(core+"/control", "udev_path="+t.Device)
	c.write(core+"/enable", "1")
	c.write(core+"/wwn/vpd_unit_serial", t.Serial)
	c.mkdir(group + "/lun/lun_0")
	c.link(core, group+"/lun/lun_0/backstore")
	c.mkdir(group + "/np/" + t.Portal)
	c.write(group+"/attrib/authentication", "0")
	for _, initiator := range t.Initiators {
		acl := group + "/acls/" + initiator
		c.mkdir(acl + "/lun_0")
		c.link(group+"/lun/lun_0", acl+"/lun_0/lun")
	}
	c.write(group+"/enable", "1")
	return c.err
}

// configfs stops at the first error and keeps it.
type configfs struct{ err error }

func (c *configfs) note(err error) {
	if c.err == nil && err != nil {
		c.err = fmt.Errorf("target: %w", err)
	}
}

func (c *configfs) mkdir(path string) {
	if c.err == nil {
		c.note(os.MkdirAll(path, 0o755))
	}
}

func (c *configfs) write(path, text string) {
	if c.err == nil {
		c.note(os.WriteFile(path, []byte(text), 0))
	}
}

func (c *configfs) link(from, to string) {
	if c.err == nil {
		c.note(os.Symlink(from, to))
	}
}
