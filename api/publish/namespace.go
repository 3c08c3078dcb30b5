package publish

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// RootHere is like RootOnly, but only accepts callers in the agent's PID namespace. That is the machine's namespace if
// the agent is installed by a package, and the pod's if it runs in a pod. Root in another container that has the
// socket's folder is refused: that container got the socket only to read from it.
//
// Invariant: a caller is refused unless it is certainly in the agent's PID namespace.
func RootHere(ctx context.Context) error {
	if err := RootOnly(ctx); err != nil {
		return err
	}
	p, _ := peer.FromContext(ctx) // RootOnly has found it
	if who, ok := p.AuthInfo.(process); !ok || !who.here {
		return status.Error(codes.PermissionDenied, "the caller is root in a container other than the agent's: run the command on the agent's machine, or in the agent's pod (kubectl exec); api.commands: anywhere allows it from everywhere")
	}
	return nil
}

// isHere reports whether a process is in the PID namespace of this one. The kernel recorded the process's number when
// it connected. If the kernel has pidfds of peers, a caller that has ended counts as outside the namespace, since its
// number may belong to another process by now.
func isHere(fd uintptr, pid int32) bool {
	if pid <= 0 { // it is neither in this namespace nor in one below
		return false
	}
	text, err := os.ReadFile("/proc/" + strconv.Itoa(int(pid)) + "/status")
	return err == nil && ownNamespace(text, pid) && stillRuns(fd)
}

// ownNamespace reads from /proc/PID/status whether a process has only one number: a process in a namespace below has a
// second number there.
func ownNamespace(text []byte, pid int32) bool {
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte("NSpid:")); ok {
			return string(bytes.TrimSpace(rest)) == fmt.Sprint(pid)
		}
	}
	return false
}

// stillRuns reports whether the process that connected has not ended. A kernel before 6.5 has no pidfds of peers; then
// only the number counts.
func stillRuns(fd uintptr) bool {
	const peerPidfd = 77 // SO_PEERPIDFD
	pidfd, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, peerPidfd)
	if err != nil {
		return untold(err)
	}
	defer func() { _ = unix.Close(pidfd) }() // nothing was written
	return unix.PidfdSendSignal(pidfd, 0, nil, 0) == nil
}

// untold reports whether the error is that of a kernel without pidfds of peers. Kernels that have them return EINVAL or
// ESRCH for a process that has ended and was waited for.
func untold(err error) bool { return err == unix.ENOPROTOOPT }
