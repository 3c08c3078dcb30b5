package fencing

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
)

// later returns a NodeFence of a later version, which has more fields in each of its objects.
func later(t *testing.T, f *NodeFence) *NodeFence {
	t.Helper()
	text, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	var o map[string]any
	if err := json.Unmarshal(text, &o); err != nil {
		t.Fatal(err)
	}
	status := o["status"].(map[string]any)
	o["spec"].(map[string]any)["laterSpec"] = "s"
	status["laterStatus"] = map[string]any{"deep": 12345678901234567}
	status["jobs"].([]any)[0].(map[string]any)["laterJob"] = true
	status["proof"].(map[string]any)["laterProof"] = "p"
	if text, err = json.Marshal(o); err != nil {
		t.Fatal(err)
	}
	out := &NodeFence{}
	if err := json.Unmarshal(text, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// Guard: a replica of an earlier version stores all fields of a later one. Only if it removes an object does it drop
// the unknown fields in it.
func TestWhatALaterVersionHasNotedStays(t *testing.T) {
	f := later(t, whole())
	second := f.Status.Jobs[0]
	second.Name, f.Status.Jobs[0].Message = "another", "changed"
	f.Status.Jobs = slices.Insert(f.Status.Jobs, 0, second)
	f.Status.Phase, f.Status.Retries = nodefence.Done, 0
	stored := func() string {
		text, err := json.Marshal(f.DeepCopyObject())
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	text := stored()
	for _, field := range []string{`"laterSpec":"s"`, `"laterStatus":{"deep":12345678901234567}`, `"laterJob":true`, `"laterProof":"p"`, `"phase":"done"`, `"retries":0`, `"message":"changed"`} {
		if strings.Count(text, field) != 1 {
			t.Errorf("%d times %s: %s", strings.Count(text, field), field, text)
		}
	}
	var back NodeFence
	if err := json.Unmarshal([]byte(text), &back); err != nil || len(back.Status.Jobs) != 2 || back.Status.Jobs[1].Message != "changed" {
		t.Errorf("%v: %+v", err, back.Status)
	}
	f.Status.Proof, f.Status.Jobs, f.Status.Dump = nil, nil, nil // what is withdrawn is gone
	if text := stored(); strings.Contains(text, `"proof"`) || strings.Contains(text, "laterJob") || strings.Contains(text, `"dump"`) || !strings.Contains(text, "laterStatus") {
		t.Errorf("%s", text)
	}
}

// The same, by the writes of a whole fencing.
func TestAFencingKeepsWhatALaterVersionHasNoted(t *testing.T) {
	s := newStage(t)
	for range 40 {
		if s.round(); s.fence() != nil && s.fence().Status.Proof != nil {
			break
		}
	}
	s.put(later(t, s.fence()))
	version := s.fence().ResourceVersion
	s.rounds(10)
	text, err := json.Marshal(s.fence())
	if err != nil || s.fence().ResourceVersion == version {
		t.Fatalf("nothing was written: %v", err)
	}
	for _, field := range []string{"laterSpec", "laterStatus", "laterJob", "laterProof"} {
		if !strings.Contains(string(text), field) {
			t.Errorf("%s is gone: %s", field, text)
		}
	}
}
