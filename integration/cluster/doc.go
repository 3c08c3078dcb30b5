// Package cluster runs a real Kubernetes cluster on one machine: a control plane, kubelets, containerd and runc, with the
// agents as the shipped manifest deploys them. It can also cause faults.
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
// [Start] starts the cluster and returns when its nodes are Ready. [Cluster.Install] applies the manifest, with other
// names of images and without a watchdog, or with a simulated one. Each fault is one call (faults.go). [Cluster.Look]
// asks the API server for pods, and the agents through their sockets inside their nodes, so that it also works during a
// cut.
//
// # State and invariants
//
//   - A node keeps its folder, its address and its device of the LUN across boots, and its port stays cut until it is
//     healed.
//   - Nothing survives the room: no process, no mount, no interface, no loop device.
//   - The images contain what deploy/Dockerfile copies, and no registry is needed.
//
// # Concurrency and blocking
//
// A [Cluster] may be used from any goroutine; boots and ends of nodes exclude each other. Methods that wait take a
// context. Only the relay to the API server runs in the background.
package cluster
