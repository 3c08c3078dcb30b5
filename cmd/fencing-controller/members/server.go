package members

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/k8s/deaths"
	"github.com/fencing-agent/fencing-agent/k8s/memberbook"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

const (
	heartbeat   = 10 * time.Second
	firstReport = 10 * time.Second
	maxReport   = 64 << 10
	maxNetworks = 32
	maxKeys     = 32
	maxUID      = 128
	longestKey  = 317 // [DNS name/]name
	// mostReviews limits the tokens that are checked at the same time, and mostStreams the streams of one connection.
	// They limit the load that a caller without an agent's token can cause for the API server and for this program,
	// which also runs the recovery.
	mostReviews = 8
	mostStreams = 4
	// streamAge is how long a stream may last on the token that was checked when it began.
	streamAge = 12 * time.Hour
)

// ErrRefused means that a token does not belong to an agent's pod.
var ErrRefused = errors.New("not an agent")

// Reviewer returns the node on which the pod of a token runs. ErrRefused: the token does not belong to an agent. Any
// other error: the token cannot be checked now.
type Reviewer func(ctx context.Context, token string) (node string, err error)

// Server serves lists.
type Server struct {
	fencingv1.UnimplementedFencingMembersServer
	Hub    *Hub
	Review Reviewer
	Exists func(ctx context.Context, node string) (bool, error) // whether a Node exists now; nil: this is not known
	Logger *slog.Logger
	Told   ToldStore // nil: neither deaths nor sightings are accepted

	mu   sync.Mutex
	told map[string]time.Time // by kind of report and node: when its agent last sent it; guarded by mu

	once    sync.Once
	reviews chan struct{} // capacity mostReviews
}

// Options returns the options for the server: TLS with these files, which are read again for each connection.
func Options(cert, key string, log *slog.Logger) []grpc.ServerOption {
	p := &pair{cert: cert, key: key, log: log}
	p.read() // logs a problem before the first agent connects
	return []grpc.ServerOption{
		grpc.Creds(credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return p.read() }})),
		grpc.MaxRecvMsgSize(maxReport),
		grpc.MaxConcurrentStreams(mostStreams),
		grpc.ConnectionTimeout(firstReport),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: heartbeat, Timeout: heartbeat, MaxConnectionAge: streamAge, MaxConnectionAgeGrace: heartbeat}),
	}
}

func (s *Server) Follow(call grpc.BidiStreamingServer[fencingv1.MembersReport, fencingv1.MembersUpdate]) error {
	node, err := s.caller(call.Context())
	if err != nil {
		return err
	}
	reports, ended := make(chan *fencingv1.MembersReport), make(chan error, 1)
	go func() { // ends with the stream
		for {
			r, err := call.Recv()
			if err != nil {
				ended <- err
				return
			}
			select {
			case reports <- r:
			case <-call.Context().Done():
				return
			}
		}
	}()
	limit := time.NewTimer(firstReport)
	defer limit.Stop()
	select {
	case <-call.Context().Done():
		return status.FromContextError(call.Context().Err()).Err()
	case <-ended:
		return nil
	case <-limit.C:
		return status.Error(codes.InvalidArgument, "no report was received")
	case r := <-reports:
		return s.follow(call, node, r, reports, ended)
	}
}

// caller returns the node whose agent calls.
func (s *Server) caller(ctx context.Context) (string, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	token := ""
	if values := md.Get("authorization"); len(values) == 1 {
		token, _ = strings.CutPrefix(values[0], "Bearer ")
	}
	if token == "" {
		return "", status.Error(codes.Unauthenticated, "no token was received")
	}
	ctx, cancel := context.WithTimeout(ctx, firstReport)
	defer cancel()
	if !s.turn(ctx) {
		return "", status.Error(codes.Unavailable, "too many tokens are waiting to be checked")
	}
	node, err := s.Review(ctx, token)
	<-s.reviews
	switch {
	case errors.Is(err, ErrRefused):
		return "", status.Error(codes.Unauthenticated, err.Error())
	case err != nil:
		s.Logger.Warn("cannot check an agent's token", "err", err)
		return "", status.Error(codes.Unavailable, "the token cannot be checked now")
	case node == "":
		return "", status.Error(codes.Unauthenticated, "the token is bound to no node")
	}
	return node, nil
}

// turn waits until the API server may be asked about a caller. Afterwards the caller must read from reviews.
func (s *Server) turn(ctx context.Context) bool {
	s.once.Do(func() { s.reviews = make(chan struct{}, mostReviews) })
	select {
	case s.reviews <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// settle examines a Node that the agent has known and this replica has not seen: the Node may have been deleted while
// the agent followed no replica, or this replica may be behind. It reports whether the state is known.
func (s *Server) settle(ctx context.Context, st *stream, uid string) bool {
	if s.Hub.view(st).node != nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, firstReport)
	defer cancel()
	if s.Exists == nil || !s.turn(ctx) {
		return false
	}
	there, err := s.Exists(ctx, st.node)
	<-s.reviews
	if err != nil || there {
		return false
	}
	s.Hub.missing(st, uid)
	return true
}

func (s *Server) follow(call grpc.BidiStreamingServer[fencingv1.MembersReport, fencingv1.MembersUpdate], node string, r *fencingv1.MembersReport,
	reports <-chan *fencingv1.MembersReport, ended <-chan error,
) error {
	if err := check(r); err != nil {
		return err
	}
	st, synced, ok := s.Hub.follow(node, r.GetGroup())
	switch {
	case !synced:
		return status.Error(codes.Unavailable, "this replica has not read the Nodes yet")
	case !ok:
		return status.Errorf(codes.PermissionDenied, "node %s is not in group %s: compare the Node's label with nodeGroup", node, r.GetGroup())
	}
	defer s.Hub.leave(st)
	s.Logger.Info("an agent follows the list of members", "node", node, "group", st.group, "have", r.GetHaveEpoch(), "version", r.GetVersion())
	s.Hub.reported(st, r.GetAddresses(), r.GetHaveEpoch())
	t := teller{group: st.group, keys: r.GetAnnotations(), send: call.Send}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	known := r.GetNodeUid() == "" || s.settle(call.Context(), st, r.GetNodeUid())
	if err := t.tell(s.Hub.view(st), true); err != nil {
		return err
	}
	for {
		always := false
		select {
		case <-call.Context().Done():
			return status.FromContextError(call.Context().Err()).Err()
		case <-ended:
			return nil
		case <-st.over:
			return status.Error(codes.Aborted, "another agent of this node now follows the list")
		case r := <-reports:
			if err := check(r); err != nil {
				return err
			}
			if r.GetGroup() != st.group {
				return status.Error(codes.InvalidArgument, "the group of a stream must not change")
			}
			s.Hub.reported(st, r.GetAddresses(), r.GetHaveEpoch())
			t.keys = r.GetAnnotations()
		case <-st.wake:
		case <-beat.C:
			always = true
			known = known || s.settle(call.Context(), st, r.GetNodeUid())
		}
		if err := t.tell(s.Hub.view(st), always); err != nil {
			return err
		}
	}
}

// check refuses invalid reports.
func check(r *fencingv1.MembersReport) error {
	if len(r.GetAddresses()) > maxNetworks || len(r.GetAnnotations()) > maxKeys || len(r.GetNodeUid()) > maxUID {
		return status.Error(codes.InvalidArgument, "the report is too large")
	}
	for network, a := range r.GetAddresses() {
		if network == "" || len(network) > 63 || !memberbook.Address(a) {
			return status.Errorf(codes.InvalidArgument, "network %.63q: %.60q is not an IP address", network, a)
		}
	}
	for _, k := range r.GetAnnotations() {
		if len(k) > longestKey {
			return status.Error(codes.InvalidArgument, "an annotation's key is too long")
		}
	}
	return nil
}

// teller sends the changes.
type teller struct {
	group   string
	keys    []string
	send    func(*fencingv1.MembersUpdate) error
	list    roster.Ref
	node    *fencingv1.OwnNode
	problem string
	found   []deaths.Death
	finds   bool // the agent has received the findings, even if there are none
}

// tell sends the differences from what was sent before. With always it also sends an empty update, and the Node even if
// only its version has changed: the state sent before may have been older than the state that the agent knew, and the
// agent may believe the present one.
func (t *teller) tell(v view, always bool) error {
	u, beat := &fencingv1.MembersUpdate{}, always
	if r := v.list; r != nil && r.Ref() != t.list {
		t.list, always = r.Ref(), true
		u.List = &fencingv1.NumberedList{Group: t.group, Epoch: r.Epoch, Digest: r.Digest}
		for _, m := range r.Members {
			u.List.Members = append(u.List.Members, &fencingv1.ListedMember{Name: m.Name, Addresses: m.Addresses})
		}
	}
	if v.node != nil {
		n := &fencingv1.OwnNode{Version: v.node.Version, Exists: v.node.Exists, Uid: v.node.UID, Deleting: v.node.Deleting, Taints: v.node.Taints, Annotations: map[string]string{}, NotReady: v.node.NotReady}
		for _, k := range t.keys {
			if value, there := v.node.Annotations[k]; there {
				n.Annotations[k] = value
			}
		}
		if !sameNode(n, t.node) || beat && n.GetVersion() != t.node.GetVersion() {
			t.node, always, u.Node = n, true, n
		}
	}
	// Invariant: an agent that connects is also told that nothing was found: another replica may have sent it something
	// else. A replica that has not read the findings yet sends nothing about them.
	if v.finds && (!t.finds || !slices.Equal(v.found, t.found)) {
		t.found, t.finds, always, u.Found = v.found, true, true, deaths.Found(v.found)
	}
	if v.problem != t.problem {
		t.problem, always = v.problem, true
	}
	u.Problem = t.problem
	if !always {
		return nil
	}
	return t.send(u)
}

func sameNode(a, b *fencingv1.OwnNode) bool {
	return b != nil && a.GetExists() == b.GetExists() && a.GetUid() == b.GetUid() && a.GetDeleting() == b.GetDeleting() && a.GetNotReady() == b.GetNotReady() &&
		slices.Equal(a.GetTaints(), b.GetTaints()) && maps.Equal(a.GetAnnotations(), b.GetAnnotations())
}
