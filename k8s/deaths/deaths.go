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

// Annotation is the annotation in which an agent names deaths. It writes to its own Node only.
const Annotation = "fencing-agent.io/deaths"

const (
	// Most is the greatest number of deaths that are named at one time. With names of usual length, that many fill
	// [MostBytes].
	Most = 64
	// MostBytes is the greatest length of the annotation. The admission policy refuses longer ones.
	MostBytes = 8192
	// mostEntry is more bytes than one death needs: names of Nodes have at most 253.
	mostEntry = 512
	mostProof = 16
	latest    = 1 << 33 // seconds since 1970; greater than any real time of a death
)

// Death states that one incarnation of a node, from one boot to the next, has ended. All programs pass a death in this
// form, from the one that proves it to those that act on it. A controller sends Reference and Contradicted to agents;
// they are not in the annotation. By is only set inside the program that read the death.
type Death struct {
	Node  string    `json:"node"`
	Boot  string    `json:"boot"`  // of the incarnation that ended: 16 hexadecimal digits
	Proof string    `json:"proof"` // as in the log: "time", "boot", "sentence", "power", "kdump", "operator"; "hearsay": a sentence that others have handed on
	At    time.Time `json:"at"`    // when the agent concluded it, by the agent's clock; for people
	// Said is the boot of the agent's node in which the agent concluded it, in the same form. A report from an earlier
	// boot is still valid, but the agent has not checked it since.
	Said string `json:"said,omitempty"`

	By           string `json:"-"` // the node whose agent reports it
	Reference    string `json:"-"` // what has proven it from outside the group: a NodeFence
	Contradicted bool   `json:"-"` // that boot was heard after its death was proven
}

// Valid reports whether the death names a node and a boot, and no field is too long or contains control characters.
func (d *Death) Valid() bool {
	return d.Node != "" && plain(d.Node, longestName) && IsBoot(d.Boot) && plain(d.Proof, mostProof) && (d.Said == "" || IsBoot(d.Said)) &&
		plain(d.Reference, longestName) && (d.At.IsZero() || d.At.Unix() >= 0 && d.At.Unix() <= latest)
}

// plain reports whether a text has at most longest bytes, and only printable ASCII.
func plain(s string, longest int) bool {
	return len(s) <= longest && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// Encode returns the annotation for these deaths, the newest first. If there is no room for all, the oldest are left
// out.
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

// Decode reads an annotation. It leaves out entries that are not deaths ([Death.Valid]): a later version may add other
// kinds of entries, and this version ignores them. A proof that a later version adds has to be a word of at most 16
// characters, because a death that is left out counts as withdrawn.
func Decode(text string) ([]Death, error) {
	if len(text) > MostBytes {
		return nil, fmt.Errorf("annotation %s: it has %d bytes, but must have at most %d", Annotation, len(text), MostBytes)
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

// Full reports whether an annotation may have had no room for more deaths. A missing death then means nothing: it may
// have been left out, not withdrawn.
func Full(text string) bool {
	var raw []json.RawMessage
	return len(text) > MostBytes-mostEntry || json.Unmarshal([]byte(text), &raw) == nil && len(raw) >= Most
}

// IsBoot reports whether a text names a boot: 16 lower-case hexadecimal digits that are not all 0.
func IsBoot(s string) bool {
	raw, err := hex.DecodeString(s)
	return err == nil && len(raw) == 8 && s == strings.ToLower(s) && strings.Trim(s, "0") != ""
}

// Boot is the name in deaths of the boot with this bootID (Node.status.nodeInfo.bootID). It is the first eight bytes of
// the kernel's boot ID with the lowest bit set, which is also how agents derive their nonce. It is empty if bootID is
// not a boot ID.
func Boot(bootID string) string {
	raw, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(bootID), "-", ""))
	if err != nil || len(raw) < 8 {
		return ""
	}
	raw[7] |= 1
	return hex.EncodeToString(raw[:8])
}

// Outside reports whether the proof of the death comes from outside the group. Agents do not find such a proof
// themselves, and all repeat what one of them was told. A proof that this version does not know counts as one from
// outside.
func (d *Death) Outside() bool {
	switch d.Proof {
	case "time", "boot", "sentence":
		return false
	}
	return true
}
