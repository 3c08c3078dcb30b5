// Package kube has tests only: what the agent does against a real API server. They are in a
// module of their own, because their dependencies are not needed to build the agent.
//
//	make test-kube
//	make test-kube KIND=hour    # only what a settled group asks of the server in an hour
//
// builds the control plane (integration/kube/cmd/kubetest, a third module: its
// dependencies are those of Kubernetes) once, into bin/, and runs them. They need neither
// root nor a network but loopback.
//
// All tests share one control plane and run one after the other; each has names of its own
// for what it creates, and leaves the API server running as it was. The folder with the
// control plane's logs is kept when a test fails.
package kube
