package ownership

import (
	"cmp"
	"crypto/sha256"
	"hash/fnv"
	"slices"
	"time"
)

// Rank returns the place of a replica in the order for this work: 0 is first. A replica that is not in the list comes
// last: it does not see itself yet, but the others may see it.
func Rank(work, self string, replicas []string) int {
	rank := 0
	mine := score(work, self)
	for _, r := range distinct(replicas) {
		if r == self {
			continue
		}
		if s := score(work, r); !slices.Contains(replicas, self) || cmp.Or(cmp.Compare(s, mine), cmp.Compare(r, self)) > 0 {
			rank++
		}
	}
	return rank
}

// Delay returns how long a replica leaves this work to the replicas before it.
func Delay(work, self string, replicas []string, pause time.Duration) time.Duration {
	return time.Duration(Rank(work, self, replicas)) * pause
}

// score hashes the two names. FNV alone is nearly linear in the last bytes, in which the names of replicas differ.
func score(work, replica string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(work + "\x00" + replica))
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

func distinct(names []string) []string {
	names = slices.Clone(names)
	slices.Sort(names)
	return slices.Compact(names)
}

// RankModulo is like Rank, but by the remainder of a hash: the replicas in the order of their names, beginning with the
// one that the hash selects. It is the obvious solution, and it moves nearly all work when a replica comes or goes.
func RankModulo(work, self string, replicas []string) int {
	all := distinct(replicas)
	if len(all) == 0 {
		return 0
	}
	at, listed := slices.BinarySearch(all, self)
	if !listed {
		return len(all)
	}
	first := 0 // the hash as one large number, modulo the number of replicas
	for _, b := range sha256.Sum256([]byte(work)) {
		first = (first<<8 + int(b)) % len(all)
	}
	return (at - first + len(all)) % len(all)
}
