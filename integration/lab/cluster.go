package lab

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
)

// Cluster is a number of agents that can be started, killed, cut apart and asked: what
// a scenario needs, and nothing of how it is done. Methods may be called from any
// goroutine. Agents are not running until they are started.
type Cluster interface {
	Nodes() []string
	Networks() []string // the SystemNetworks, in the order of the configuration

	// Start begins the node's agent and returns before it is ready.
	Start(node string) error
	// Kill ends the agent at once, as a crash or a reset does: nothing is said to anybody.
	Kill(node string) error
	// Exited is nil while the agent runs or was never started, else it says how it
	// ended, with the last lines that it logged.
	Exited(node string) error

	// CutNetworks splits the networks into the groups; nodes in no group form one more.
	// It replaces earlier cuts of these networks and leaves the others as they are.
	CutNetworks(networks []string, groups ...[]string) error
	// Heal ends all cuts.
	Heal() error
	// Dropped counts the packets that cuts have swallowed so far.
	Dropped() (uint64, error)

	// Status is a new client connection to the agent's socket, also before the agent is
	// there; it reconnects by itself. The caller closes it.
	Status(node string) (*grpc.ClientConn, error)
	SocketPath(node string) string

	// Describe says in one line what is real about the cluster.
	Describe() string
	// Hints are commands, each with a comment, by which a person can look into the node.
	Hints(node string) []string
	// Close stops everything. It may be called twice.
	Close() error
}

// DialSocket is a client connection to an agent's socket which tries again twice a
// second while nobody listens there.
func DialSocket(path string) (*grpc.ClientConn, error) {
	return grpc.NewClient("unix:"+path,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.5, MaxDelay: 500 * time.Millisecond},
			MinConnectTimeout: time.Second,
		}))
}
