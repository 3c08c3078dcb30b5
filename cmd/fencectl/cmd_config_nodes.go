package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fencing-agent/fencing-agent/api/view"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
)

// compared is what the configurations of some nodes come to.
type compared struct {
	Groups []comparedGroup `json:"groups"`
	Errors []nodeError     `json:"errors,omitempty"` // nodes of which nothing is known
}

type nodeError struct {
	Node string `json:"node"`
	Why  string `json:"why"`
}

type comparedGroup struct {
	Name        string          `json:"name"`
	Nodes       []string        `json:"nodes"`
	Differences []keyDifference `json:"differences"`
}

// keyDifference is a key that has not one value on all nodes of a group.
type keyDifference struct {
	Key    string       `json:"key"`
	Must   bool         `json:"mustAgree"`
	Values []valueNodes `json:"values"` // that of the fewest nodes first
}

type valueNodes struct {
	Value string   `json:"value"` // as JSON; empty: the key is not there
	Nodes []string `json:"nodes"`
}

// effective is one node's configuration, every default filled in, by key.
type effective struct {
	node, group string
	values      map[string]string
}

// allNodes compares configurations: of files, or of the agents in a cluster.
type allNodes struct {
	env       *environment
	kube      *kubeFlags
	namespace string
	files     []string
	review    func(file string) (*config.Config, error)
}

func (n *allNodes) check(ctx context.Context, out *printer) error {
	v := &compared{}
	var found []effective
	if len(n.files) > 0 {
		found = n.ofFiles(v)
	} else {
		var err error
		if found, err = n.ofPods(ctx, v); err != nil {
			return err
		}
	}
	v.compare(found)
	if err := out.print(n.env.stdout, v, v.rows); err != nil {
		return err
	}
	return v.verdict()
}

// ofPods has fencectl print the configuration beside each agent, with the environment of that pod.
func (n *allNodes) ofPods(ctx context.Context, v *compared) ([]effective, error) {
	pods, err := agentPods(ctx, n.kube.run, n.namespace, "")
	if err != nil {
		return nil, err
	}
	texts, errs := make([][]byte, len(pods)), make([]error, len(pods))
	askAll(len(pods), func(i int) {
		texts[i], errs[i] = n.kube.run(ctx, pods[i].inPod("config", "check", pods[i].config, "-o", "json")...)
	})
	var found []effective
	for i, p := range pods {
		e, err := effective{}, errs[i]
		if err == nil {
			e, err = flatten(p.node, texts[i])
		}
		if err != nil {
			v.Errors = append(v.Errors, nodeError{p.node, err.Error()})
			continue
		}
		found = append(found, e)
	}
	return found, nil
}

// ofFiles takes each file for the configuration of one node.
func (n *allNodes) ofFiles(v *compared) (found []effective) {
	for _, file := range n.files {
		c, err := n.review(file)
		var e effective
		if err == nil {
			var text []byte
			if text, err = c.MarshalJSON(); err == nil {
				e, err = flatten(file, text)
			}
		}
		if err != nil {
			v.Errors = append(v.Errors, nodeError{file, err.Error()})
			continue
		}
		found = append(found, e)
	}
	return found
}

// flatten has a value for each key of the configuration.
func flatten(node string, text []byte) (effective, error) {
	e := effective{node: node, values: map[string]string{}}
	var whole map[string]any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&whole); err != nil {
		return e, fmt.Errorf("its configuration cannot be read: %w", err)
	}
	e.group, _ = whole["nodeGroup"].(string)
	e.put("", whole)
	return e, nil
}

func (e *effective) put(path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			e.put(strings.TrimPrefix(path+"."+key, "."), inner)
		}
		return
	case []any:
		if named(v) {
			for _, inner := range v {
				o := inner.(map[string]any)
				e.put(fmt.Sprintf("%s[%v]", path, cmp.Or(o["name"], o["node"])), inner)
			}
			return
		}
		if path == "members.controller.founders" { // a set
			slices.SortFunc(v, func(a, b any) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		}
	}
	text, _ := json.Marshal(value) // it was JSON
	e.values[path] = string(text)
}

// named reports whether a list is of objects that have names.
func named(list []any) bool {
	for _, x := range list {
		o, _ := x.(map[string]any)
		if o["name"] == nil && o["node"] == nil {
			return false
		}
	}
	return len(list) > 0
}

// compare finds, group by group, in which keys nodes differ.
func (v *compared) compare(found []effective) {
	groups := map[string][]effective{}
	for _, e := range found {
		groups[e.group] = append(groups[e.group], e)
	}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		g, keys := comparedGroup{Name: name, Differences: []keyDifference{}}, map[string]bool{}
		for _, e := range groups[name] {
			g.Nodes = append(g.Nodes, e.node)
			for key := range e.values {
				keys[key] = true
			}
		}
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			a, _ := config.AgreementOn(key)
			if d := differing(key, groups[name]); len(d.Values) > 1 && a != config.OfANode {
				d.Must = a == config.MustAgree
				g.Differences = append(g.Differences, d)
			}
		}
		slices.SortStableFunc(g.Differences, func(a, b keyDifference) int {
			return map[bool]int{true: 0, false: 1}[a.Must] - map[bool]int{true: 0, false: 1}[b.Must]
		})
		v.Groups = append(v.Groups, g)
	}
}

// differing has the values of a key, that of the fewest nodes first: those are looked for.
func differing(key string, nodes []effective) keyDifference {
	by := map[string][]string{}
	for _, e := range nodes {
		by[e.values[key]] = append(by[e.values[key]], e.node)
	}
	d := keyDifference{Key: key}
	for _, value := range slices.Sorted(maps.Keys(by)) {
		d.Values = append(d.Values, valueNodes{value, by[value]})
	}
	slices.SortStableFunc(d.Values, func(a, b valueNodes) int { return len(a.Nodes) - len(b.Nodes) })
	return d
}

func (v *compared) rows(t *table) {
	for _, g := range v.Groups {
		must := slices.ContainsFunc(g.Differences, func(d keyDifference) bool { return d.Must })
		size := fmt.Sprintf("%d nodes", len(g.Nodes))
		if len(g.Nodes) == 1 {
			size = "1 node"
		}
		if len(g.Nodes) == 1 && len(v.Groups) > 1 {
			t.row("group "+view.Clean(g.Name), fmt.Sprintf("1 node, %s: compared with no other, since none has this nodeGroup; is it misspelt?", view.Clean(g.Nodes[0])))
			continue
		}
		t.row("group "+view.Clean(g.Name), fmt.Sprintf("%s: %s", size, map[bool]string{false: "equal in all that must be equal", true: "NOT EQUAL"}[must]))
		for _, d := range g.Differences {
			said := make([]string, len(d.Values))
			for i, x := range d.Values {
				said[i] = view.Clean(names(x.Nodes)) + ": " + view.Clean(cmp.Or(x.Value, "not there"))
			}
			t.row(map[bool]string{true: "must be equal", false: "may differ"}[d.Must], view.Clean(d.Key)+"  "+strings.Join(said, "; "))
		}
	}
	for _, e := range v.Errors {
		t.row(view.Clean(e.Node), "not compared: "+view.Clean(e.Why))
	}
}

// names are some nodes in short.
func names(nodes []string) string {
	const most = 5
	if len(nodes) > most {
		return fmt.Sprintf("%s and %d others", strings.Join(nodes[:most-1], ", "), len(nodes)-most+1)
	}
	return strings.Join(nodes, ", ")
}

// verdict is an error if something differs that must not, or is not known.
func (v *compared) verdict() error {
	var bad []string
	for _, g := range v.Groups {
		for _, d := range g.Differences {
			if d.Must {
				bad = append(bad, fmt.Sprintf("group %s: %s differs between nodes", view.Clean(g.Name), view.Clean(d.Key)))
			}
		}
	}
	for _, e := range v.Errors {
		bad = append(bad, fmt.Sprintf("%s is not compared: %s", view.Clean(e.Node), view.Clean(e.Why)))
	}
	if len(bad) > 0 {
		return fmt.Errorf("%s", strings.Join(bad, "\n"))
	}
	return nil
}
