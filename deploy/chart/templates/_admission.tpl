{{/* Name of an admission policy: a DNS name, unlike those of roles. */}}
{{- define "fencing-agent.policyName" -}}
{{- printf "%s.%s.%s" .what (include "fencing-agent.name" .root) .root.Release.Namespace -}}
{{- end -}}

{{/* The policies concern the agents' service accounts and nobody else. */}}
{{- define "fencing-agent.isAgent" -}}
request.userInfo.username in [
{{- range $i, $g := .Values.groups -}}
{{- if $i }}, {{ end -}}
'{{ include "fencing-agent.user" (dict "root" $ "group" $g) }}'
{{- end -}}
]
{{- end -}}

{{/* The node from which the token comes, as the API server put it into the token: not what the agent says of itself. */}}
{{- define "fencing-agent.tokenNode" -}}
has(request.userInfo.extra) && 'authentication.kubernetes.io/node-name' in request.userInfo.extra ? request.userInfo.extra['authentication.kubernetes.io/node-name'][0] : ''
{{- end -}}

{{/* True for a group whose ties a lease may break. */}}
{{- define "fencing-agent.leases" -}}
{{- $c := include "fencing-agent.config" . | fromYaml -}}
{{- if eq (default "" (default dict $c.quorum).tieBreak) "lease" }}true{{ end -}}
{{- end -}}

{{/* Name of the lease of a group, as the agent makes it (leaseregister.Name). */}}
{{- define "fencing-agent.lease" -}}
{{- $c := include "fencing-agent.config" . | fromYaml -}}
{{- regexReplaceAll "[^a-z0-9]" (printf "fencing-agent-%s-%s" (default "default" $c.cluster) .group.name | lower) "-" -}}
{{- end -}}

{{- define "fencing-agent.binding" -}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ include "fencing-agent.policyName" . }}
  labels:
    {{- include "fencing-agent.labels" .root | nindent 4 }}
spec:
  policyName: {{ include "fencing-agent.policyName" . }}
  validationActions: [Deny, Audit]
{{- end -}}
