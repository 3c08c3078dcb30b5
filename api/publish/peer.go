package publish

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strconv"
	"syscall"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// process is the other end of a Unix socket. If pid is zero, the process is unknown, for example because it is in
// another PID namespace.
type process struct {
	credentials.CommonAuthInfo
	known bool // the kernel has identified it
	here  bool // it is in this PID namespace
	pid   int32
	uid   uint32
}

func (process) AuthType() string { return "SO_PEERCRED" }

// String names the process in an error message.
func (p process) String() string {
	if p.pid == 0 {
		return "another process"
	}
	return "process " + strconv.Itoa(int(p.pid))
}

// processOf asks the kernel which process connected c, or to which process c is connected.
func processOf(c net.Conn) process {
	p := process{CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}
	unixConn, ok := c.(*net.UnixConn)
	if !ok {
		return p
	}
	raw, err := unixConn.SyscallConn()
	if err != nil {
		return p
	}
	_ = raw.Control(func(fd uintptr) {
		if cred, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
			p.known, p.pid, p.uid, p.here = true, cred.Pid, cred.Uid, isHere(fd, cred.Pid)
		}
	})
	return p
}

// peerCredentials records which process connected, for the log. Nothing is sent for that: clients connect without
// credentials, and the socket's permissions decide which processes may.
type peerCredentials struct{}

func (peerCredentials) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return c, processOf(c), nil
}

func (peerCredentials) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("only the server has peer credentials")
}

func (peerCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "unix"}
}

func (p peerCredentials) Clone() credentials.TransportCredentials { return p }

func (peerCredentials) OverrideServerName(string) error { return nil }

// peerOf returns the client of a call as a log attribute.
func peerOf(ctx context.Context) slog.Attr {
	if p, ok := peer.FromContext(ctx); ok {
		if who, ok := p.AuthInfo.(process); ok {
			return slog.Group("client", "pid", who.pid, "uid", who.uid)
		}
	}
	return slog.Group("client")
}
