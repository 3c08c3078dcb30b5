// Package cluster is a real Kubernetes cluster on one machine: a control plane, kubelets,
// containerd and runc, with the agents in it as the shipped manifest deploys them, and faults.
//
//	make cluster, make test-cluster
//	      |
//	  room (namespaces that take everything with them at the end)
//	   |- etcd, kube-apiserver, controller manager, scheduler     integration/kube/controlplane
//	   |- bridges mgmt 10.0.0.0/24 and data 10.1.0.0/24           network.go
//	   |- csi-attacher and the storage                            storage.go, csi (only if [Config].Guarded)
//	   '- node-1 ... node-N, each a [machine.Kind]'s              machine, namespaces, guest
//	        containerd, kubelet, and the pods of deploy/manifests;
//	        a watchdog that ends the node, and volumes             lab, csi (only if Guarded)
//
// [Start] brings it up to Ready nodes; [Cluster.Install] applies the manifest, with other names
// of images and without a watchdog, or with a simulated one. Faults are one call
// each (faults.go). [Cluster.Look] sees pods through the API server and agents through their
// sockets, from inside of their nodes, so that it works during a cut, too.
//
// # State and invariants
//
//   - A node keeps its folder, its address and its device of the LUN from boot to boot, and
//     its port stays cut until it is healed.
//   - Nothing survives the room: no process, no mount, no interface, no loop device.
//   - The images hold what deploy/Dockerfile copies, and no registry is asked for anything.
//
// # Concurrency and blocking
//
// A [Cluster] may be used from any goroutine; boots and ends of nodes exclude each other. What
// waits takes a context. Nothing runs in the background but the relay to the API server.
package cluster
