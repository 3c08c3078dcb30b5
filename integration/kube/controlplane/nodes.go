package controlplane

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"syscall"
)

// Nodes is what a control plane needs to know of real nodes. If it is set, a controller manager and a scheduler run,
// too.
type Nodes struct {
	Address string            // address at which the nodes reach the API server
	Service string            // address of the Service kubernetes, the first one of 10.96.0.0/24
	Port    int               // port of the API server, on all addresses
	Tokens  map[string]string // bearer token of each node's kubelet
	Calm    bool              // a silent node is NotReady only after 50 s, the default, and not after 10 s
}

func (n *Nodes) addresses() []net.IP {
	if n == nil {
		return nil
	}
	return []net.IP{net.ParseIP(n.Address), net.ParseIP(n.Service)}
}

func (n *Nodes) tokens() []byte {
	if n == nil {
		return nil
	}
	var text []byte
	for node, token := range n.Tokens {
		text = fmt.Appendf(text, "%s,system:node:%s,system:node:%s,system:nodes\n", token, node, node)
	}
	return text
}

// flags returns flags of kube-apiserver that override those for loopback.
func (n *Nodes) flags(dir string) []string {
	if n == nil {
		return nil
	}
	return []string{
		"--bind-address=0.0.0.0", "--advertise-address=" + n.Address,
		"--service-cluster-ip-range=10.96.0.0/24",
		"--kubelet-client-certificate=" + filepath.Join(dir, clientCertFile), "--kubelet-client-key=" + filepath.Join(dir, clientKeyFile),
		// No DNS server knows the nodes by name.
		"--kubelet-preferred-address-types=InternalIP",
	}
}

// startControllers starts the programs that create pods of DaemonSets and schedule them. They reconnect by themselves
// after each restart of the API server.
func (p *ControlPlane) startControllers() error {
	file := func(name string) string { return filepath.Join(p.config.Dir, name) }
	if err := p.WriteKubeconfig(file("controllers.kubeconfig"), p.URL(), p.keys.admin); err != nil {
		return err
	}
	common := []string{"--kubeconfig=" + file("controllers.kubeconfig"), "--leader-elect=false", "--bind-address=127.0.0.1", "--cert-dir=" + file("certs")}
	flags := append([]string{"--root-ca-file=" + file(caFile), "--service-account-private-key-file=" + file(accountKeyFile)}, common...)
	if !p.config.Nodes.Calm {
		// A silent node becomes NotReady after 10 s, and not after 50 s, because the tests wait for that.
		flags = append(flags, "--node-monitor-grace-period=10s", "--node-monitor-period=1s")
	}
	programs := map[string][]string{
		manager:          flags,
		"kube-scheduler": common,
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, args := range programs {
		of, err := start(p.config.Binary, p.config.Dir, name, args...)
		if err != nil {
			return err
		}
		p.controllers = append(p.controllers, of)
	}
	return nil
}

// HoldManager stops kube-controller-manager until [ControlPlane.FreeManager]. Meanwhile no pods are evicted, deleted or
// created.
func (p *ControlPlane) HoldManager() error { return p.signalManager(syscall.SIGSTOP) }

// FreeManager ends [ControlPlane.HoldManager].
func (p *ControlPlane) FreeManager() error { return p.signalManager(syscall.SIGCONT) }

func (p *ControlPlane) signalManager(s syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.controllers {
		if c.name == manager {
			return c.signal(s)
		}
	}
	return errors.New(manager + " was not started")
}

const manager = "kube-controller-manager"

// CAFile returns the path of the certificate of [ControlPlane.CA]; kubelets also identify the API server by it.
func (p *ControlPlane) CAFile() string { return filepath.Join(p.config.Dir, caFile) }

// Kubeconfig writes a kubeconfig of the administrator, for kubectl.
func (p *ControlPlane) Kubeconfig(path, server string) error {
	return p.WriteKubeconfig(path, server, p.keys.admin)
}
