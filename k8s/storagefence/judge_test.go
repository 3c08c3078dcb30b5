package storagefence

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

const driver = "csi.storage.example"

var rules = Rules{Driver: driver, Labels: []string{"storageos.com/fenced", "fencing-agent.io/fenced"}}

func good(pv string) Volume {
	return Volume{Name: pv, Claim: pv, PV: pv, Driver: driver, Health: Healthy}
}

func with(v Volume, statuses ...string) Volume {
	for _, s := range statuses {
		v.Conditions = append(v.Conditions, Condition{Status: s, Reason: "SaidSo"})
	}
	return v
}

func TestJudge(t *testing.T) {
	yes := map[string]string{"storageos.com/fenced": "true"}
	ill := Volume{Name: "ill", Claim: "ill", PV: "ill", Driver: driver, Health: Unhealthy, Reason: `its first copy is "offline"`}
	for _, c := range []struct {
		name string
		pod  Pod
		off  bool
		want Outcome
		text string
	}{
		{"all healthy", Pod{Labels: yes, Volumes: []Volume{good("b"), good("a")}}, false, Deleted, ""},
		{"our label", Pod{Labels: map[string]string{"fencing-agent.io/fenced": "1"}, Volumes: []Volume{good("a")}}, false, Deleted, ""},
		{"with configuration", Pod{Labels: yes, Volumes: []Volume{good("a"), {Name: "config", Local: true}}}, false, Deleted, ""},
		{"no label", Pod{Volumes: []Volume{good("a")}}, true, SkipLabel, ""},
		{"label says no", Pod{Labels: map[string]string{"storageos.com/fenced": "false"}, Volumes: []Volume{good("a")}}, true, SkipLabel, ""},
		{"label is not a boolean", Pod{Labels: map[string]string{"storageos.com/fenced": "yes"}, Volumes: []Volume{good("a")}}, true, SkipLabel, `"yes", but must be true or false`},
		{"one label is wrong, the other one asks", Pod{Labels: map[string]string{"storageos.com/fenced": "yes", "fencing-agent.io/fenced": "true"}, Volumes: []Volume{good("a")}}, false, Deleted, ""},
		{"no volumes", Pod{Labels: yes, Volumes: []Volume{{Name: "config", Local: true}}}, true, SkipNoPVC, driver},
		{"another driver's only", Pod{Labels: yes, Volumes: []Volume{{Name: "nfs", Driver: "nfs.example"}}}, true, SkipNoPVC, driver},
		{"one is ill", Pod{Labels: yes, Volumes: []Volume{good("a"), ill}}, false, SkipUnhealthy, `ill: its first copy is "offline"`},
		{"one is ill, and the node is off", Pod{Labels: yes, Volumes: []Volume{good("a"), ill}}, true, SkipUnhealthy, "only copy"},
		{"health not known", Pod{Labels: yes, Volumes: []Volume{{Name: "a", PV: "a", Driver: driver}}}, true, SkipUnhealthy, "a"},
		{"not bound", Pod{Labels: yes, Volumes: []Volume{{Name: "a", Driver: driver, Health: Healthy}}}, true, SkipUnhealthy, "a"},
		{"inaccessible", Pod{Labels: yes, Volumes: []Volume{with(good("a"), "Inaccessible")}}, true, SkipUnhealthy, "Inaccessible"},
		{"data loss", Pod{Labels: yes, Volumes: []Volume{good("b"), with(good("a"), "Degraded", "DataLoss")}}, false, SkipUnhealthy, "a: its claim shows the condition DataLoss"},
		{"a condition that nobody knows", Pod{Labels: yes, Volumes: []Volume{with(good("a"), "Haunted")}}, false, SkipUnhealthy, "Haunted"},
		{"degraded, as each volume is that has lost a copy", Pod{Labels: yes, Volumes: []Volume{with(good("a"), "Degraded")}}, false, Deleted, ""},
		{"degraded, and nobody says that it is healthy", Pod{Labels: yes, Volumes: []Volume{with(Volume{Name: "a", PV: "a", Driver: driver}, "Degraded")}}, false, SkipUnhealthy, "a"},
		{"another driver's as well", Pod{Labels: yes, Volumes: []Volume{good("a"), {Name: "nfs", Driver: "nfs.example"}}}, false, SkipOther, "nfs"},
		{"another driver's as well, and the node is off", Pod{Labels: yes, Volumes: []Volume{good("a"), {Name: "nfs", Driver: "nfs.example"}}}, true, Deleted, ""},
		{"a daemon", Pod{Labels: yes, Pinned: true, Volumes: []Volume{good("a")}}, true, SkipPinned, "come back"},
		{"ended", Pod{Labels: yes, Ended: true, Volumes: []Volume{good("a")}}, true, SkipLabel, ""},
	} {
		v := Judge(rules, c.pod, c.off)
		if v.Outcome != c.want || !strings.Contains(v.Text, c.text) || c.text == "" && v.Text != "" {
			t.Errorf("%s: %+v, want %s", c.name, v, c.want)
		}
		if v.Outcome != Deleted && len(v.PVs) > 0 {
			t.Errorf("%s: releases %v of a pod that stays", c.name, v.PVs)
		}
	}
	if v := Judge(rules, Pod{Labels: yes, Volumes: []Volume{good("b"), good("a"), good("b")}}, false); fmt.Sprint(v.PVs) != "[a b]" {
		t.Errorf("volumes %v", v.PVs)
	}
}

func TestReleasable(t *testing.T) {
	staying := []Pod{{Volumes: []Volume{{PV: "a"}}}, {Ended: true, Volumes: []Volume{{PV: "b"}}}}
	if got := Releasable([]string{"a", "b", "c"}, staying); fmt.Sprint(got) != "[b c]" {
		t.Errorf("%v", got)
	}
}

// Whatever conditions a pod's volumes have, they never release a pod that would stay without them. Each condition
// except Degraded keeps its pod.
func TestConditionsOnlyKeep(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 2))
	statuses := []string{"Degraded", "Inaccessible", "DataLoss", "", "degraded", "Healthy"}
	for range 5000 {
		var p Pod
		if r.IntN(5) > 0 {
			p.Labels = map[string]string{"fencing-agent.io/fenced": "true"}
		}
		bare, kept := p, false
		for i := range 1 + r.IntN(3) {
			v := good(fmt.Sprint("v", i))
			v.Local, v.Health = r.IntN(6) == 0, Health(r.IntN(8))
			if v.Health > Unhealthy {
				v.Health = Healthy
			}
			if r.IntN(6) == 0 {
				v.Driver = "nfs.example"
			}
			bare.Volumes = append(bare.Volumes, v)
			for range r.IntN(3) {
				s := statuses[r.IntN(len(statuses))]
				v = with(v, s)
				kept = kept || s != "Degraded" && !v.Local && v.Driver == driver
			}
			p.Volumes = append(p.Volumes, v)
		}
		off := r.IntN(2) == 0
		got, without := Judge(rules, p, off).Outcome, Judge(rules, bare, off).Outcome
		if want := without == Deleted && !kept; (got == Deleted) != want {
			t.Fatalf("seed %d: %+v: %s, and %s without its conditions", seed, p, got, without)
		}
	}
}
