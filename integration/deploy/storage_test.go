package deploy

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// The network policy of storage fencing must admit traffic to the port that the pod serves. It must also let out what
// the pod's flags make it ask: the API server, the port of --storage-url, and DNS, because that URL contains a name.
func TestStorageNetworkPolicy(t *testing.T) {
	m := read(t, "deploy/controller/storage.yaml")
	if len(m.deployments) != 1 || len(m.networks) != 1 {
		t.Fatalf("%d deployments, %d network policies", len(m.deployments), len(m.networks))
	}
	d, n := m.deployments[0], m.networks[0]
	selector, err := metav1.LabelSelectorAsSelector(&n.Spec.PodSelector)
	if err != nil || selector.Empty() || !selector.Matches(labels.Set(d.Spec.Template.Labels)) || n.Namespace != d.Namespace {
		t.Errorf("it does not select these pods: %v in %s, %v", selector, n.Namespace, err)
	}
	if !slices.Equal(n.Spec.PolicyTypes, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}) || len(n.Spec.Ingress) != 1 || len(n.Spec.Egress) != 1 {
		t.Fatalf("%+v", n.Spec)
	}
	in, out := ports(n.Spec.Ingress[0].Ports), ports(n.Spec.Egress[0].Ports)
	c := d.Spec.Template.Spec.Containers[0]
	var serves []string
	for _, p := range c.Ports {
		serves = append(serves, "TCP "+p.Name)
	}
	if !slices.Equal(in, serves) {
		t.Errorf("in: %v, the pod serves %v", in, serves)
	}
	want := []string{"TCP 443", "TCP 6443", "UDP 53", "TCP 53"}
	for _, arg := range c.Args {
		if text, ok := strings.CutPrefix(arg, "--storage-url="); ok {
			u, err := url.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, "TCP "+u.Port())
		}
	}
	if len(want) != 5 || !slices.Equal(out, want) {
		t.Errorf("out: %v, want %v", out, want)
	}
}

func ports(list []networkingv1.NetworkPolicyPort) (out []string) {
	for _, p := range list {
		protocol := corev1.ProtocolTCP
		if p.Protocol != nil {
			protocol = *p.Protocol
		}
		switch {
		case p.Port == nil:
			out = append(out, string(protocol)+" all")
		case p.Port.StrVal != "":
			out = append(out, string(protocol)+" "+p.Port.StrVal)
		default:
			out = append(out, string(protocol)+" "+strconv.Itoa(p.Port.IntValue()))
		}
	}
	return out
}
