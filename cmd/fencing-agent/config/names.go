package config

// Names selects which labels and annotations on Nodes are used: it is a set of defaults for kubernetes.groupLabel and
// kubernetes.disableAnnotations.
type Names string

// The sets of names.
const (
	NamesFencingAgent Names = "fencing-agent"
	NamesDeckhouse    Names = "deckhouse" // those that Deckhouse's node-manager sets, and this project's annotation
)

func (Names) values() []string { return []string{"fencing-agent", "deckhouse"} }

// disableAnnotation is this project's annotation. It is in both sets.
const disableAnnotation = "fencing-agent.io/disable"

func (n Names) groupLabel() string {
	if n == NamesFencingAgent {
		return "fencing-agent.io/group"
	}
	return "node.deckhouse.io/group"
}

func (n Names) disableAnnotations() []string {
	if n == NamesFencingAgent {
		return []string{disableAnnotation}
	}
	return []string{
		"update.node.deckhouse.io/disruption-approved",
		"update.node.deckhouse.io/approved",
		"node-manager.deckhouse.io/fencing-disable",
		disableAnnotation,
	}
}

// applyNames fills the keys that are not in the file, according to given.
func (c *Config) applyNames(given func(key string) bool) {
	if !given("kubernetes.groupLabel") {
		c.Kubernetes.GroupLabel = c.Kubernetes.Names.groupLabel()
	}
	if !given("kubernetes.disableAnnotations") {
		c.Kubernetes.DisableAnnotations = c.Kubernetes.Names.disableAnnotations()
	}
}
