package lab

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// threadNetNS is the calling thread's network namespace. The path with "thread-self" is also right in pid namespaces,
// where numeric ids may not match the mounted /proc.
const threadNetNS = "/proc/thread-self/ns/net"

// namespace is an anonymous network namespace with one thread that stays in it.
type namespace struct {
	fd   *os.File
	jobs chan func() // these run on the resident thread; closed by close

	closeOnce sync.Once
	gone      chan struct{} // closed when the resident thread has ended
}

// newNamespace creates a namespace. Its resident thread starts by leaving the process's namespace and never goes back,
// so no step back can fail.
func newNamespace() (*namespace, error) {
	ns := &namespace{jobs: make(chan func()), gone: make(chan struct{})}
	created := make(chan error, 1)
	onOwnThread(func() {
		defer close(ns.gone)
		fd, err := enterNew()
		ns.fd = fd
		created <- err
		if err != nil {
			return
		}
		for job := range ns.jobs {
			job()
		}
	})
	if err := <-created; err != nil {
		<-ns.gone
		return nil, err
	}
	return ns, nil
}

func enterNew() (*os.File, error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("create network namespace: %w", err)
	}
	fd, err := os.Open(threadNetNS)
	if err != nil {
		return nil, fmt.Errorf("open network namespace: %w", err)
	}
	return fd, nil
}

// onOwnThread runs f on a new goroutine whose thread ends with it. The main thread cannot end, and /proc/self shows it.
// A goroutine that happens to start on it therefore holds it until another goroutine has got a different thread.
func onOwnThread(f func()) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			f() // it is never unlocked, so the runtime ends the thread
			return
		}
		placed := make(chan struct{})
		onOwnThread(func() {
			close(placed)
			f()
		})
		<-placed
		runtime.UnlockOSThread()
	}()
}

// resident runs job on the thread that lives as long as the namespace. Processes must be forked from this thread,
// because a parent-death signal is tied to the forking thread.
func (ns *namespace) resident(job func()) {
	done := make(chan struct{})
	ns.jobs <- func() {
		defer close(done)
		job()
	}
	<-done
}

// errGoexit is returned when the function has ended its goroutine, for example by t.FailNow.
var errGoexit = errors.New("function ended its goroutine instead of returning")

// do runs f on a separate goroutine inside the namespace. A thread that cannot return to its own namespace is ended and
// not used again.
func (ns *namespace) do(f func() error) error {
	result := make(chan error, 1)
	go func() {
		err := errGoexit
		defer func() { result <- err }()
		runtime.LockOSThread()
		home, openErr := os.Open(threadNetNS)
		if openErr != nil {
			err = fmt.Errorf("open own network namespace: %w", openErr)
			runtime.UnlockOSThread()
			return
		}
		defer home.Close()
		if setErr := unix.Setns(int(ns.fd.Fd()), unix.CLONE_NEWNET); setErr != nil {
			err = fmt.Errorf("enter network namespace: %w", setErr)
			runtime.UnlockOSThread()
			return
		}
		defer func() {
			if unix.Setns(int(home.Fd()), unix.CLONE_NEWNET) == nil {
				runtime.UnlockOSThread()
			}
		}()
		err = f()
	}()
	return <-result
}

// close ends the resident thread, which kills the processes that it forked, and closes the descriptor. The kernel
// removes the namespace with its last user.
func (ns *namespace) close() {
	ns.closeOnce.Do(func() {
		close(ns.jobs)
		<-ns.gone
		ns.fd.Close()
	})
}
