// Package kube contains only tests, of the agent with a real API server. They are in a separate module, because the
// agent does not need their dependencies.
//
//	make test-kube
//	make test-kube KIND=hour    # only what a settled group asks of the server in an hour
//
// builds the control plane (integration/kube/cmd/kubetest, a third module: its dependencies are those of Kubernetes)
// once, into bin/, and runs them. They need neither root nor a network except loopback.
//
// All tests share one control plane and run one after the other. Each uses its own names for the objects that it
// creates, and leaves the API server running as before. The folder with the control plane's logs is kept when a test
// fails.
package kube
