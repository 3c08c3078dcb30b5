{{- define "fencing-agent.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Of objects that exist once in a cluster. */}}
{{- define "fencing-agent.clusterName" -}}
{{- printf "%s:%s" .Release.Namespace (include "fencing-agent.name" .) -}}
{{- end -}}

{{- define "fencing-agent.groupName" -}}
{{- if gt (len (printf "%s-%s" (include "fencing-agent.name" .root) .group.name)) 63 -}}
{{- fail (printf "the release's name with the group's %q is longer than 63 characters" .group.name) -}}
{{- end -}}
{{- printf "%s-%s" (include "fencing-agent.name" .root) .group.name -}}
{{- end -}}

{{- define "fencing-agent.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "fencing-agent.labels" -}}
{{ include "fencing-agent.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The image of a group. A tag of its own wins over a digest of all groups. */}}
{{- define "fencing-agent.image" -}}
{{- $own := default dict .group.image -}}
{{- $image := mergeOverwrite (deepCopy .root.Values.image) (deepCopy $own) -}}
{{- if and $own.tag (not $own.digest) }}{{ $_ := set $image "digest" "" }}{{ end -}}
{{- with $image -}}
{{- if not .repository }}{{ fail "image.repository is empty: there is no public image; push that of a release, or of make images KIND=agent, to a registry and name it here" }}{{ end -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{- $released := default "" $.root.Chart.AppVersion | replace "+" "_" -}}
{{ .repository }}:{{ required "image.tag and image.digest are empty: say which version runs" (default $released .tag) }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The user that an agent of the group is for the API server. */}}
{{- define "fencing-agent.user" -}}
{{- printf "system:serviceaccount:%s:%s" .root.Release.Namespace (include "fencing-agent.groupName" .) -}}
{{- end -}}
