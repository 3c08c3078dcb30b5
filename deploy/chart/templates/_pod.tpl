{{/*
Probes ten seconds apart that must fail before the kubelet kills an agent: at least two minutes, and longer than the watchdog
could let the node live (twice its timeout, since the end of a process starts the countdown again).
*/}}
{{- define "fencing-agent.livenessFailures" -}}
{{- $t := default "30s" .watchdog.timeout | toString -}}
{{- $seconds := 0.0 -}}
{{- range regexFindAll "[0-9.]+(ns|us|µs|μs|ms|s|m|h)" $t -1 -}}
{{- $unit := get (dict "h" 3600.0 "m" 60.0 "s" 1.0 "ms" 0.001) (regexFind "[^0-9.]+$" .) -}}
{{- $seconds = addf $seconds (mulf (regexFind "[0-9.]+" . | float64) (default 0.0 $unit)) -}}
{{- end -}}
{{- max 12 (add 3 (ceil (divf (mulf 2.0 $seconds) 10.0) | int)) -}}
{{- end -}}

{{- define "fencing-agent.resources" -}}
{{- $r := deepCopy (default .root.Values.resources .group.resources) -}}
{{- if eq .access "plugin" -}}
{{- $r = mergeOverwrite $r (dict "limits" (dict .root.Values.watchdogDevicePlugin 1)) -}}
{{- end -}}
{{ toYaml $r }}
{{- end -}}

{{- define "fencing-agent.securityContext" -}}
runAsUser: 0
runAsGroup: 0
readOnlyRootFilesystem: true
{{- if eq . "privileged" }}
# The device cgroup lets no other container open a device node of the host, whatever its capabilities.
privileged: true
{{- else }}
privileged: false
allowPrivilegeEscalation: false
seccompProfile:
  type: RuntimeDefault
capabilities:
  drop: [ALL]
  add:
    # To bind sockets to the networks' devices on kernels before 5.7, and to give the socket to api.socketGroup.
    - NET_RAW
    - CHOWN
    {{- if eq . "plugin" }}
    # Memory, thread and OOM score of the feeder.
    - IPC_LOCK
    - SYS_NICE
    - SYS_RESOURCE
    {{- end }}
{{- end }}
{{- end -}}
