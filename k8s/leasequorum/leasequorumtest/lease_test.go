package leasequorumtest

import (
	"testing"

	"github.com/fencing-agent/fencing-agent/k8s/leasequorum"
)

func TestLeaseKeepsTheContract(t *testing.T) {
	var l Lease
	Contract(t, func(op leasequorum.Op) leasequorum.Completion { return l.Apply(&op) }, l.Delete)
	if got := l.Record().Tag.Sequence; got != 7 {
		t.Errorf("the last write that took effect is %d, want 7", got)
	}
}
