package trouble

// The troubles. Prometheus also detects those with an alert; some of them only Prometheus can detect.
var (
	AgentDown = &Trouble{
		Code: "agent-down", Severity: Critical, Section: "the-agent-is-gone", Alert: "FencingAgentDown",
		Sentence: "the fencing-agent of {node} ({group}) cannot be reached",
		Means:    "With an armed watchdog the node is reset unless an agent feeds it again in time; the node itself may be down.",
		Do:       "start the agent, or find out why its node does not answer",
	}
	AgentsAbsent = &Trouble{
		Code: "agents-absent", Severity: Critical, Section: "no-agent-is-scraped", Alert: "FencingAgentsAbsent",
		Sentence: "no agent of {group} is scraped",
		Means:    "The agents were removed, or Prometheus does not find them; no other alert can fire for them.",
		Do:       "compare the monitor's labels with what Prometheus selects",
	}
	NoQuorum = &Trouble{
		Code: "no-quorum", Severity: Critical, Section: "the-verdict-by-its-reason", Alert: "FencingNoQuorum",
		Sentence: "{node} ({group}) has lost its quorum and is about to be reset",
		Means:    "The watchdog of an armed node without quorum resets it within seconds, unless contact returns or onQuorumLoss says otherwise.",
		Do:       "look at the networks from the other side",
	}
	HeldByLUN = &Trouble{
		Code: "held-by-lun", Severity: Critical, Section: "held-by-the-lun", Alert: "FencingHeldByLUN",
		Sentence: "the group {group} lives by its LUN alone: {value} of its nodes see no majority",
		Means:    "No part of the group has quorum, so nothing fails over, and nobody is reset. A node that also loses the LUN is reset.",
		Do:       "repair the networks; leave the LUN, the agents and the nodes alone",
	}
	NoQuorumUnarmed = &Trouble{
		Code: "no-quorum-unarmed", Severity: Warning, Section: "the-verdict-by-its-reason", Alert: "FencingNoQuorumUnarmed",
		Sentence: "{node} ({group}) has no quorum, and is not armed",
		Means:    "It started and has found no majority, or is in maintenance or a dry run. Nothing resets it; what runs on it is not guarded.",
		Do:       "look whether the others reach this node",
	}
	MembersMissing = &Trouble{
		Code: "members-missing", Severity: Warning, Section: "left-by-its-reason", Alert: "FencingMembersMissing",
		Sentence: "members are missing in {group}: {value}",
		Means:    "They count for the quorum all the same; each further missing member brings the rest closer to losing it.",
		Do:       "look at the nodes that are named, and at their networks",
	}
	NetworkDegraded = &Trouble{
		Code: "network-degraded", Severity: Warning, Section: "nobody-is-reachable", Alert: "FencingNetworkDegraded",
		Sentence: "on network {network} {node} ({group}) reaches fewer peers than on another",
		Means:    "The other networks still suffice for the verdict; another fault may change it.",
		Do:       "look at the cable, the port and the VLAN of that network", Unless: []string{"members-missing", "network-down"},
	}
	NetworkFlaps = &Trouble{
		Code: "network-flaps", Severity: Warning, Section: "nobody-is-reachable", Alert: "FencingNetworkFlaps",
		Sentence: "network {network} of {node} ({group}) flaps",
		Means:    "Peers are lost and found on it all the time; if there are other networks, the verdict does not show that.",
		Do:       "find what comes and goes: a cable, a port, a bond",
	}
	MemberFlaps = &Trouble{
		Code: "member-flaps", Severity: Warning, Section: "left-by-its-reason", Alert: "FencingMemberFlaps",
		Sentence: "members of {group} come and go: {value}",
		Means:    "Consumers do not get them until they have stayed for up to five minutes; they count for the quorum. The agents' logs name them.",
		Do:       "find what comes and goes: a cable, a port, a host that swaps",
	}
	GossipRefused = &Trouble{
		Code: "gossip-refused", Severity: Warning, Section: "nobody-is-reachable", Alert: "FencingGossipRefused",
		Sentence: "{node} ({group}) refuses gossip on network {network}",
		Means:    "Foreign nodes, wrong keys, wrong labels, or another list of members.",
		Do:       "compare cluster, nodeGroup, key files and lists of members on all nodes",
	}
	GossipLossy = &Trouble{
		Code: "gossip-lossy", Severity: Warning, Section: "packets-are-lost-or-late", Alert: "FencingGossipLossy",
		Sentence: "network {network} of {node} ({group}) loses packets, or answers come late",
		Means:    "Sweeps mean bursts of loss or peers that answer late; dropped packets mean a node or a card that does not keep up.",
		Do:       "look for an overloaded node, card or switch",
	}
	NameConflict = &Trouble{
		Code: "name-conflict", Severity: Critical, Section: "two-nodes-under-one-name", Alert: "FencingNameConflict",
		Sentence: "{node} ({group}) hears two nodes under one name",
		Means:    "One of them is a copy, or has a wrong name; the list of members knows the right address.",
		Do:       "stop the agent of the wrong one of the two",
	}
	WatchdogNotArmed = &Trouble{
		Code: "watchdog-not-armed", Severity: Warning, Section: "the-node-is-unguarded", Alert: "FencingWatchdogNotArmed",
		Sentence: "the watchdog of {node} ({group}) is not armed, and nobody asked for that",
		Means:    "Nothing would reset this node, and its peers never take over from it.",
		Do:       "see what status says of the watchdog", Unless: []string{"part-missing", "dry-run", "maintenance"},
	}
	MaintenanceLong = &Trouble{
		Code: "maintenance-long", Severity: Warning, Section: "maintenance-does-not-end", Alert: "FencingMaintenanceLong",
		Sentence: "{node} ({group}) has been in maintenance for hours",
		Means:    "Nothing would reset this node, and its peers never take over from it. Was the disable file, or the annotation, forgotten?",
		Do:       "end the maintenance, or take the node off the list of members",
	}
	WatchdogFaulty = &Trouble{
		Code: "watchdog-faulty", Severity: Critical, Section: "the-watchdog", Alert: "FencingWatchdogFeedFails",
		Sentence: "the watchdog of {node} ({group}) refuses to be fed",
		Means:    "If that lasts as long as its timeout, the node is reset.",
		Do:       "look at the driver; do not rely on this node", Unless: []string{"part-missing"},
	}
	FeedSlackLow = &Trouble{
		Code: "feed-slack-low", Severity: Warning, Section: "a-node-was-reset-and-should-not-have-been", Alert: "FencingFeedSlackLow",
		Sentence: "the watchdog of {node} ({group}) is fed late",
		Means:    "The node stalls, or the agent is starved of CPU; one day the node will be reset by mistake.",
		Do:       "set no CPU limit for the agent, take load off the machine, or give the watchdog a longer timeout",
	}
	FeederNotHardened = &Trouble{
		Code: "feeder-not-hardened", Severity: Info, Section: "the-watchdog", Alert: "FencingFeederNotHardened",
		Sentence: "on {node} ({group}) the feeder is not protected from load ({measure})",
		Means:    "A host under load may delay it.",
		Do:       "permit CAP_IPC_LOCK, CAP_SYS_NICE and CAP_SYS_RESOURCE",
	}
	DeathContradicted = &Trouble{
		Code: "death-contradicted", Severity: Critical, Section: "the-watchdog", Alert: "FencingDeathContradicted",
		Sentence: "a node of {group} kept running although its watchdog must have reset it (seen by {node})",
		Means:    "Its watchdog does not work, and what it held may have been taken over while it still wrote.",
		Do:       "power the node off, and look at its watchdog and its data",
	}
	NodeFenced = &Trouble{
		Code: "node-fenced", Severity: Critical, Section: "left-by-its-reason", Alert: "FencingNodeFenced",
		Sentence: "a node of {group} was reset, or died",
		Means:    "What it held may be taken over. The survivors' logs say which one, and why.",
		Do:       "see in the survivors' logs which one, and why",
	}
	LUNUnhealthy = &Trouble{
		Code: "lun-unhealthy", Severity: Warning, Section: "the-lun-is-not-healthy", Alert: "FencingLUNUnhealthy",
		Sentence: "{node} ({group}) cannot count on the LUN {device}",
		Means:    "The LUN is away, or too slow. Nobody is reset for that alone; in the next equal split this half stops, or all nodes do.",
		Do:       "look at the paths to the LUN", Over: "the LUN is in order again",
	}
	LUNSlow = &Trouble{
		Code: "lun-slow", Severity: Warning, Section: "the-tie-was-not-decided", Alert: "FencingLUNSlow",
		Sentence: "the LUN {device} is slow for {node} ({group})",
		Means:    "One I/O in a hundred takes longer than half of lun.ioTimeout. An equal split may not be decided in time.",
		Do:       "find what loads the storage, or choose timing: careful", Unless: []string{"lun-unhealthy"},
	}
	LUNErrors = &Trouble{
		Code: "lun-errors", Severity: Warning, Section: "the-lun-is-not-healthy", Alert: "FencingLUNErrors",
		Sentence: "I/O on the LUN {device} fails on {node} ({group})",
		Means:    "Paths fail, or the array refuses.",
		Do:       "look at the paths and at the array",
	}
	LeaseUnusable = &Trouble{
		Code: "lease-unusable", Severity: Warning, Section: "the-tie-was-not-decided", Alert: "FencingLeaseUnusable",
		Sentence: "{node} ({group}) cannot use the Lease that breaks ties",
		Means:    "Nobody is reset for that alone; in an equal split, a half loses if none of its nodes can use the Lease.",
		Do:       "look at the API server, and at what the agent's account may do", Over: "the Lease that breaks ties answers again",
	}
	TieUndecided = &Trouble{
		Code: "tie-undecided", Severity: Critical, Section: "the-tie-was-not-decided", Alert: "FencingTieUndecided",
		Sentence: "an equal split of {group} was not decided by {breaker} (seen by {node})",
		Means:    "Undecided, both halves stop.",
		Do:       "look at the speed of the LUN, and in the status for which nodes the decision waited",
	}
	ListChangeStuck = &Trouble{
		Code: "list-change-stuck", Severity: Warning, Section: "the-list-of-members", Alert: "FencingListChangeStuck",
		Sentence: "a change of the list of members does not come to an end on {node} ({group})",
		Means:    "During a change majorities of both lists are needed, and equal splits are not arbitrated.",
		Do:       "bring the named nodes back, or give them the list",
	}
	ListsDiffer = &Trouble{
		Code: "lists-differ", Severity: Warning, Section: "the-list-of-members", Alert: "FencingListsDiffer",
		Sentence: "the agents of {group} use different lists of members",
		Means:    "Nodes with different lists do not count each other.",
		Do:       "give all nodes the same list of members",
	}
	APIUnreachable = &Trouble{
		Code: "api-unreachable", Severity: Info, Section: "the-api-server", Alert: "FencingAPIUnreachable",
		Sentence: "{node} ({group}) gets no answer from the API server",
		Means:    "No verdict changes because of that; but maintenance by annotation is not seen, and a tie that the API would have decided may be lost.",
		Do:       "look at the network, the certificate and the server",
	}
	SubscribersDropped = &Trouble{
		Code: "subscribers-dropped", Severity: Warning, Section: "a-subscriber-is-cut-off", Alert: "FencingSubscribersDropped",
		Sentence: "a subscriber of {node} ({group}) was cut off",
		Means:    "It reads its events too slowly, or there are too many subscribers; it has to begin again.",
		Do:       "look at the client that is named",
	}
	VersionsDiffer = &Trouble{
		Code: "versions-differ", Severity: Info, Section: "a-rollout-does-not-go-on", Alert: "FencingVersionsDiffer",
		Sentence: "the agents of {group} have different versions",
		Means:    "A rollout has stopped, which it does at a node that does not regain its quorum.",
		Do:       "look at the node that has not been updated",
	}
	PartMissing = &Trouble{
		Code: "part-missing", Severity: Critical, Section: "a-part-is-missing",
		Sentence: "a part is missing",
		Means:    "The agent runs without it, and uses it as soon as it is there.",
		Do:       "do what the line of the part says; nothing has to be restarted", Over: "a missing part is there, and in use",
	}
	NetworkDown = &Trouble{
		Code: "network-down", Severity: Critical, Section: "nobody-is-reachable",
		Sentence: "a network of {node} is down on its own side",
		Means:    "Nobody is heard on it.",
		Do:       "look at the cable, the port and the address", Unless: []string{"part-missing"},
	}
	DryRun = &Trouble{
		Code: "dry-run", Severity: Warning, Section: "the-node-is-unguarded",
		Sentence: "{node} is in a dry run: watchdog.driver is none, and nothing would reset it",
		Means:    "It decides and reports as if it had a watchdog. Others never take over from it.",
		Do:       "set watchdog.driver when the dry run is over",
	}
	Maintenance = &Trouble{
		Code: "maintenance", Severity: Warning, Section: "maintenance-does-not-end",
		Sentence: "the watchdog of {node} is disarmed for maintenance",
		Means:    "Nothing would reset this node, and its peers never take over from it.",
		Do:       "end the maintenance when the work is done",
	}
	WatchdogStarved = &Trouble{
		Code: "watchdog-starved", Severity: Critical, Section: "the-verdict-by-its-reason",
		Sentence: "the watchdog of {node} is not fed any more",
		Means:    "It resets the node when its timeout has passed.",
		Do:       "see the verdict for the reason",
	}
	WatchdogNoWayOut = &Trouble{
		Code: "watchdog-nowayout", Severity: Warning, Section: "the-watchdog",
		Sentence: "the watchdog of {node} cannot be disarmed once it is armed",
		Means:    "Maintenance and a stop of the agent reset the node.",
		Do:       "load the driver without nowayout, unless that is meant", Unless: []string{"dry-run"},
	}
	ResetByWatchdog = &Trouble{
		Code: "reset-by-watchdog", Severity: Warning, Section: "a-node-was-reset-and-should-not-have-been",
		Sentence: "the last boot of {node} did not end in an orderly way",
		Means:    "It was reset, or lost its power.",
		Do:       "read fencectl history, and the logs of the others",
	}
	NoSelfFence = &Trouble{
		Code: "no-self-fence", Severity: Warning, Section: "fenced-comes-late",
		Sentence: "{node} does not announce a self-fence, whatever it loses",
		Means:    "Others learn of its death only by time, which is later.",
		Do:       "do what the reason says", Over: "this node would announce its self-fence again if it had lost for certain", Unless: []string{"watchdog-faulty"},
	}
	LUNNotReady = &Trouble{
		Code: "lun-not-ready", Severity: Warning, Section: "the-lun-is-not-healthy",
		Sentence: "{node} does not rely on its slot on the LUN yet",
		Means:    "This node takes no part in a decision of the LUN.",
		Do:       "wait a moment; else see what the log says of the LUN", Unless: []string{"lun-unhealthy"},
	}
	LUNTooSlow = &Trouble{
		Code: "lun-too-slow", Severity: Warning, Section: "the-tie-was-not-decided",
		Sentence: "the LUN of {node} is too slow to decide an equal split in time",
		Means:    "In an equal split this half stops.",
		Do:       "find what loads the storage, or choose timing: careful", Over: "the LUN is in order again", Unless: []string{"lun-unhealthy"},
	}
	LUNStrangers = &Trouble{
		Code: "lun-strangers", Severity: Critical, Section: "another-group-writes-to-the-lun",
		Sentence: "nodes that are not on the list of members write to the LUN",
		Means:    "While one group holds a grant, the other loses its ties.",
		Do:       "give each group a LUN and a name of its own: cluster, nodeGroup",
	}
	LUNTwoWriters = &Trouble{
		Code: "lun-two-writers", Severity: Critical, Section: "the-lun-is-not-healthy",
		Sentence: "another agent writes the slot of {node}",
		Means:    "Two agents run under one name.",
		Do:       "stop one of the two",
	}
	LUNNotCounting = &Trouble{
		Code: "lun-not-counting", Severity: Warning, Section: "quorum-by-the-lun",
		Sentence: "some nodes are not counted by the LUN",
		Means:    "lun.mode: or does not help them.",
		Do:       "look at their version, their lun.mode and their LUN", Unless: []string{"lun-unhealthy"},
	}
	TiePending = &Trouble{
		Code: "tie-pending", Severity: Warning, Section: "the-tie-was-not-decided",
		Sentence: "an equal split is being decided",
		Means:    "The decision takes less than the arbitration budget.",
		Do:       "wait",
	}
	TiesDiffer = &Trouble{
		Code: "ties-differ", Severity: Critical, Section: "nodes-break-ties-in-different-ways",
		Sentence: "nodes break ties in different ways, so an equal split between them can be lost by both halves",
		Means:    "No tie is lost before there is one.",
		Do:       "give all nodes the same lun.devices, quorum.tieBreak, cluster and nodeGroup",
	}
	TiesUnconfirmed = &Trouble{
		Code: "ties-unconfirmed", Severity: Warning, Section: "nodes-break-ties-in-different-ways",
		Sentence: "{node} takes no part in an equal split: a majority has not confirmed its tie-break settings",
		Means:    "An equal split is lost by a half that does not agree.",
		Do:       "look whether the agents that are named run, and whether their LUN is healthy", Unless: []string{"ties-differ"},
	}
	NotStarted = &Trouble{
		Code: "not-started", Severity: Critical, Section: "the-agent-does-not-start",
		Sentence: "the agent of {node} does not start",
		Means:    "Nothing guards the node; the others count it as away.",
		Do:       "read what it printed: one line for each problem, with what to do",
	}
	Unsaved = &Trouble{
		Code: "unsaved", Severity: Warning, Section: "the-disk-is-full",
		Sentence: "{node} cannot store what it has to remember",
		Means:    "The agent goes on with what it remembers, and tries again.",
		Do:       "make room on the disk, and make the folder writable",
	}
	ConfirmationRefused = &Trouble{
		Code: "confirmation-refused", Severity: Warning, Section: "a-confirmed-death-is-refused-or-withdrawn",
		Sentence: "an external confirmation of a death was refused, or withdrawn",
		Means:    "Nothing follows from it.",
		Do:       "read what speaks against it",
	}
	TwoHalves = &Trouble{
		Code: "two-halves", Severity: Critical, Section: "two-halves-lived",
		Sentence: "two halves of {group} lived at once",
		Means:    "Both may have written to the same storage.",
		Do:       "save the logs of all nodes and the LUN, and report it",
	}
)

// All lists the troubles, those with an alert first.
var All = []*Trouble{
	AgentDown, AgentsAbsent, NoQuorum, HeldByLUN, NoQuorumUnarmed, MembersMissing, NetworkDegraded, NetworkFlaps, MemberFlaps,
	GossipRefused, GossipLossy, NameConflict, WatchdogNotArmed, MaintenanceLong, WatchdogFaulty, FeedSlackLow, FeederNotHardened,
	DeathContradicted, NodeFenced, LUNUnhealthy, LUNSlow, LUNErrors, LeaseUnusable, TieUndecided, ListChangeStuck, ListsDiffer,
	APIUnreachable, SubscribersDropped, VersionsDiffer, PartMissing, NetworkDown, DryRun, Maintenance, WatchdogStarved,
	WatchdogNoWayOut, ResetByWatchdog, NoSelfFence, LUNNotReady, LUNTooSlow, LUNStrangers, LUNTwoWriters,
	LUNNotCounting, TiePending, TiesDiffer, TiesUnconfirmed, NotStarted, Unsaved, ConfirmationRefused, TwoHalves,
}
