package leasequorumtest

import (
	"testing"

	"github.com/fencing-agent/fencing-agent/k8s/leasequorum"
	"github.com/fencing-agent/fencing-agent/netgossip"
)

// GrantTo returns a record that grants to one node; its sequence distinguishes it from others.
func GrantTo(sequence uint64, node string) leasequorum.Record {
	return leasequorum.Record{
		Instance: 1, Tag: leasequorum.Tag{Boot: 1, Process: 1, Sequence: sequence},
		Grant: leasequorum.Grant{Holders: []leasequorum.Holder{{Node: node, Token: netgossip.Token{Nonce: 1, Counter: 1}}}},
	}
}

// Contract checks what the tie-break needs from a register. A write replaces only the version that it names. Each write
// makes a new version. A write does not create a deleted Lease again. There is no Lease at first, and remove deletes
// the one there is.
func Contract(t *testing.T, perform func(leasequorum.Op) leasequorum.Completion, remove func()) {
	t.Helper()
	do := func(op leasequorum.Op, want ...leasequorum.Outcome) leasequorum.Completion {
		t.Helper()
		c := perform(op)
		for _, w := range want {
			if c.Outcome == w {
				return c
			}
		}
		t.Fatalf("operation %+v: outcome %d, want %d: %v", op, c.Outcome, want, c.Err)
		return c
	}
	create := func(sequence uint64, want leasequorum.Outcome) leasequorum.Completion {
		t.Helper()
		return do(leasequorum.Op{Kind: leasequorum.Create, Record: leasequorum.Record{Tag: leasequorum.Tag{Sequence: sequence}}}, want)
	}
	write := func(base leasequorum.Version, sequence uint64, node string, want ...leasequorum.Outcome) leasequorum.Completion {
		t.Helper()
		return do(leasequorum.Op{Kind: leasequorum.Write, Base: base, Record: GrantTo(sequence, node)}, want...)
	}
	do(leasequorum.Op{Kind: leasequorum.Read}, leasequorum.Absent)
	made := create(1, leasequorum.Done)
	create(2, leasequorum.Conflict)

	first := write(made.Version, 3, "n1", leasequorum.Done)
	write(made.Version, 4, "n2", leasequorum.Conflict)
	second := write(first.Version, 5, "n1", leasequorum.Done)
	if second.Version == first.Version {
		t.Error("a renewal must make a new version")
	}
	if read := do(leasequorum.Op{Kind: leasequorum.Read}, leasequorum.Done); read.Version != second.Version || read.Record.Tag.Sequence != 5 {
		t.Errorf("read %+v", read)
	}

	remove()
	write(second.Version, 6, "n1", leasequorum.Conflict, leasequorum.Absent)
	do(leasequorum.Op{Kind: leasequorum.Read}, leasequorum.Absent)
	again := create(7, leasequorum.Done)
	write(leasequorum.Version{UID: second.Version.UID, Resource: again.Version.Resource}, 8, "n1", leasequorum.Conflict)
}
