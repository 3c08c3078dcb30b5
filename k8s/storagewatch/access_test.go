package storagewatch

import (
	"bytes"
	"errors"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// The role is what is asked for, no more and no less; it is of the cluster, for pods are in all namespaces; but Leases are in one.
func TestRole(t *testing.T) {
	text, err := os.ReadFile("../../deploy/controller/storage.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var got []Access
	for dec := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var d struct {
			Kind     string
			Metadata struct{ Namespace string }
			Rules    []struct {
				APIGroups []string `yaml:"apiGroups"`
				Resources []string
				Verbs     []string
			}
		}
		if err := dec.Decode(&d); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		leases := d.Metadata.Namespace == "kube-node-lease"
		if len(d.Rules) > 0 && d.Kind != "ClusterRole" && !leases {
			t.Errorf("a %s", d.Kind)
		}
		for _, r := range d.Rules {
			got = append(got, Access{Group: strings.Join(r.APIGroups, ","), Resource: strings.Join(r.Resources, ","), Verbs: r.Verbs, Leases: leases})
		}
	}
	want := Accesses()
	for i := range want {
		want[i].Why = ""
	}
	slices.SortStableFunc(want, func(a, b Access) int { // the Role comes last
		if a.Leases == b.Leases {
			return 0
		}
		return map[bool]int{false: -1, true: 1}[a.Leases]
	})
	if !reflect.DeepEqual(got, want) {
		t.Errorf("role:\n%+v\nwant:\n%+v", got, want)
	}
}
