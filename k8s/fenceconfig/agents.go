package fenceconfig

import (
	"fmt"
	"slices"
	"strings"
)

// Agents describes fence agents by name, as their metadata does. If it is empty, methods are not checked against
// metadata.
type Agents map[string]Agent

// AgentsObject is the ConfigMap that describes the fence agents in the executor's image: under the key AgentsKey it has
// what the image's command metadata prints. It is optional.
const AgentsObject, AgentsKey = "fence-agents", "metadata.json"

// ReadAgents reads the output of "fencing-executor metadata"; decode is the function of encoding/json.
func ReadAgents(text string, decode func([]byte, any) error) (Agents, error) {
	var a Agents
	if err := decode([]byte(text), &a); err != nil {
		return nil, fmt.Errorf("this is not the output of fencing-executor metadata: %w", err)
	}
	return a, nil
}

// CheckAgents is like [Read], but also checks the options of all methods against the ConfigMap [AgentsObject], if it
// exists.
func CheckAgents(objects Objects, decode func([]byte, any) error) *Config {
	text, there := objects[AgentsObject][AgentsKey]
	if !there {
		c := Read(objects, nil)
		if objects[AgentsObject] != nil {
			c.Problems = append(c.Problems, Problem{AgentsObject, 0, "it has no key " + AgentsKey, false, false})
		}
		return c
	}
	agents, err := ReadAgents(text, decode)
	c := Read(objects, agents)
	if err != nil {
		c.Problems = append(c.Problems, Problem{AgentsObject, 0, AgentsKey + ": " + err.Error(), false, false})
	}
	return c
}

// Agent is one fence agent.
type Agent struct {
	Actions    []string    `json:"actions"`
	Parameters []Parameter `json:"parameters"`
}

// Parameter is a parameter that the agent knows.
type Parameter struct {
	Name     string `json:"name"`
	Getopt   string `json:"getopt"` // the same for two names of one option
	Required bool   `json:"required,omitempty"`
}

// check compares a method with the metadata of its agent.
func (a Agents) check(m Method) []Problem {
	if len(a) == 0 || m.Agent == "" {
		return nil
	}
	agent, ok := a[m.Agent]
	if !ok {
		return []Problem{{m.Template, 0, fmt.Sprintf("the executor's image has no fence agent %s", m.Agent), false, false}}
	}
	return agent.Check(m)
}

// Check lists what is wrong with a method for this agent. An agent only warns about an option that it does not know,
// and so does Check: the method stays usable. There is one exception. An unknown option that resembles a known option
// which is not given is refused: a misspelt switch would be another outlet.
func (a Agent) Check(m Method) []Problem {
	var problems []Problem
	add := func(format string, args ...any) {
		problems = append(problems, Problem{m.Object, 0, fmt.Sprintf(format, args...), false, false})
	}
	if !slices.Contains(a.Actions, m.Action) && m.Action != "" {
		add("%s has no action %s; it has %s", m.Agent, m.Action, strings.Join(a.Actions, ", "))
	}
	if m.Action == Off && m.Confirm && !slices.Contains(a.Actions, "status") {
		add("%s has no action status, so that its off cannot be confirmed: write confirm=none, which proves nothing", m.Agent)
	}
	given := map[string]string{} // by getopt: the name under which the option was given
	var unknown []string
	take := func(key string) {
		i := a.parameter(key)
		if i < 0 {
			unknown = append(unknown, key)
			return
		}
		if other := given[a.Parameters[i].Getopt]; other != "" {
			add("%s and %s are two names of one option: remove one of them", other, key)
		}
		given[a.Parameters[i].Getopt] = key
	}
	for _, o := range m.Options {
		take(o.Key)
	}
	for _, s := range m.Secrets {
		take(s.Key)
	}
	for _, key := range unknown {
		i := slices.IndexFunc(a.Parameters, func(p Parameter) bool {
			return given[p.Getopt] == "" && isNear(key, strings.ReplaceAll(p.Name, "-", "_"))
		})
		if i >= 0 {
			add("%s has no option %s: is it %s?", m.Agent, key, strings.ReplaceAll(a.Parameters[i].Name, "-", "_"))
			continue
		}
		problems = append(problems, Problem{m.Object, 0, fmt.Sprintf("%s does not know the option %s, and runs without it", m.Agent, key), true, false})
	}
	for _, p := range a.Parameters {
		if p.Required && p.Name != "action" && given[p.Getopt] == "" {
			add("%s needs the option %s", m.Agent, p.Name)
			given[p.Getopt] = p.Name // report it once, whatever its names are
		}
	}
	return problems
}

// parameter returns the index of an option among those that the agent knows, or -1.
func (a Agent) parameter(key string) int {
	return slices.IndexFunc(a.Parameters, func(p Parameter) bool { return strings.ReplaceAll(p.Name, "-", "_") == key })
}

// Knows reports whether the agent knows an option.
func (a Agent) Knows(key string) bool { return a.parameter(key) >= 0 }
