package calibration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/fencing-agent/fencing-agent/watchdog"
)

// Trial is one time that a watchdog was left unfed to see whether it resets the machine.
type Trial struct {
	Identity string        `json:"identity"`           // what its driver calls itself
	Firmware string        `json:"firmware,omitempty"` // the machine's; empty: unknown
	Timeout  time.Duration `json:"timeout"`            // as the driver read it back
	Boot     uint64        `json:"boot"`               // in which it began, see procfs.BootNonce
	Began    time.Time     `json:"began"`              // by the wall clock, for people

	// Ran is how long after the last feed the machine ran for certain, and Next when it would have shown that again.
	Ran  time.Duration `json:"ran"`
	Next time.Duration `json:"next"`
	// End says how it ended without a reset; empty: it did not.
	End End `json:"end,omitempty"`
}

// End is how a trial ended without a reset.
type End string

const (
	CalledOff End = "called-off" // nothing is known
	Failed    End = "failed"     // the watchdog has not fired, long after it should have
	// Outlived: the program was killed, and an agent started in that boot. Nothing is known, and nothing is repeated: the
	// watchdog may count down still.
	Outlived End = "outlived"
)

// early is by how much a watchdog may fire before its timeout: drivers count in ticks.
const early = time.Second

// Result is what a trial has shown.
type Result uint8

const (
	Nothing Result = iota // it was called off, goes on, or its program was killed
	Early                 // the machine was reset before the timeout: not by the watchdog, or by one that fires too early
	Fired
	NeverFired
)

// Result judges a trial from the boot now.
//
// Invariant: a trial counts as a reset by the watchdog only in another boot, and only if the machine ran to the end of the
// timeout: else something else has reset it, and the watchdog may fire later, or never.
func (t *Trial) Result(now uint64) Result {
	switch {
	case t.End == Failed:
		return NeverFired
	case t.End != "" || t.Boot == now || t.Boot == 0 || now == 0:
		return Nothing
	case t.Ran == 0 || t.Ran < t.Timeout-min(early, t.Timeout/10):
		return Early
	}
	return Fired
}

// Latest is how long after the last feed the watchdog has fired at the latest, if it did: a reset falls between the
// last moment on record and the next that there would have been.
func (t *Trial) Latest() time.Duration { return max(t.Ran, t.Next) }

// Last returns the latest trial of a driver with this firmware that has shown something in the boot now; nil: there is
// none.
func Last(trials []Trial, identity, firmware string, now uint64) *Trial {
	for i := len(trials) - 1; i >= 0; i-- {
		t := &trials[i]
		if r := t.Result(now); t.Identity == identity && t.Firmware == firmware && (r == Fired || r == NeverFired) {
			return t
		}
	}
	return nil
}

// Untried reports whether no trial of a driver with this firmware has reset the machine, or failed. What reset the machine
// before the timeout was up counts as well: it would do so again at each boot that tries it.
func Untried(trials []Trial, identity, firmware string, now uint64) bool {
	for i := range trials {
		if t := &trials[i]; t.Identity == identity && t.Firmware == firmware && (t.Result(now) != Nothing || t.End == Outlived) {
			return false
		}
	}
	return true
}

// Measured is what the trials say of a driver in the boot now, for the sums of the agent.
//
// Invariant: the most that a watchdog of this driver has ever been late counts, also where a later trial was in time, where
// another firmware runs now, and where nobody waited for the reset. That it did not fire counts until one has fired in
// time with the same firmware: a late reset may have been somebody's who did not want to wait.
func Measured(trials []Trial, identity, firmware string, now uint64) (m watchdog.Measured) {
	for i := range trials {
		t := &trials[i]
		if t.Identity != identity {
			continue
		}
		known := watchdog.Driver{Identity: identity}.Latest(t.Timeout)
		late, result := t.Ran, t.Result(now)
		switch {
		case result == Fired && watchdog.Late(known, t.Latest()):
			late = t.Latest()
		case result != Fired && (t.End == "" || !watchdog.Late(known, t.Ran)):
			late = 0 // it shows nothing, or nothing late
		}
		m.Offset = max(m.Offset, late-known)
		if late > known {
			m.Factor = max(m.Factor, float64(late)/float64(known))
		}
		m.Fired = m.Fired || result == Fired
		if t.Firmware == firmware && (result == NeverFired || result == Fired && !watchdog.Late(known, t.Latest())) {
			m.Failed = result == NeverFired
		}
	}
	return m
}

// Every is the time between two moments at which a machine shows that it still runs.
const Every = 100 * time.Millisecond

// version is that of the file.
const version = 1

// Line is one of the file.
type Line struct {
	Version int           `json:"version,omitempty"` // of the first line
	Trial   *Trial        `json:"trial,omitempty"`
	Ran     time.Duration `json:"ran,omitempty"`
	Next    time.Duration `json:"next,omitempty"`
	End     End           `json:"end,omitempty"`
}

// Decode reads a file. A last line that is not complete was being written when the machine was reset: it counts as
// if it were not there. Any other line that cannot be read is an error, since it may be what shows how late a watchdog
// is. The trials above it are returned with the error.
func Decode(text []byte) (trials []Trial, err error) {
	if end := bytes.LastIndexByte(text, '\n'); end >= 0 {
		text = text[:end]
	} else {
		return nil, errors.New("it has no complete line: remove it, and try the watchdog again")
	}
	for i, l := range bytes.Split(text, []byte{'\n'}) {
		var v Line
		if err := json.Unmarshal(l, &v); err != nil {
			return trials, fmt.Errorf("line %d: %w", i+1, err)
		}
		switch {
		case i == 0 && v.Version != version:
			return nil, fmt.Errorf("it has format %d, and this program knows %d: use the one that wrote it", v.Version, version)
		case i == 0:
		case v.Trial != nil:
			if v.Trial.Timeout <= 0 {
				return trials, fmt.Errorf("line %d: a timeout of %v", i+1, v.Trial.Timeout)
			}
			trials = append(trials, *v.Trial)
		case len(trials) == 0:
			return nil, fmt.Errorf("line %d: it belongs to no trial", i+1)
		default:
			t := &trials[len(trials)-1]
			t.Ran, t.Next, t.End = max(t.Ran, v.Ran), max(t.Next, v.Next), v.End
		}
	}
	return trials, nil
}

// Encode is the file with these trials, one line each.
func Encode(trials []Trial) []byte {
	b := (&Line{Version: version}).Encode()
	for i := range trials {
		b = append(b, (&Line{Trial: &trials[i]}).Encode()...)
	}
	return b
}

// Encode is the line, with its end.
func (l *Line) Encode() []byte {
	b, err := json.Marshal(l)
	if err != nil {
		panic(err) // it has nothing that JSON does not
	}
	return append(b, '\n')
}
