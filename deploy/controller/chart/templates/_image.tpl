{{- define "fencing-controller.image" -}}
{{- with .Values.image -}}
{{- if not .repository }}{{ fail "image.repository is empty: there is no public image; make controller-image, push it, and name it here" }}{{ end -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ required "image.tag and image.digest are empty: say which version runs" .tag }}
{{- end -}}
{{- end -}}
{{- end -}}
