package fencing

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// A later version of the controller may store more fields in a NodeFence, or in a remediation, than this version knows.
// During an upgrade both versions run at the same time.
//
// Invariant: fields of a spec or status that this version does not know stay as they were read, in each nested object,
// as long as that object exists. Otherwise a Job would be confirmed without what its record asks for, and limits would
// be forgotten.

// Both types without their methods.
type (
	plain            NodeFence
	plainRemediation FencingRemediation
)

// UnmarshalJSON also keeps the text that was read.
func (n *NodeFence) UnmarshalJSON(text []byte) error {
	var p plain
	if err := json.Unmarshal(text, &p); err != nil {
		return err
	}
	*n = NodeFence(p)
	n.read = bytes.Clone(text)
	return nil
}

// MarshalJSON encodes the object as it is now, with the unknown fields that were read.
func (n NodeFence) MarshalJSON() ([]byte, error) { return marshal(plain(n), n.read) }

// UnmarshalJSON also keeps the text that was read.
func (m *FencingRemediation) UnmarshalJSON(text []byte) error {
	var p plainRemediation
	if err := json.Unmarshal(text, &p); err != nil {
		return err
	}
	*m = FencingRemediation(p)
	m.read = bytes.Clone(text)
	return nil
}

// MarshalJSON encodes the object as it is now, with the unknown fields that were read.
func (m FencingRemediation) MarshalJSON() ([]byte, error) {
	return marshal(plainRemediation(m), m.read)
}

func marshal[P any](p P, read []byte) ([]byte, error) {
	text, err := json.Marshal(p)
	if err != nil || read == nil {
		return text, err
	}
	var before P
	if err := json.Unmarshal(read, &before); err != nil {
		return nil, fmt.Errorf("the object as it was read is not valid JSON: %w", err)
	}
	known, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	var was, is, now map[string]any
	for from, to := range map[*map[string]any][]byte{&was: read, &is: known, &now: text} {
		d := json.NewDecoder(bytes.NewReader(to))
		d.UseNumber()
		if err := d.Decode(from); err != nil {
			return nil, fmt.Errorf("cannot decode the object as it was read: %w", err)
		}
	}
	for _, part := range []string{"spec", "status"} {
		if now[part] == nil && was[part] != nil {
			now[part] = map[string]any{} // this version knows none of its fields
		}
		if now[part] != nil {
			now[part] = carry(was[part], is[part], now[part])
		}
	}
	return json.Marshal(now)
}

// carry adds to now every field of was that is missing in known. known is the same object as this version understands
// it.
func carry(was, known, now any) any {
	switch now := now.(type) {
	case map[string]any:
		was, _ := was.(map[string]any)
		known, _ := known.(map[string]any)
		for name, value := range was {
			understood, there := known[name]
			switch later, stays := now[name]; {
			case stays:
				now[name] = carry(value, understood, later)
			case !there:
				now[name] = value
			}
		}
	case []any:
		was, _ := was.([]any)
		known, _ := known.([]any)
		for i, one := range now {
			for j := range min(len(was), len(known)) {
				if key := keyOf(one); key != "" && key == keyOf(known[j]) {
					now[i] = carry(was[j], known[j], one)
				}
			}
		}
	}
	return now
}

// keyOf identifies an object in a list: a Job, a storage, a condition. Empty: it has no key.
func keyOf(one any) string {
	o, _ := one.(map[string]any)
	for _, name := range []string{"name", "driver", "type"} {
		if key, ok := o[name].(string); ok {
			return fmt.Sprint(name, "=", key, " ", o["uid"])
		}
	}
	return ""
}
