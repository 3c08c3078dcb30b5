package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/fencing-agent/fencing-agent/k8s/fenceconfig"
)

// executorPod is a pod like those of fencing-controller's Jobs, as far as quotas, limit ranges and admission check it.
// Its image is never pulled.
func executorPod(namespace string) (string, error) {
	type object = map[string]any
	text, err := json.Marshal(object{
		"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": "fencing-executor-dry-run", "namespace": namespace},
		"spec": object{
			"restartPolicy": "Never", "serviceAccountName": "fencing-executor", "automountServiceAccountToken": false, "priorityClassName": fenceconfig.ExecutorPriority,
			"securityContext": object{"runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532, "seccompProfile": object{"type": "RuntimeDefault"}},
			"containers": []object{{
				"name": "executor", "image": "fencing-executor", "securityContext": object{"allowPrivilegeEscalation": false, "capabilities": object{"drop": []string{"ALL"}}},
				"resources": object{
					"requests": object{"cpu": fenceconfig.ExecutorCPU, "memory": fenceconfig.ExecutorMemory},
					"limits":   object{"cpu": fenceconfig.ExecutorMostCPU, "memory": fenceconfig.ExecutorMemory},
				},
			}},
		},
	})
	return string(text), err
}

// executorProblem asks the API server by a dry run whether it accepts a pod of an executor: a quota, a limit range or
// an admission policy could keep every Job from starting, and nothing else would show that before a node fails.
// Without the right to create pods, the answer is unknown.
func executorProblem(ctx context.Context, env *environment, kube *kubeFlags, namespace string) (string, error) {
	pod, err := executorPod(namespace)
	if err != nil {
		return "", err
	}
	_, err = kube.runWith(ctx, pod, "create", "--dry-run=server", "-f", "-")
	switch {
	case err == nil:
		return "", nil
	case strings.Contains(err.Error(), "forbidden") && !strings.Contains(err.Error(), "cannot create resource"), strings.Contains(err.Error(), "no PriorityClass"):
		return fmt.Sprintf("namespace %s: no executor would start: %v", namespace, err), nil
	default:
		env.warn(fmt.Sprintf("it is not known whether an executor would start in %s, since a dry run of its pod failed: %v", namespace, err))
		return "", nil
	}
}
