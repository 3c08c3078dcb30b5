package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"google.golang.org/protobuf/encoding/protojson"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// Space is the namespace of the agents.
const Space = "fencing-agent"

// View is what is observed from outside at one moment.
type View struct {
	At     time.Time
	APIErr error                        // set if the API server does not answer: Nodes and Pods are then empty
	Nodes  map[string]*core.Node        //
	Pods   []*core.Pod                  // of all namespaces
	Agents map[string]*fencingv1.Status // status of the agents that answer on their sockets
}

// lookLimit bounds the time for an answer of a node or the API server.
const lookLimit = 5 * time.Second

// Look returns the present state. If the API server or an agent does not answer, that is part of the state, not an
// error.
func (c *Cluster) Look(ctx context.Context) (*View, error) {
	v := &View{At: time.Now(), Nodes: map[string]*core.Node{}, Agents: map[string]*fencingv1.Status{}}
	if v.APIErr = c.lookAtAPI(ctx, v); ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	type answer struct {
		node   string
		status *fencingv1.Status
	}
	answers := make(chan answer)
	for _, name := range c.Names() {
		go func() { answers <- answer{name, c.status(ctx, name)} }()
	}
	for range c.Names() {
		if a := <-answers; a.status != nil {
			v.Agents[a.node] = a.status
		}
	}
	return v, nil
}

func (c *Cluster) lookAtAPI(ctx context.Context, v *View) error {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	nodes, err := c.Client.CoreV1().Nodes().List(ctx, meta.ListOptions{})
	if err != nil {
		return err
	}
	pods, err := c.Client.CoreV1().Pods("").List(ctx, meta.ListOptions{})
	if err != nil {
		return err
	}
	for i := range nodes.Items {
		v.Nodes[nodes.Items[i].Name] = &nodes.Items[i]
	}
	for i := range pods.Items {
		v.Pods = append(v.Pods, &pods.Items[i])
	}
	return nil
}

// status asks the agent from inside its node; nil if it does not answer.
func (c *Cluster) status(ctx context.Context, node string) *fencingv1.Status {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	out, err := c.Run(ctx, node, c.config.Programs.Fencectl, "status", "--socket=/run/fencing-agent/fencing-agent.sock", "--output=json")
	begin := strings.Index(out, "{")
	if err != nil && begin < 0 {
		return nil
	}
	var s fencingv1.Status
	if protojson.Unmarshal([]byte(out[max(begin, 0):]), &s) != nil {
		return nil
	}
	return &s
}

// AgentPod returns the pod of the agent on a node that is not being deleted, or nil.
func (v *View) AgentPod(node string) *core.Pod {
	for _, p := range v.Pods {
		if p.Namespace == Space && p.Spec.NodeName == node && p.DeletionTimestamp == nil && p.Labels["app.kubernetes.io/name"] == "fencing-agent" {
			return p
		}
	}
	return nil
}

// Pod returns the pod with this name, or nil.
func (v *View) Pod(namespace, name string) *core.Pod {
	for _, p := range v.Pods {
		if p.Namespace == namespace && p.Name == name {
			return p
		}
	}
	return nil
}

// State returns the report of an agent about another node.
func (v *View) State(by, of string) *fencingv1.NodeStatus {
	for _, n := range v.Agents[by].GetNodes() {
		if n.GetName() == of {
			return n
		}
	}
	return nil
}

// Ready reports whether the pod runs and is ready.
func Ready(p *core.Pod) bool {
	if p == nil || p.Status.Phase != core.PodRunning {
		return false
	}
	for _, c := range p.Status.Conditions {
		if c.Type == core.PodReady {
			return c.Status == core.ConditionTrue
		}
	}
	return false
}

func nodeReady(n *core.Node) bool {
	if n == nil {
		return false
	}
	for _, c := range n.Status.Conditions {
		if c.Type == core.NodeReady {
			return c.Status == core.ConditionTrue
		}
	}
	return false
}

// Condition returns what is missing, or "".
type Condition func(v *View) string

// NodesReady holds when these nodes are Ready.
func NodesReady(nodes ...string) Condition {
	return func(v *View) string {
		for _, name := range nodes {
			if !nodeReady(v.Nodes[name]) {
				return name + " is not Ready"
			}
		}
		return ""
	}
}

// NodeNotReady holds when the node exists and is not Ready.
func NodeNotReady(node string) Condition {
	return func(v *View) string {
		if v.Nodes[node] == nil || nodeReady(v.Nodes[node]) {
			return node + " is not there, or Ready"
		}
		return ""
	}
}

// AgentsReady holds when the agents' pods on these nodes are Running and Ready.
func AgentsReady(nodes ...string) Condition {
	return func(v *View) string {
		for _, name := range nodes {
			if p := v.AgentPod(name); !Ready(p) {
				return "the agent's pod on " + name + " is " + describe(p)
			}
		}
		return ""
	}
}

func describe(p *core.Pod) string {
	if p == nil {
		return "not there"
	}
	text := string(p.Status.Phase)
	for _, s := range p.Status.ContainerStatuses {
		if w := s.State.Waiting; w != nil {
			text += ", waits: " + w.Reason + " " + w.Message
		}
		if t := s.LastTerminationState.Terminated; t != nil {
			text += ", last ended: " + t.Message
		}
		text += fmt.Sprintf(", ready %v, restarts %d", s.Ready, s.RestartCount)
	}
	return text
}

// GroupWhole holds when each of these agents answers, has quorum and counts all of these nodes.
func GroupWhole(nodes ...string) Condition {
	return func(v *View) string {
		for _, by := range nodes {
			s := v.Agents[by]
			if s == nil {
				return "the agent on " + by + " does not answer"
			}
			if !s.GetVerdict().GetQuorum() {
				return by + " has no quorum: " + s.GetVerdict().GetText()
			}
			for _, of := range nodes {
				if n := v.State(by, of); !n.GetCounted() {
					return fmt.Sprintf("%s does not count %s (%s)", by, of, n.GetState())
				}
			}
		}
		return ""
	}
}

// Quorum holds when these agents answer and have quorum.
func Quorum(nodes ...string) Condition {
	return func(v *View) string {
		for _, name := range nodes {
			if s := v.Agents[name]; !s.GetVerdict().GetQuorum() {
				return name + " has no quorum: " + s.GetVerdict().GetText()
			}
		}
		return ""
	}
}

// Metric asks the agent of a node for one of its metrics, over the network mgmt.
func (c *Cluster) Metric(ctx context.Context, node, name string) (float64, error) {
	i, err := c.index(node)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+nodeAddress(0, i)+":9110/metrics", nil)
	if err != nil {
		return 0, err
	}
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		return 0, err
	}
	defer r.Body.Close()
	for lines := bufio.NewScanner(r.Body); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("%s has no metric %s", node, name)
}

// Await returns when all conditions hold at one moment.
func (c *Cluster) Await(ctx context.Context, what string, limit time.Duration, conditions ...Condition) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(lookPace)
	defer tick.Stop()
	missing := "nothing was seen"
	for {
		v, err := c.Look(ctx)
		if err == nil {
			if missing = first(v, conditions); missing == "" {
				return nil
			}
		}
		if ended := c.Plane.Ended(); ended != nil {
			return errors.Join(fmt.Errorf("%s: the control plane does not run", what), ended)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("not within %v: %s: %s", limit, what, missing)
		}
	}
}

func first(v *View, conditions []Condition) string {
	for _, condition := range conditions {
		if missing := condition(v); missing != "" {
			if v.APIErr != nil {
				missing += fmt.Sprintf(" (API server: %v)", v.APIErr)
			}
			return missing
		}
	}
	return ""
}

// Hold returns an error as soon as a condition fails during the given time.
func (c *Cluster) Hold(ctx context.Context, what string, during time.Duration, conditions ...Condition) error {
	end := time.NewTimer(during)
	defer end.Stop()
	tick := time.NewTicker(lookPace)
	defer tick.Stop()
	for {
		v, err := c.Look(ctx)
		if err != nil {
			return err
		}
		if missing := first(v, conditions); missing != "" {
			return fmt.Errorf("%s: %s", what, missing)
		}
		select {
		case <-tick.C:
		case <-end.C:
			return nil
		}
	}
}
