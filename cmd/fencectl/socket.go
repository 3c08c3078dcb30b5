package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/fencing-agent/fencing-agent/api/client"
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/api/view"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
)

// envSocket replaces the default path of the agent's socket.
const envSocket = "FENCING_AGENT_SOCKET"

const (
	// maxSocketBytes is the length of sockaddr_un's path without the final zero.
	maxSocketBytes = 107
	// pingInterval and pingTimeout detect an agent that was frozen or stopped by a signal, whose socket stays open. The
	// agent allows a ping every five seconds.
	pingInterval = 10 * time.Second
	pingTimeout  = 5 * time.Second
)

// agentFlags are the flags of the verbs that ask the agent.
type agentFlags struct {
	socket  string
	timeout time.Duration
}

// answerPatience is how long an agent may take to answer, unless --timeout sets another time.
const answerPatience = 5 * time.Second

func newAgentFlags(cmd *cobra.Command) *agentFlags {
	f := newSocketFlag(cmd)
	cmd.Flags().DurationVar(&f.timeout, "timeout", answerPatience, "how long to wait for the agent's answer")
	return f
}

// newSocketFlag is for verbs whose --timeout means something else.
func newSocketFlag(cmd *cobra.Command) *agentFlags {
	f := &agentFlags{timeout: answerPatience}
	cmd.Flags().StringVar(&f.socket, "socket", "", "`path` of the agent's socket (default $"+envSocket+", else where an agent of a package or a DaemonSet listens)")
	_ = cmd.MarkFlagFilename("socket") // fails for unknown flags only
	return f
}

// path is the path of the agent's socket.
func (f *agentFlags) path(env *environment) string {
	return cmp.Or(f.socket, env.getenv(envSocket), client.FindSocket())
}

// dial prepares a connection to the agent; nothing is sent yet. The caller closes it.
func (f *agentFlags) dial(env *environment) (*agentConn, error) {
	path := f.path(env)
	switch {
	case len(path) > maxSocketBytes:
		return nil, usagef("the socket's path has %d bytes, but must have at most %d: %s", len(path), maxSocketBytes, path)
	case f.timeout <= 0:
		return nil, usagef("invalid argument %v for \"--timeout\" flag: it must be more than 0", f.timeout)
	}
	if filepath.Base(env.name) == pluginName && f.socket == "" && !exists(path) { // a laptop has no agent
		return nil, fmt.Errorf("there is no agent on this machine: run this beside the agent of a node that runs, by kubectl exec --namespace NAMESPACE POD -- fencectl ...; "+
			"kubectl get pods --all-namespaces -l %s -o wide lists these pods", agentSelector)
	}
	a := &agentConn{path: path, patience: f.timeout}
	conn, err := grpc.NewClient("passthrough:///agent",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(a.connect),
		grpc.WithAuthority("localhost"),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingInterval, Timeout: pingTimeout}),
	)
	if err != nil {
		return nil, fmt.Errorf("agent socket %s: %w", path, err)
	}
	a.ClientConn = conn
	return a, nil
}

// agentConn is a connection to one agent.
type agentConn struct {
	*grpc.ClientConn
	path     string
	patience time.Duration
	refused  atomic.Pointer[error] // why the last attempt to connect failed
	spoke    atomic.Bool           // the answer began like that of a gRPC server
}

// connect keeps the error for explain: grpc, which calls connect, would obscure it.
func (a *agentConn) connect(ctx context.Context, _ string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", a.path)
	if err != nil {
		a.refused.Store(&err)
		return nil, err
	}
	a.refused.Store(nil)
	return &attentive{Conn: conn, spoke: &a.spoke}, nil
}

// attentive looks at the first bytes of an answer: a gRPC server begins with a SETTINGS frame of HTTP/2. grpc's errors
// do not show what answered instead.
type attentive struct {
	net.Conn
	spoke *atomic.Bool
	began bool // used by the goroutine that reads
}

func (l *attentive) Read(p []byte) (int, error) {
	const frameType, settings = 3, 4
	n, err := l.Conn.Read(p)
	if !l.began && n > frameType {
		l.began = true
		if p[frameType] == settings {
			l.spoke.Store(true)
		}
	}
	return n, err
}

// errNoAnswer is the cause of a call that was given up.
var errNoAnswer = errors.New("no answer in time")

// impatient returns a context that ends with errNoAnswer unless answered is called within
// the connection's patience. Both functions may be called more than once.
func (a *agentConn) impatient(ctx context.Context) (_ context.Context, answered func(), cancel func()) {
	ctx, end := context.WithCancelCause(ctx)
	timer := time.AfterFunc(a.patience, func() { end(errNoAnswer) })
	return ctx, func() { timer.Stop() }, func() {
		timer.Stop()
		end(nil)
	}
}

// command asks the agent to do something. If the agent refuses, or cannot do it now, the error is refused and its
// message.
func (f *agentFlags) command(ctx context.Context, env *environment, refused string, call func(context.Context, fencingv1.FencingControlClient) error) error {
	conn, err := f.dial(env)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, _, cancel := conn.impatient(ctx)
	defer cancel()
	err = call(ctx, fencingv1.NewFencingControlClient(conn))
	switch text := view.Clean(status.Convert(err).Message()); status.Code(err) {
	case codes.OK:
		return nil
	case codes.FailedPrecondition:
		return errors.New(refused + text)
	case codes.PermissionDenied, codes.InvalidArgument:
		return errors.New(text)
	}
	return conn.explain(ctx, err)
}

// by is the person who gives a command, unless the command line names one.
func (e *environment) by(said string) string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return cmp.Or(said, e.getenv("SUDO_USER"), name)
}

// memberOf is a member of the agent's group.
func memberOf(st *fencingv1.Status, node string) (*fencingv1.NodeStatus, error) {
	var names []string
	for _, n := range st.GetNodes() {
		if n.GetName() == node {
			return n, nil
		}
		names = append(names, n.GetName())
	}
	return nil, noMember(node, names)
}

func noMember(node string, members []string) error {
	return fmt.Errorf("%q is not a member of this group: the members are %s", view.Clean(node), view.Clean(strings.Join(members, ", ")))
}

// agentError is a failed call with an explanation.
type agentError struct {
	error
	// unreachable: no agent could be reached. passing: the call may succeed later.
	unreachable, passing bool
}

func (e *agentError) Unwrap() error { return e.error }

// explain describes in one line what is wrong and what to do. ctx is the context of the call.
func (a *agentConn) explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if refused := a.refused.Load(); refused != nil && status.Code(err) == codes.Unavailable {
		return &agentError{fmt.Errorf("agent socket %s: %w", a.path, explainConnect(a.path, *refused)), true, true}
	}
	failed := func(format string, args ...any) error {
		return fmt.Errorf("agent at %s: "+format, append([]any{a.path}, args...)...)
	}
	text := view.Clean(status.Convert(err).Message())
	switch {
	case errors.Is(err, io.EOF):
		return &agentError{failed("the agent ended the stream"), false, true}
	case errors.Is(context.Cause(ctx), errNoAnswer):
		return &agentError{failed("no answer within %v: its process may be stopped or overloaded, see its log and state", a.patience), true, true}
	case status.Code(err) == codes.Unavailable && !a.spoke.Load():
		return &agentError{failed("the connection broke before any gRPC was spoken (%s): is that another program's socket, or is the agent stopping?", text), true, true}
	case status.Code(err) == codes.Unimplemented:
		return &agentError{failed("the server does not know this call (%s): is that another program's socket, or an older agent?", text), false, false}
	case status.Code(err) == codes.Unavailable, status.Code(err) == codes.ResourceExhausted, status.Code(err) == codes.Internal:
		return &agentError{failed("%s", text), false, true}
	case ctx.Err() != nil:
		return &agentError{failed("interrupted: %w", context.Cause(ctx)), false, false}
	default:
		return &agentError{failed("%v: %s", status.Code(err), text), false, false}
	}
}

// explainConnect describes what to do about an error of connect(2).
func explainConnect(path string, err error) error {
	info, statErr := os.Stat(path)
	if errors.Is(err, syscall.ENOTDIR) { // there is a file instead of a folder
		err = fs.ErrNotExist
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) && runtime.GOOS != "linux":
		return errors.New("it does not exist: agents run on Linux nodes only. Run this there, or forward the socket of one " +
			"(ssh -L ./agent.sock:" + config.Default().API.Socket + " NODE) and say --socket ./agent.sock")
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("it does not exist: is the agent running on this node? " +
			"If its api.socket is another path, say so with --socket or $" + envSocket)
	case errors.Is(err, fs.ErrPermission) && statErr != nil:
		return errors.New("permission denied: run this as root, or as a user who may enter the socket's folder")
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("permission denied: run this as root, or as a member of %s (the socket's mode is %04o; see api.socketGroup)",
			groupOf(info), info.Mode().Perm())
	case statErr == nil && info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("it is not a socket (%v): correct --socket or $%s", info.Mode(), envSocket)
	case errors.Is(err, syscall.ECONNREFUSED):
		return errors.New("nobody listens there: the agent has stopped or died; start it and see its log")
	default:
		return err
	}
}
