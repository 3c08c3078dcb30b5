package publish

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/fencing-agent/fencing-agent/procfs"
)

const (
	// maxPathBytes is the length of sockaddr_un's path without the final zero.
	maxPathBytes = 107
	// privateMode is the mode of a new socket until its group is set.
	privateMode = 0o600

	probeTimeout = time.Second     // for a server at the path to accept a connection
	lockTimeout  = 5 * time.Second // for another agent that starts with the same folder
	lockInterval = 10 * time.Millisecond
)

// Listen creates a Unix socket at path. Its permissions are mode, and at no moment more than that; its group is group
// (a name or a number; empty: the process's group).
//
// Listen replaces a socket that a dead process left behind. It also replaces an empty folder, which a consumer's
// hostPath leaves if its pod starts before the agent. If a process answers on the socket, or there is anything else,
// Listen leaves it alone and returns an error; it is a [*RefusedError] if waiting cannot help. The folder must exist.
// Close removes the socket unless another one has replaced it.
func Listen(path string, mode os.FileMode, group string) (net.Listener, error) {
	l, err := listen(path, mode, group)
	if err != nil {
		return nil, fmt.Errorf("API socket %s: %w", path, err)
	}
	return l, nil
}

// RefusedError means that waiting cannot make the socket available: its path cannot be a socket, or another process,
// such as another agent of this node, serves it.
type RefusedError struct {
	error
	PID int // of the process that serves it; 0: there is none, or it is not visible
}

func (e *RefusedError) Unwrap() error { return e.error }

// Look returns what would keep Listen from creating a socket, as far as that is visible without changing anything.
func Look(path, group string) error {
	err := check(path, 0)
	if err == nil {
		_, err = groupID(group)
	}
	if err == nil {
		_, err = os.Stat(filepath.Dir(path))
		err = folderError(filepath.Dir(path), err)
	}
	if err == nil && errors.Is(syscall.Access(filepath.Dir(path), writes), syscall.EROFS) { // otherwise the answer depends on the user
		err = readOnly(filepath.Dir(path), syscall.EROFS)
	}
	if err == nil {
		_, err = obstacle(path)
	}
	if err != nil {
		return fmt.Errorf("API socket %s: %w", path, err)
	}
	return nil
}

// folderError adds what to do if the socket's folder does not exist.
func folderError(folder string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("folder %s does not exist: create it (mkdir -p %s) or change api.socket", folder, folder)
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%s is not a folder, or is not in one: move away what is in its place, or change api.socket", folder)
	}
	return err
}

// writes asks access(2) whether a folder can be written to.
const writes = 2

func readOnly(folder string, err error) error {
	return fmt.Errorf("cannot create a socket in folder %s: %w; make it writable for the agent, or change api.socket", folder, err)
}

// check refuses what cannot be a socket.
func check(path string, mode os.FileMode) error {
	switch {
	case !filepath.IsAbs(path): // this includes the abstract namespace, which has no permissions
		return &RefusedError{error: errors.New("the path must be absolute: correct api.socket")}
	case len(path) > maxPathBytes:
		return &RefusedError{error: fmt.Errorf("the path has %d bytes, but must have at most %d: choose a shorter api.socket", len(path), maxPathBytes)}
	case mode&^fs.ModePerm != 0:
		return &RefusedError{error: fmt.Errorf("mode %#o is not valid: only permission bits are allowed", mode)}
	}
	return nil
}

func listen(path string, mode os.FileMode, group string) (*listener, error) {
	if err := check(path, mode); err != nil {
		return nil, err
	}
	gid, err := groupID(group)
	if err != nil {
		return nil, err
	}
	unlock, err := lockFolder(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := removeStale(path); err != nil {
		return nil, err
	}
	l, err := bind(path)
	if errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission) {
		err = readOnly(filepath.Dir(path), err)
	}
	if err != nil {
		return nil, err
	}
	if err := l.open(mode, gid); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// groupID finds the group; -1 means the process's group.
func groupID(group string) (int, error) {
	if group == "" {
		return -1, nil
	}
	if gid, err := strconv.ParseUint(group, 10, 31); err == nil {
		return int(gid), nil
	}
	g, err := user.LookupGroup(group)
	if err != nil {
		return 0, fmt.Errorf("group %q does not exist here: create it or correct api.socketGroup (a number works too): %w", group, err)
	}
	return strconv.Atoi(g.Gid)
}

// lockFolder keeps two agents that start at the same time from replacing each other's new socket as a stale one. It
// locks the folder itself, so that no file is left behind.
func lockFolder(folder string) (unlock func(), err error) {
	f, err := os.Open(folder)
	if err != nil {
		return nil, folderError(folder, err)
	}
	for deadline := time.Now().Add(lockTimeout); ; <-time.After(lockInterval) {
		switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
		case err == nil:
			return func() { _ = f.Close() }, nil
		case errors.Is(err, syscall.EWOULDBLOCK) && time.Now().Before(deadline), errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			_ = f.Close()
			return nil, fmt.Errorf("another process has held a lock on folder %s for %v: see which with `lslocks`", folder, lockTimeout)
		default:
			_ = f.Close()
			return nil, fmt.Errorf("lock folder %s: %w", folder, err)
		}
	}
}

// stale is the kind of object at a path that a socket may replace.
type stale uint8

const (
	nothing     stale = iota
	deadSocket        // of a process that has ended
	emptyFolder       // of the hostPath of a consumer that started first
)

// obstacle looks for an object at path, and returns why a socket cannot replace it.
func obstacle(path string) (stale, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nothing, nil
	case err != nil:
		return nothing, folderError(filepath.Dir(path), err)
	case info.IsDir():
		if entries, err := os.ReadDir(path); err != nil || len(entries) > 0 {
			return nothing, errors.Join(errors.New("there is a folder with something in it: move it away or change api.socket"), err)
		}
		return emptyFolder, nil
	case info.Mode().Type() != fs.ModeSocket:
		return nothing, fmt.Errorf("there is something other than a socket (%v): move it away or change api.socket", info.Mode())
	}
	conn, err := net.DialTimeout("unix", path, probeTimeout)
	if err == nil {
		who := processOf(conn)
		_ = conn.Close()
		if procfs.Killed("/proc", int(who.pid)) {
			return nothing, &RefusedError{fmt.Errorf("it is held by %v, which was killed and cannot exit: one of its threads hangs in the kernel (see /proc/%d/task/*/stack), most likely in an I/O to the LUN; "+
				"until the storage answers or gives up, that process keeps this socket, its ports, the watchdog and the lock of the slot; if the watchdog's timeout ends first, the node is reset",
				who, who.pid), int(who.pid)}
		}
		return nothing, &RefusedError{fmt.Errorf("%v is serving it: stop that process first, or change api.socket", who), int(who.pid)}
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		// For example EAGAIN: its backlog is full, but a process owns it.
		return nothing, &RefusedError{error: fmt.Errorf("a socket is there already, and nothing shows whether it is in use: %w", err)}
	}
	return deadSocket, nil
}

// removeStale makes room at path if the object there is not in use.
func removeStale(path string) error {
	what, err := obstacle(path)
	switch {
	case err != nil || what == nothing:
		return err
	case what == deadSocket:
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("remove the socket of an earlier run: %w", err)
		}
		return nil
	}
	if err := syscall.Rmdir(path); err != nil && !errors.Is(err, syscall.ENOENT) { // this can only remove an empty folder
		return fmt.Errorf("there is an empty folder, which cannot be removed: %w; remove it, or change api.socket", err)
	}
	return nil
}

// listener removes its socket on Close if the path still has that socket.
type listener struct {
	*net.UnixListener
	path  string
	inode os.FileInfo
	close func() error
}

// bind creates a socket that only its owner can access. Linux creates the inode with the mode of the descriptor less
// the umask, so the socket has no other mode even for a moment. The umask belongs to the whole process and is not
// changed.
func bind(path string) (*listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var chmod error
		if err := raw.Control(func(fd uintptr) { chmod = syscall.Fchmod(int(fd), privateMode) }); err != nil {
			return err
		}
		return chmod
	}}
	ln, err := config.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	l := &listener{UnixListener: ln.(*net.UnixListener), path: path}
	l.SetUnlinkOnClose(false)
	l.close = sync.OnceValue(l.unlinkAndClose)
	if l.inode, err = os.Lstat(path); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// open gives other users access: the group first, because mode may be meant for that group only.
func (l *listener) open(mode os.FileMode, gid int) error {
	if gid >= 0 {
		if err := os.Lchown(l.path, -1, gid); err != nil {
			return fmt.Errorf("give the socket to group %d (only a member of the group or a holder of CAP_CHOWN can): %w", gid, err)
		}
	}
	return os.Chmod(l.path, mode)
}

// Close stops listening. A second call returns the result of the first.
func (l *listener) Close() error { return l.close() }

// unlinkAndClose looks at the inode before it closes the descriptor: as long as that is open, its inode number is not
// used again.
func (l *listener) unlinkAndClose() error {
	var unlink error
	if now, err := os.Lstat(l.path); err == nil && l.inode != nil && os.SameFile(now, l.inode) {
		unlink = os.Remove(l.path)
	}
	return errors.Join(unlink, l.UnixListener.Close())
}
