package fenceconfig

// The resources that an executor requests. In measurements a fence agent needed 10 to 45 MiB and up to a third of a
// second of CPU time to print its metadata, and another third for each device that it talks to. With less than one CPU
// it would be late. Some quotas refuse a pod without requests or without limits, so the pod has both.
const (
	ExecutorCPU, ExecutorMostCPU = "100m", "1"
	ExecutorMemory               = "256Mi" // both the request and the limit, so that the executor is not evicted for using more than it requested
	ExecutorPriority             = "system-cluster-critical"
)
