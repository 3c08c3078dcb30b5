package script

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"go.yaml.in/yaml/v3"
)

// cmdCluster is "cluster N [LUN]": it writes n1.yaml to nN.yaml, the correct configurations of a cluster on two
// networks. LUN is the path of their shared storage.
func cmdCluster(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: cluster N [LUN]")
	}
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	s := stateOf(ts)
	var members []map[string]any
	for i := 1; i <= n; i++ {
		addresses := map[string]string{}
		for k, network := range networks {
			addresses[network] = s.address(k, i).String()
		}
		members = append(members, map[string]any{"name": name(i), "addresses": addresses})
	}
	for i := 1; i <= n; i++ {
		remembered := ts.MkAbs(name(i) + ".members.json")
		// It may be left of another cluster of this script.
		_ = os.Remove(remembered)
		_ = os.Remove(ts.MkAbs(name(i) + ".members-running"))
		file := map[string]any{
			"cluster": "main", "nodeName": name(i), "nodeGroup": "worker",
			"members":        map[string]any{"static": members, "cacheFile": remembered},
			"systemNetworks": s.systemNetworks(i),
			"quorum":         map[string]any{"tieBreak": "none"},
			"watchdog":       map[string]any{"driver": "none", "disableFile": ts.MkAbs(name(i) + ".disable")},
			"api":            map[string]any{"socket": ts.MkAbs(name(i) + ".sock")},
			"http":           map[string]any{"address": fmt.Sprintf("%s:%d", s.address(0, i), s.port+1)},
		}
		if len(args) == 2 {
			file["lun"] = map[string]any{"devices": []string{ts.MkAbs(args[1])}, "heartbeatInterval": "250ms"}
			file["quorum"] = map[string]any{"tieBreak": "lun"}
		}
		ts.Check(writeYAML(ts.MkAbs(name(i)+".yaml"), file))
	}
}

func name(i int) string { return "n" + strconv.Itoa(i) }

func (s *state) systemNetworks(node int) (out []any) {
	for k, network := range networks {
		out = append(out, map[string]any{"name": network, "at": s.address(k, node).String(), "port": s.port})
	}
	return out
}

func writeYAML(path string, content any) error {
	text, err := yaml.Marshal(content)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

func readYAML(path string) (map[string]any, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	content := map[string]any{}
	return content, yaml.Unmarshal(text, &content)
}

// cmdSet is "set FILE KEY VALUE": it changes one key of a configuration, such as systemNetworks[0].port. VALUE is YAML;
// a value that begins with "./" is relative to the script's folder. "set FILE KEY -" removes the key.
func cmdSet(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: set FILE KEY VALUE")
	}
	path := ts.MkAbs(args[0])
	content, err := readYAML(path)
	ts.Check(err)
	var value any
	if strings.HasPrefix(args[2], "./") {
		value = filepath.Clean(ts.MkAbs(args[2]))
	} else {
		ts.Check(yaml.Unmarshal([]byte(args[2]), &value))
	}
	_, err = change(content, splitKey(args[1]), value, args[2] == "-")
	ts.Check(err)
	ts.Check(writeYAML(path, content))
}

var keyPart = regexp.MustCompile(`[^.\[\]]+`)

func splitKey(key string) []string { return keyPart.FindAllString(key, -1) }

// change returns at after it has replaced or removed the value at the end of the path.
func change(at any, path []string, value any, remove bool) (any, error) {
	if len(path) == 0 {
		return value, nil
	}
	switch c := at.(type) {
	case map[string]any:
		if remove && len(path) == 1 {
			delete(c, path[0])
			return c, nil
		}
		inner, err := change(c[path[0]], path[1:], value, remove)
		c[path[0]] = inner
		return c, err
	case []any:
		i, err := strconv.Atoi(path[0])
		if err != nil || i < 0 || i >= len(c) {
			return nil, fmt.Errorf("no element %q in a list of %d", path[0], len(c))
		}
		if remove && len(path) == 1 {
			return append(c[:i:i], c[i+1:]...), nil
		}
		c[i], err = change(c[i], path[1:], value, remove)
		return c, err
	case nil:
		return change(map[string]any{}, path, value, remove)
	default:
		return nil, fmt.Errorf("%q is inside a plain value", path[0])
	}
}

// lookup finds a value of the status. It uses the same paths, and also accepts the name of a list's element, as in
// nodes.n2.available.
func lookup(at any, path []string) any {
	for _, part := range path {
		switch c := at.(type) {
		case map[string]any:
			at = c[part]
		case []any:
			at = element(c, part)
		default:
			return nil
		}
	}
	return at
}

func element(list []any, part string) any {
	if i, err := strconv.Atoi(part); err == nil {
		if i >= len(list) {
			return nil
		}
		return list[i]
	}
	for _, e := range list {
		if m, ok := e.(map[string]any); ok && m["name"] == part {
			return m
		}
	}
	return nil
}

// describe lists the keys of a level, for a path that does not exist.
func describe(v any) string {
	if m, ok := v.(map[string]any); ok {
		return fmt.Sprint(keysOf(m))
	}
	return fmt.Sprint(v)
}

func keysOf(m map[string]any) (out []string) {
	for k := range maps.Keys(m) {
		out = append(out, k)
	}
	return out
}
