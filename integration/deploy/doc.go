// Package deploy contains only tests. They check the promises of deploy/ without a cluster. They read the rendered
// manifests (deploy/manifests, which `make verify` compares with the chart) strictly into the types of the Kubernetes
// API, and compare them with the code:
//
//   - agents_test.go checks that the pods have the rights that the agent needs, survive what they must survive, and
//     contain a configuration that the agent accepts.
//   - access_test.go checks that roles and admission policies grant exactly the rights in the lists of k8s/access.go.
//   - monitoring_test.go checks that alerts and dashboard query metrics that exist, and that every alert names a section
//     of the runbook that exists.
//   - node_test.go checks the files for the nodes.
//
// integration/kube tests what only a real API server can prove.
package deploy
