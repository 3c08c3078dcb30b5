// Command distributedapp-operator is a worked example: the operator of DistributedApps, whose replicas have no leader
// (docs/operator.md). It connects k8s/distributedapp to k8s/distributedapp/gossip.
//
// Exit codes: 0 after SIGTERM or SIGINT, 1 if it cannot start or continue, 2 for bad usage.
package main
