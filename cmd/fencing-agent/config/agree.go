package config

import (
	"regexp"
	"strings"
)

// Agreement tells whether a key may have different values on different nodes.
type Agreement int

const (
	MayDiffer Agreement = iota // the group works, but a difference is seldom intended
	OfANode                    // paths, addresses and devices, which differ between nodes
	MustAgree                  // otherwise nodes do not count each other, or decide the same case differently
)

// agreements are by key; of several matching keys, the longest counts. NAME[] is a list whose elements have names.
var agreements = map[string]Agreement{
	"cluster": MustAgree, "nodeGroup": MustAgree, "nodeName": OfANode, "nodeDevices": MayDiffer,
	"members.source": MustAgree, "members.static": MustAgree, "members.epoch": MustAgree,
	"members.cacheFile": OfANode, "members.controller": MayDiffer, "members.controller.credentials": OfANode,
	"members.controller.founders": MustAgree, // two lists with no name in common can found two groups
	"systemNetworks[].name":       MustAgree, "systemNetworks[].port": MustAgree,
	"systemNetworks[].at": OfANode, "systemNetworks[].bindToDevice": OfANode,
	"reachability": MustAgree, "gossip": MustAgree, "gossip.keyFile": OfANode,
	"quorum": MustAgree, "onQuorumLoss": MustAgree, "restartGrace": MayDiffer, "timing": MustAgree,
	"lun": MayDiffer, "lun.mode": MustAgree, "lun.hold": MustAgree, "lun.devices": OfANode,
	"watchdog": MayDiffer, "watchdog.device": OfANode, "watchdog.disableFile": OfANode,
	"kubernetes": MayDiffer, "kubernetes.groupLabel": MustAgree, "kubernetes.kubeconfig": OfANode,
	"api": OfANode, "api.commands": MustAgree,
	"experimental": MustAgree, "experimental.leftByDoubt": MayDiffer, "experimental.gossipSources": MayDiffer, "experimental.checkInterval": MayDiffer, "experimental.historyMegabytes": OfANode,
	"experimental.feedInterval": MayDiffer, "experimental.selfFenceAfter": MayDiffer, "http": OfANode,
}

var inBrackets = regexp.MustCompile(`\[[^]]*\]`)

// AgreementOn returns the agreement on a key of the effective configuration, such as systemNetworks[mgmt].port. known
// is false for a key that this version does not know: such a key may differ.
func AgreementOn(key string) (a Agreement, known bool) {
	for key = inBrackets.ReplaceAllString(key, "[]"); ; key = key[:max(0, strings.LastIndexAny(key, ".["))] {
		if a, known = agreements[key]; known || key == "" {
			return a, known
		}
	}
}
