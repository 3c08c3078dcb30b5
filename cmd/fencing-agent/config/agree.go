package config

import (
	"regexp"
	"strings"
)

// Agreement says whether a key may have one value on one node and another on the next.
type Agreement int

// The agreements.
const (
	MayDiffer Agreement = iota // it works, and is seldom meant
	OfANode                    // paths, addresses and devices, which nodes have of their own
	MustAgree                  // or nodes do not count each other, or judge the same case differently
)

// agreements are by key; of several that fit, the longest counts. A list of what has names is NAME[].
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

// AgreementOn returns the agreement of a key of the effective configuration, such as systemNetworks[mgmt].port. known
// is false for a key that this version does not know: it may differ.
func AgreementOn(key string) (a Agreement, known bool) {
	for key = inBrackets.ReplaceAllString(key, "[]"); ; key = key[:max(0, strings.LastIndexAny(key, ".["))] {
		if a, known = agreements[key]; known || key == "" {
			return a, known
		}
	}
}
