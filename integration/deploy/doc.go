// Package deploy has only tests, of the promises of deploy/, checked without a cluster. They read the rendered
// manifests (deploy/manifests, which `make verify` compares with the chart) into the types of the Kubernetes API,
// strictly, and compare them with the code:
//
//   - agents_test.go: the pods have the rights that the agent needs, survive what they must survive, and
//     contain a configuration that the agent accepts.
//   - access_test.go: roles and admission policies grant exactly the rights in the lists of k8s/access.go.
//   - monitoring_test.go: alerts and dashboard ask for metrics that exist, and every alert
//     names a section of the runbook that exists.
//   - node_test.go: the files for the nodes.
//
// integration/kube tests what only a real API server can show.
package deploy
