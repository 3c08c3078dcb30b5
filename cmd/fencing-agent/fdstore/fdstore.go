package fdstore

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// name is the descriptor's name in the store, for people and for the next process.
const name = "watchdog"

const firstPassed = 3 // SD_LISTEN_FDS_START

// Store is systemd's store of descriptors for this unit.
type Store struct {
	socket    string // where systemd listens; a leading @ means the abstract name space
	inherited int    // left by an earlier process; -1: nothing
}

// Environment is the part of package os that contains what systemd passed to a process.
type Environment struct {
	PID      int
	Getenv   func(string) string
	Unsetenv func(string) error
}

// Take reads what systemd passed to this process. Call it once, before the process opens anything or starts another
// process: it removes the variables, and makes sure that no child inherits the descriptors. nil means that there is no
// store.
func Take(e Environment) *Store { return take(e, unix.CloseOnExec) }

func take(e Environment, closeOnExec func(fd int)) *Store {
	socket := e.Getenv("NOTIFY_SOCKET")
	names := passed(e)
	for _, variable := range []string{"NOTIFY_SOCKET", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		_ = e.Unsetenv(variable) // fails for names that cannot exist
	}
	s := &Store{socket: socket, inherited: -1}
	for i, n := range names {
		closeOnExec(firstPassed + i)
		if n == name && s.inherited < 0 {
			s.inherited = firstPassed + i
		}
	}
	if !strings.HasPrefix(socket, "/") && !strings.HasPrefix(socket, "@") {
		if s.inherited < 0 {
			return nil
		}
		s.socket = ""
	}
	return s
}

// passed returns the names of the descriptors that were passed to this process. It ignores descriptors for another
// process whose environment this one inherited.
func passed(e Environment) []string {
	if pid, err := strconv.Atoi(e.Getenv("LISTEN_PID")); err != nil || pid != e.PID {
		return nil
	}
	n, err := strconv.Atoi(e.Getenv("LISTEN_FDS"))
	if err != nil || n < 1 || n > 1024 {
		return nil
	}
	names := strings.Split(e.Getenv("LISTEN_FDNAMES"), ":")
	for len(names) < n {
		names = append(names, "")
	}
	return names[:n]
}

// Inherited is the descriptor that an earlier process left. The caller owns it; -1: there is none.
func (s *Store) Inherited() int { return s.inherited }

// Keep leaves a copy of a descriptor with systemd. No error means that systemd got the message, not that it keeps the
// descriptor. FDPOLL=0 keeps it from dropping a descriptor that reports an error.
func (s *Store) Keep(fd int) error {
	return s.notify("FDSTORE=1\nFDNAME="+name+"\nFDPOLL=0", unix.UnixRights(fd))
}

// Drop asks systemd to close its copy.
func (s *Store) Drop() error { return s.notify("FDSTOREREMOVE=1\nFDNAME="+name, nil) }

func (s *Store) notify(text string, rights []byte) error {
	if s.socket == "" {
		return fmt.Errorf("cannot tell systemd: NOTIFY_SOCKET is not set")
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("tell systemd: %w", err)
	}
	defer func() { _ = unix.Close(fd) }() // nothing is queued in it
	// x/sys takes a leading @ for the abstract name space.
	if err := unix.Sendmsg(fd, []byte(text), rights, &unix.SockaddrUnix{Name: s.socket}, unix.MSG_NOSIGNAL); err != nil {
		return fmt.Errorf("tell systemd by %s: %w", s.socket, err)
	}
	return nil
}
