package deaths

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Annotation is where an agent names deaths, on its own Node and on no other.
const Annotation = "fencing-agent.io/deaths"

const (
	// Most is how many deaths are named at one time. With names of usual length, as many fill [MostBytes].
	Most = 64
	// MostBytes is how long the annotation may be. The admission policy refuses longer ones.
	MostBytes = 8192
	// mostEntry is more than one death takes: names of Nodes have 253 bytes at most.
	mostEntry = 512
	mostProof = 16
	latest    = 1 << 33 // seconds since 1970; greater than any real time of a death
)

// Death says that one incarnation of a node, from one boot to the next, has ended. It is the form of a death everywhere between what
// proves it and those who act on it. Reference and Contradicted are what a controller sends to agents, and are not in the
// annotation; By is known only in the program that has set it.
type Death struct {
	Node  string    `json:"node"`
	Boot  string    `json:"boot"`  // of the incarnation that ended: 16 hexadecimal digits
	Proof string    `json:"proof"` // by the words of the log: "time", "boot", "sentence", "power", "kdump", "operator"; "hearsay": a sentence that others have handed on
	At    time.Time `json:"at"`    // when the agent concluded it, by its clock: for people
	// Said is the boot of the agent's node in which the agent concluded it, in the same form. The report of an
	// agent's earlier boot is still valid, but the agent has not checked it since.
	Said string `json:"said,omitempty"`

	By           string `json:"-"` // the node whose agent says it
	Reference    string `json:"-"` // what has proven it from outside of the group: a NodeFence
	Contradicted bool   `json:"-"` // that boot was heard after its death was proven
}

// Valid reports whether the death names a node and a boot, and has no field that is too long or contains control characters.
func (d *Death) Valid() bool {
	return d.Node != "" && plain(d.Node, longestName) && IsBoot(d.Boot) && plain(d.Proof, mostProof) && (d.Said == "" || IsBoot(d.Said)) &&
		plain(d.Reference, longestName) && (d.At.IsZero() || d.At.Unix() >= 0 && d.At.Unix() <= latest)
}

// plain reports whether a text is in ASCII, steers no terminal, and is not longer than that.
func plain(s string, longest int) bool {
	return len(s) <= longest && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// Encode is the annotation for these deaths, the newest first. If there is no room, the oldest are left out first.
func Encode(list []Death) string {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b Death) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Node, b.Node)) })
	list = list[:min(len(list), Most)]
	for i := range list {
		list[i].At = list[i].At.UTC().Truncate(time.Second)
	}
	for {
		text, err := json.Marshal(list)
		if err != nil || len(list) == 0 {
			return "[]" // a year after 9999, which no clock shows
		}
		if len(text) <= MostBytes {
			return string(text)
		}
		list = list[:len(list)-1]
	}
}

// Decode reads an annotation. Entries that are not deaths ([Death.Valid]) are left out: a later version may say more
// kinds of things, and this one acts on none of them. A proof that a later version adds has to be a word of at most
// 16 characters: a death that is left out counts as withdrawn.
func Decode(text string) ([]Death, error) {
	if len(text) > MostBytes {
		return nil, fmt.Errorf("annotation %s: %d bytes, at most %d are read", Annotation, len(text), MostBytes)
	}
	var raw []json.RawMessage
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		return nil, fmt.Errorf("annotation %s: %w", Annotation, err)
	}
	var list []Death
	for _, r := range raw[:min(len(raw), Most)] {
		var d Death
		if json.Unmarshal(r, &d) == nil && d.Valid() {
			list = append(list, d)
		}
	}
	return list, nil
}

// Full reports whether an annotation may have lacked room for more deaths. A missing death then says nothing: the
// oldest is left out first, and has not been withdrawn.
func Full(text string) bool {
	var raw []json.RawMessage
	return len(text) > MostBytes-mostEntry || json.Unmarshal([]byte(text), &raw) == nil && len(raw) >= Most
}

// IsBoot reports whether a text names a boot: 16 lower-case hexadecimal digits, of which one at least is not 0.
func IsBoot(s string) bool {
	raw, err := hex.DecodeString(s)
	return err == nil && len(raw) == 8 && s == strings.ToLower(s) && strings.Trim(s, "0") != ""
}

// Boot is how deaths name the boot with this bootID (Node.status.nodeInfo.bootID): the first eight bytes of the
// kernel's boot id with the lowest bit set, as agents take it for their nonce. It is empty if bootID is not a boot
// id.
func Boot(bootID string) string {
	raw, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(bootID), "-", ""))
	if err != nil || len(raw) < 8 {
		return ""
	}
	raw[7] |= 1
	return hex.EncodeToString(raw[:8])
}

// Outside reports whether the proof of the death comes from outside the group: agents do not find such a proof themselves,
// and all repeat what one of them was told. A proof that this version does not know is taken for one from outside.
func (d *Death) Outside() bool {
	switch d.Proof {
	case "time", "boot", "sentence":
		return false
	}
	return true
}
