package fenceconfig

// The resources that an executor requests. To print its metadata a fence agent took 10 to 45 MiB and up to a third of
// a second of CPU time, and another third for each device that it talks to; with less than one CPU it would be late.
// Requests keep a quota that asks for them from refusing its pod; limits, one that asks for those.
const (
	ExecutorCPU, ExecutorMostCPU = "100m", "1"
	ExecutorMemory               = "256Mi" // both the request and the limit: what is taken from it in need is the fencing
	ExecutorPriority             = "system-cluster-critical"
)
