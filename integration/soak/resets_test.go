package soak

import (
	"maps"
	"testing"
	"time"
)

func TestResetsAreSummedUpByHowAndWhy(t *testing.T) {
	at := time.Now()
	r := &resets{all: []Reset{
		{"n1", at.Add(-time.Second), false, "starve, quorum_lost"},
		{"n2", at, true, "starve, isolated"}, {"n3", at.Add(time.Second), true, "starve, isolated"}, {"n1", at.Add(time.Second), false, "starve, isolated"},
	}}
	all := r.since(at)
	want := map[string]int{"by sentence, starve, isolated": 2, "by time, starve, isolated": 1}
	if got := countResets(all); !maps.Equal(got, want) {
		t.Errorf("since then: %v, want %v", got, want)
	}
	if !wasReset(all, "n9", "n2") || wasReset(r.since(at.Add(time.Minute)), "n1") {
		t.Error("who was reset is not told from who was not")
	}
	if new(resets).since(at) != nil {
		t.Error("without watchdogs somebody was reset")
	}
}
