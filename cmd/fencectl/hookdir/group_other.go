//go:build !unix

package hookdir

import (
	"io/fs"
	"os/exec"
)

// group: there are none.
func group(cmd *exec.Cmd) func() {
	cmd.WaitDelay = grace
	return func() {}
}

// changeable: the permissions of this system are not known here.
func changeable(fs.FileInfo) string { return "" }
