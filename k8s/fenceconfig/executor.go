package fenceconfig

// What an executor asks of its node. A fence agent took 10 to 45 MiB and up to a third of a second of a processor to print its
// metadata, and one more for each device that it talks to; with less than a processor it would be late. Requests keep a
// quota that asks for them from refusing its pod; limits, one that asks for those.
const (
	ExecutorCPU, ExecutorMostCPU = "100m", "1"
	ExecutorMemory               = "256Mi" // both the request and the limit: what is taken from it in need is the fencing
	ExecutorPriority             = "system-cluster-critical"
)
