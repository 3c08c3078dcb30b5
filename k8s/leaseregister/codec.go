package leaseregister

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/fencing-agent/fencing-agent/k8s/leasequorum"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// Annotation holds the record.
const Annotation = "fencing-agent.io/grant"

// format is the version of the annotation's content.
const format = 1

// wire is the record in JSON. Nonces are hexadecimal strings, since some JSON tools do not keep numbers of 64 bits.
type wire struct {
	Format   int          `json:"format"`
	Instance uint64       `json:"instance"`
	Epoch    uint64       `json:"rosterEpoch"`
	Digest   string       `json:"rosterDigest"`
	Holders  []wireHolder `json:"holders"`
	Writer   wireTag      `json:"writer"`
	Horizon  uint32       `json:"horizonMs,omitempty"` // absent: not stated; the same applies to a holder
}

type wireHolder struct {
	Node    string `json:"node"`
	Boot    string `json:"boot"`
	Counter uint32 `json:"counter"`
	Horizon uint32 `json:"horizonMs,omitempty"`
}

type wireTag struct {
	Boot     string `json:"boot"`
	Process  string `json:"process"`
	Sequence uint64 `json:"sequence"`
}

func hexOf(n uint64) string { return strconv.FormatUint(n, 16) }

// millisUp rounds up, since a time that is too short is unsafe.
func millisUp(d time.Duration) uint32 {
	return uint32(min(max(0, (d+time.Millisecond-1)/time.Millisecond), math.MaxUint32))
}

func fromMillis(ms uint32) time.Duration { return time.Duration(ms) * time.Millisecond }

// encode encodes a record.
func encode(r *leasequorum.Record) (string, error) {
	w := wire{
		Format: format, Instance: r.Instance, Epoch: r.Grant.Roster.Epoch, Digest: hexOf(r.Grant.Roster.Digest),
		Holders: make([]wireHolder, len(r.Grant.Holders)),
		Writer:  wireTag{hexOf(r.Tag.Boot), hexOf(r.Tag.Process), r.Tag.Sequence},
		Horizon: millisUp(r.Horizon),
	}
	for i, h := range r.Grant.Holders {
		w.Holders[i] = wireHolder{h.Node, hexOf(h.Token.Nonce), h.Token.Counter, millisUp(h.Horizon)}
	}
	text, err := json.Marshal(w)
	return string(text), err
}

// decode reads the output of encode, and refuses everything else.
func decode(text string) (r leasequorum.Record, err error) {
	var w wire
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&w); err != nil {
		return r, err
	}
	if d.More() {
		return r, errors.New("there is more than one JSON value")
	}
	switch {
	case w.Format != format:
		return r, fmt.Errorf("the record has format %d, but this version only reads format %d", w.Format, format)
	case len(w.Holders) > roster.MaxNodes:
		return r, fmt.Errorf("%d holders", len(w.Holders))
	}
	number := func(s string) uint64 {
		n, e := strconv.ParseUint(s, 16, 64)
		err = errors.Join(err, e)
		return n
	}
	r = leasequorum.Record{
		Instance: w.Instance,
		Grant:    leasequorum.Grant{Roster: roster.Ref{Epoch: w.Epoch, Digest: number(w.Digest)}},
		Tag:      leasequorum.Tag{Boot: number(w.Writer.Boot), Process: number(w.Writer.Process), Sequence: w.Writer.Sequence},
		Horizon:  fromMillis(w.Horizon),
	}
	for _, h := range w.Holders {
		if h.Node == "" {
			return leasequorum.Record{}, errors.New("a holder has no name")
		}
		token := netgossip.Token{Nonce: number(h.Boot), Counter: h.Counter}
		r.Grant.Holders = append(r.Grant.Holders, leasequorum.Holder{Node: h.Node, Token: token, Horizon: fromMillis(h.Horizon)})
	}
	if err != nil {
		return leasequorum.Record{}, err
	}
	return r, nil
}

// decodeLease returns the record and the version in a Lease.
func decodeLease(l *coordinationv1.Lease) (leasequorum.Record, leasequorum.Version, error) {
	v := leasequorum.Version{UID: string(l.UID), Resource: l.ResourceVersion}
	if v.UID == "" || v.Resource == "" {
		return leasequorum.Record{}, v, fmt.Errorf("lease %s/%s: it has no uid or no resourceVersion", l.Namespace, l.Name)
	}
	r, err := decode(l.Annotations[Annotation])
	if err != nil {
		return r, v, fmt.Errorf("lease %s/%s: annotation %s: %w: if no newer agent wrote it, delete the Lease", l.Namespace, l.Name, Annotation, err)
	}
	return r, v, nil
}
