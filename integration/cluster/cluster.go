package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"k8s.io/client-go/kubernetes"

	"github.com/fencing-agent/fencing-agent/integration/cluster/machine"
	"github.com/fencing-agent/fencing-agent/integration/cluster/room"
	"github.com/fencing-agent/fencing-agent/integration/kube/controlplane"
	"github.com/fencing-agent/fencing-agent/integration/lab"
)

// The cluster's addresses are those of deploy/chart/examples/storage-lun.yaml.
const (
	harness     = "10.0.0.100" // API server, router of the pods
	service     = "10.96.0.1"
	apiPort     = 6443
	lunPath     = "/dev/mapper/fence"
	dogPath     = "/dev/watchdog"
	lunSize     = 16 << 20
	sectorSize  = 512
	readyLimit  = 5 * time.Minute
	lookPace    = 100 * time.Millisecond
	clusterName = "prod"
)

// Networks lists the networks of the nodes. The API server is on the first one.
var Networks = []string{"mgmt", "data"}

// Config contains what [Start] needs.
type Config struct {
	Nodes    int
	Programs Programs
	Room     *room.Room
	Kind     machine.Kind
	Manifest string // one of deploy/manifests
	Guarded  bool   // nodes of any kind have volumes, and a watchdog that resets them
	Plugin   bool   // nodes have the image of a device plugin
	Executor bool   // nodes have the image that runs fence agents
	Calm     bool   // Kubernetes notices a silent node as late as with its defaults
	Say      func(format string, args ...any)
}

// Programs contains the paths of programs that were built.
type Programs struct {
	Kubetest, Runtime, Node, Tool string
	Agent, Fencectl, Controller   string // bin/, as in the Dockerfiles
	GuardedAgent                  string // the agent with the simulated watchdog
	CSI, Attacher, Plugin         string
	Preload                       string // for nodes of User-mode Linux
	Executor                      string // archive of the executor's image
	Dockerfile, ControllerFile    string
}

// Cluster is a control plane and nodes.
type Cluster struct {
	Plane  *controlplane.ControlPlane
	Client *kubernetes.Clientset

	config  Config
	dir     string
	network *network
	lun     *lab.LUNFile
	loops   *lab.LoopSet
	tokens  map[string]string
	images  []string
	storage *storage // nil: there is no storage

	mu     sync.Mutex
	nodes  map[string]machine.Machine // those that have power; guarded by mu
	full   map[string]bool            // nodes whose disk is full; guarded by mu
	bare   map[string]bool            // nodes without the image of the agents; guarded by mu
	resets map[string][]time.Time     // by watchdogs, at these times; guarded by mu
	closed bool                       // guarded by mu
}

// Start brings up the control plane and the nodes, and returns when all are Ready.
func Start(ctx context.Context, config Config) (_ *Cluster, err error) {
	if err := config.Kind.Missing(config.Nodes); err != nil {
		return nil, err
	}
	c := &Cluster{config: config, tokens: map[string]string{}, nodes: map[string]machine.Machine{}, resets: map[string][]time.Time{}, full: map[string]bool{}, bare: map[string]bool{}}
	if c.dir, err = os.MkdirTemp(config.Room.Dir, "run-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	for _, name := range c.Names() {
		c.tokens[name] = rand.Text()
	}
	// Kubetest behaves as the kubelet if it is called by that name.
	if err := os.Symlink(config.Programs.Kubetest, c.kubelet()); err != nil {
		return nil, err
	}
	began := time.Now()
	config.Say("starting etcd, the API server, the controller manager and the scheduler")
	if c.network, err = newNetwork(config.Room.Front); err != nil {
		return nil, err
	}
	if err := c.disks(); err != nil {
		return nil, err
	}
	group, inGroup := errgroup.WithContext(ctx)
	group.Go(func() error { return c.startPlane(inGroup) })
	group.Go(func() error { return c.makeImages() })
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if config.Guarded {
		if c.storage, err = c.startStorage(ctx); err != nil {
			return nil, err
		}
	}
	config.Say("control plane ready after %.1f s; booting %d nodes (%s)", time.Since(began).Seconds(), config.Nodes, config.Kind.Name())
	group, inGroup = errgroup.WithContext(ctx)
	for _, name := range c.Names() {
		group.Go(func() error { return c.Boot(inGroup, name) })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if err := c.Await(ctx, "all nodes Ready", readyLimit, NodesReady(c.Names()...)); err != nil {
		return nil, err
	}
	config.Say("%d nodes Ready after %.1f s", config.Nodes, time.Since(began).Seconds())
	return c, nil
}

// disks creates the LUN, with one device of it for each node.
func (c *Cluster) disks() (err error) {
	if c.lun, err = lab.NewLUNFile(c.dir, lunSize); err != nil {
		return err
	}
	if c.config.Kind.OwnKernel() {
		return nil
	}
	c.loops, err = lab.LoopDevices(c.lun.Path, c.config.Nodes, sectorSize)
	return err
}

func (c *Cluster) startPlane(ctx context.Context) error {
	dir := filepath.Join(c.dir, "plane")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	var err error
	c.Plane, err = controlplane.Start(ctx, controlplane.Config{
		Binary: c.config.Programs.Kubetest, Dir: dir,
		Nodes: &controlplane.Nodes{Address: harness, Service: service, Port: apiPort, Tokens: maps.Clone(c.tokens), Calm: c.config.Calm},
	})
	if err != nil {
		return err
	}
	c.Client, err = kubernetes.NewForConfig(c.Plane.Admin())
	return err
}

// Names returns the names of all nodes.
func (c *Cluster) Names() []string {
	var names []string
	for i := range c.config.Nodes {
		names = append(names, nodeName(i))
	}
	return names
}

func (c *Cluster) kubelet() string { return filepath.Join(c.dir, "kubelet") }

func nodeName(i int) string { return fmt.Sprintf("node-%d", i+1) }

func (c *Cluster) index(node string) (int, error) {
	for i := range c.config.Nodes {
		if nodeName(i) == node {
			return i, nil
		}
	}
	return 0, fmt.Errorf("there is no %s", node)
}

// spec returns what the node gets at its boot.
func (c *Cluster) spec(i int) (machine.Spec, error) {
	name := nodeName(i)
	s := machine.Spec{
		Name: name, Dir: filepath.Join(c.dir, name), Gateway: harness,
		Pods: podNetwork(i), Routes: map[string]string{},
		Server: fmt.Sprintf("https://%s:%d", harness, apiPort), CAFile: c.Plane.CAFile(), Token: c.tokens[name],
		Kubelet: c.kubelet(), Runtime: c.config.Programs.Runtime, Tools: filepath.Dir(c.config.Programs.Fencectl), Guest: c.config.Programs.Node,
		Images: c.images, Sandbox: ToolImage, LUNPath: lunPath,
	}
	for n, network := range Networks {
		s.Ports = append(s.Ports, machine.Port{Name: network, Address: nodeAddress(n, i) + "/24", Hardware: hardware(n, i)})
	}
	for other := range c.config.Nodes {
		if other != i {
			s.Routes[podNetwork(other)] = nodeAddress(0, other)
		}
	}
	var err error
	if s.LUN, err = c.lunOf(i); err != nil {
		return s, err
	}
	if s.LeaseSeconds = 10; c.config.Calm {
		s.LeaseSeconds = 40
	}
	if c.config.Guarded {
		s.CSI, s.Volumes = c.config.Programs.CSI, c.storage.folder
	}
	if c.simulated() {
		s.Watchdog = dogPath
	}
	return s, nil
}

// lunOf returns the LUN as a node sees it. The kernel of a node would read a device of the host through its own cache,
// and miss what others write. All nodes therefore use the file, and share its cache.
func (c *Cluster) lunOf(i int) (machine.Device, error) {
	if c.config.Kind.OwnKernel() {
		return machine.Device{Path: c.lun.Path}, nil
	}
	var stat unix.Stat_t
	if err := unix.Stat(c.loops.Paths[i], &stat); err != nil {
		return machine.Device{}, err
	}
	return machine.Device{Path: c.loops.Paths[i], Major: unix.Major(stat.Rdev), Minor: unix.Minor(stat.Rdev)}, nil
}

// simulated reports whether the nodes have watchdogs that do not belong to a kernel.
func (c *Cluster) simulated() bool { return c.config.Guarded && !c.config.Kind.OwnKernel() }

// watchdog returns the path of the nodes' watchdog; "": they have none.
func (c *Cluster) watchdog() string {
	switch {
	case !c.config.Guarded:
		return ""
	case c.simulated():
		return dogPath
	}
	return machine.Softdog
}

func nodeAddress(network, node int) string { return fmt.Sprintf("10.%d.0.%d", network, node+1) }

func podNetwork(node int) string { return fmt.Sprintf("10.244.%d.0/24", node+1) }

// Boot gives power to a node.
func (c *Cluster) Boot(ctx context.Context, name string) error {
	i, err := c.index(name)
	if err != nil {
		return err
	}
	s, err := c.spec(i)
	if err != nil {
		return err
	}
	c.mu.Lock()
	running := c.nodes[name] != nil
	c.mu.Unlock()
	if running {
		return fmt.Errorf("%s has power", name)
	}
	m, err := c.config.Kind.Boot(ctx, s, ports{c.network, i})
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes[name] = m
	go c.mind(name, m)
	return nil
}

// mind records when a node ends without being asked to, which means that its watchdog fired. The node stays off until
// it is booted: a machine's firmware takes longer than a scenario can wait.
func (c *Cluster) mind(name string, m machine.Machine) {
	<-m.Done()
	c.mu.Lock()
	now := time.Now()
	byItself := !c.closed && c.nodes[name] == m
	if byItself {
		delete(c.nodes, name)
		c.resets[name] = append(c.resets[name], now)
	}
	c.mu.Unlock()
	if byItself {
		if err := m.Kill(); err != nil { // this also cleans up its control groups
			c.config.Say("%s: %v", name, err)
		}
	}
}

// Resets returns the times at which the watchdog of a node has reset it.
func (c *Cluster) Resets(name string) []time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.resets[name])
}

// node returns the present boot of a node.
func (c *Cluster) node(name string) (machine.Machine, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.nodes[name]; m != nil {
		return m, nil
	}
	if _, err := c.index(name); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%s has no power", name)
}

// Run runs a command in a node.
func (c *Cluster) Run(ctx context.Context, name string, argv ...string) (string, error) {
	m, err := c.node(name)
	if err != nil {
		return "", err
	}
	a, err := m.Do(ctx, machine.Request{Do: machine.Run, Args: argv})
	if err == nil && a.Code != 0 {
		err = fmt.Errorf("%s: %v: exit code %d\n%s", name, argv, a.Code, a.Output)
	}
	return string(a.Output), err
}

// Address returns the URL at which the API server is reached from outside the room.
func (c *Cluster) Address() string { return "https://" + c.config.Room.Front.Addr().String() }

// OwnKernels reports whether each node has its own kernel.
func (c *Cluster) OwnKernels() bool { return c.config.Kind.OwnKernel() }

// Fencectl returns the path of the program in the nodes.
func (c *Cluster) Fencectl() string { return c.config.Programs.Fencectl }

// Dir returns the folder with all logs.
func (c *Cluster) Dir() string { return c.dir }

// Close ends everything. The end of the room would do the same; this is for a next cluster in the same room.
func (c *Cluster) Close() error {
	var errs []error
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	if c.storage != nil {
		errs = append(errs, c.storage.close())
	}
	for _, name := range c.Names() {
		if m, err := c.node(name); err == nil {
			errs = append(errs, m.Kill())
		}
	}
	c.mu.Lock()
	clear(c.nodes)
	c.mu.Unlock()
	if c.Plane != nil {
		errs = append(errs, c.Plane.Close())
	}
	if c.network != nil {
		errs = append(errs, c.network.close())
	}
	if c.loops != nil {
		errs = append(errs, c.loops.Close())
	}
	if c.lun != nil {
		errs = append(errs, c.lun.Close())
	}
	return errors.Join(errs...)
}

// listen listens on an address of the room.
func listen(address string) (net.Listener, error) { return net.Listen("tcp", address) }
