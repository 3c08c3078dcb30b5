// Package deploy has tests only: what deploy/ promises, checked without a cluster. They read
// the rendered manifests (deploy/manifests, which `make verify` compares with the chart) into
// the types of the Kubernetes API, strictly, and compare them with the code:
//
//   - agents_test.go: the pods can do what the agent has to, survive what it must survive, and
//     carry a configuration that the agent takes.
//   - access_test.go: roles and admission policies grant what the lists of k8s/access.go have, and no more.
//   - monitoring_test.go: alerts and dashboard ask for metrics that exist, and every alert
//     names a section of the runbook that exists.
//   - node_test.go: the files for the nodes.
//
// What only a real API server can tell is tested in integration/kube.
package deploy
