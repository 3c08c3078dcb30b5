{{/* The labels by which alerts and dashboard tell nodes and groups apart. */}}
{{- define "fencing-agent.relabelings" -}}
- sourceLabels: [__meta_kubernetes_pod_node_name]
  targetLabel: node
- sourceLabels: [__meta_kubernetes_pod_label_fencing_agent_io_group]
  targetLabel: group
- targetLabel: job
  replacement: fencing-agent
{{- end -}}
