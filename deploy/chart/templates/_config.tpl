{{/* Paths that the chart and the configuration have to agree on. */}}
{{- define "fencing-agent.runDir" -}}/run/fencing-agent{{- end -}}
{{- define "fencing-agent.stateDir" -}}/var/lib/fencing-agent{{- end -}}
{{- define "fencing-agent.keyDir" -}}/etc/fencing-agent/keys{{- end -}}

{{/* The configuration of a group as YAML: what all groups share, what the group changes, what the chart owns. */}}
{{- define "fencing-agent.config" -}}
{{- $c := deepCopy .root.Values.config -}}
{{- $c = mergeOverwrite $c (deepCopy (default dict .group.config)) -}}
{{- if not $c.systemNetworks -}}
{{- fail (printf "group %s: config.systemNetworks is empty: name at least one network on which the nodes watch each other, such as {name: mgmt, at: 10.0.0.0/24}" .group.name) -}}
{{- end -}}
{{- range $path := list "api.socket" "watchdog.disableFile" "members.cacheFile" "gossip.keyFile" -}}
{{- $p := splitList "." $path -}}
{{- if hasKey (default dict (get $c (first $p))) (last $p) -}}
{{- fail (printf "group %s: config.%s is set by the chart, since its folder has to be mounted; leave it out (keys: gossipKeys)" $.group.name $path) -}}
{{- end -}}
{{- end -}}
{{- $http := ternary "$NODE_IP:9110" "127.0.0.1:9110" .root.Values.monitoring.expose -}}
{{- $c = mergeOverwrite (dict "http" (dict "address" $http)) $c -}}
{{- $own := dict
  "nodeGroup" .group.name
  "api" (dict "socket" (printf "%s/fencing-agent.sock" (include "fencing-agent.runDir" .root)))
  "watchdog" (dict "disableFile" (printf "%s/disable" (include "fencing-agent.runDir" .root)))
  "members" (dict "cacheFile" (printf "%s/members.json" (include "fencing-agent.stateDir" .root)))
-}}
{{- $c = mergeOverwrite $c $own -}}
{{- if .root.Values.gossipKeys.secretName -}}
{{- $c = mergeOverwrite $c (dict "gossip" (dict "keyFile" (printf "%s/%s" (include "fencing-agent.keyDir" .root) .root.Values.gossipKeys.key))) -}}
{{- end -}}
{{ toYaml $c }}
{{- end -}}

{{/* The label of a group's Nodes, by the same rule as the agent's. */}}
{{- define "fencing-agent.groupLabel" -}}
{{- $k := default dict (include "fencing-agent.config" . | fromYaml).kubernetes -}}
{{- default (ternary "fencing-agent.io/group" "node.deckhouse.io/group" (eq (default "deckhouse" $k.names) "fencing-agent")) $k.groupLabel -}}
{{- end -}}

{{/*
What of the configuration is applied by a restart only. The list of members is read again by a running agent, so that a
change of it must not restart one.
*/}}
{{- define "fencing-agent.configDigest" -}}
{{- $c := include "fencing-agent.config" . | fromYaml -}}
{{- $_ := set $c "members" (omit $c.members "static" "epoch") -}}
{{- toYaml $c | sha256sum -}}
{{- end -}}

{{/* How the agent gets at its devices: privileged, plugin, or none where it needs no device. */}}
{{- define "fencing-agent.access" -}}
{{- $c := include "fencing-agent.config" . | fromYaml -}}
{{- $lun := (default dict $c.lun).devices -}}
{{- $plugin := .root.Values.watchdogDevicePlugin -}}
{{- $arms := ne (default "device" $c.watchdog.driver) "none" -}}
{{- if and $plugin $arms $lun -}}
{{- fail (printf "group %s: watchdogDevicePlugin does not go with lun.devices: a device plugin gives each container a device node of its own, and the lock that keeps two agents off one slot is on the node; leave watchdogDevicePlugin empty" .group.name) -}}
{{- else if and $plugin $arms (ne (default "expire" $c.watchdog.onFence) "expire") -}}
{{- fail (printf "group %s: watchdog.onFence: %s needs to write /proc/sysrq-trigger, which is read-only without privileged; leave watchdogDevicePlugin empty, or onFence expire" .group.name $c.watchdog.onFence) -}}
{{- else if and $plugin $arms -}}
plugin
{{- else if or $arms $lun -}}
privileged
{{- else -}}
none
{{- end -}}
{{- end -}}

{{/* Not empty where the agents follow fencing-controller, and ask the API server for nothing. */}}
{{- define "fencing-agent.followsController" -}}
{{- $c := include "fencing-agent.config" . | fromYaml -}}
{{- if eq (default "static" $c.members.source) "controller" }}yes{{ end -}}
{{- end -}}

{{/* The host and port of the HTTP listener, or nothing where it is off. */}}
{{- define "fencing-agent.httpPort" -}}
{{- $c := include "fencing-agent.config" . | fromYaml -}}
{{- with $c.http.address }}{{ splitList ":" . | last }}{{ end -}}
{{- end -}}

{{/* Where the probes ask: nothing for the pod's address, which is the node's. */}}
{{- define "fencing-agent.httpHost" -}}
{{- $c := include "fencing-agent.config" . | fromYaml -}}
{{- $host := regexReplaceAll ":[0-9]+$" $c.http.address "" | trimAll "[]" -}}
{{- if eq $host "$NODE_IP" -}}{{- else if has $host (list "0.0.0.0" "" "localhost") -}}127.0.0.1{{- else if eq $host "::" -}}::1{{- else -}}{{ $host }}{{- end -}}
{{- end -}}

{{/* Refuses values that contradict each other. */}}
{{- define "fencing-agent.validate" -}}
{{- if not .Values.groups }}{{ fail "groups is empty: name at least one group of nodes, such as groups: [{name: worker}]" }}{{ end -}}
{{- $names := list -}}
{{- range .Values.groups -}}
{{- if has .name $names }}{{ fail (printf "groups: %s is listed twice" .name) }}{{ end -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- $m := .Values.monitoring -}}
{{- if and (or $m.podMonitor.enabled $m.serviceMonitor.enabled) (not $m.expose) -}}
{{- fail "monitoring: a monitor scrapes the node's address, the agents listen on the loopback: set monitoring.expose" -}}
{{- end -}}
{{- if and .Release.IsInstall .Values.portCheck }}{{ include "fencing-agent.portCheck" . }}{{ end -}}
{{- end -}}
