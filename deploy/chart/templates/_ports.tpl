{{/*
Refuses a port that MetalLB's speakers have on the hosts' network: on each node the one that comes second does not start. Only
an install that asks the cluster sees them: to helm template, and to what renders as it does, there are none.
*/}}
{{- define "fencing-agent.portCheck" -}}
{{- $speakers := list -}}
{{- range $ds := (lookup "apps/v1" "DaemonSet" "" "").items -}}
{{- $labels := default dict (dig "spec" "template" "metadata" "labels" dict $ds) -}}
{{- $helm := and (eq (default "" (get $labels "app.kubernetes.io/name")) "metallb") (eq (default "" (get $labels "app.kubernetes.io/component")) "speaker") -}}
{{- $plain := and (eq (default "" $labels.app) "metallb") (eq (default "" $labels.component) "speaker") -}}
{{- if and (or $helm $plain) (dig "spec" "template" "spec" "hostNetwork" false $ds) -}}
{{- range dig "spec" "template" "spec" "containers" list $ds -}}
{{- $env := dict -}}
{{- range .env }}{{ $_ := set $env .name (default "" .value) }}{{ end -}}
{{- if hasKey $env "METALLB_ML_BIND_ADDR" -}}{{- /* without it they have no port: their memberlist is off */ -}}
{{- $speakers = append $speakers (dict "name" (printf "%s/%s" $ds.metadata.namespace $ds.metadata.name) "port" (default "7946" $env.METALLB_ML_BIND_PORT | int)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $group := .Values.groups -}}
{{- range $network := (include "fencing-agent.config" (dict "root" $ "group" $group) | fromYaml).systemNetworks -}}
{{- range $speakers -}}
{{- if eq .port (default 7946 $network.port | int) -}}
{{- fail (printf "group %s: config.systemNetworks[%s].port is %d, and MetalLB's speakers (DaemonSet %s) have it on the hosts' network: on each node the one that comes second does not start; set another port for this network, on all nodes, or METALLB_ML_BIND_PORT of the speakers; portCheck: false if they never share a node" $group.name $network.name .port .name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
