{{- define "fencing-controller.image" -}}
{{- with .Values.image -}}
{{- if not .repository }}{{ fail "image.repository is empty: there is no public image; push that of a release, or of make images KIND=controller, to a registry and name it here" }}{{ end -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{- $released := default "" $.Chart.AppVersion | replace "+" "_" -}}
{{ .repository }}:{{ required "image.tag and image.digest are empty: say which version runs" (default $released .tag) }}
{{- end -}}
{{- end -}}
{{- end -}}
