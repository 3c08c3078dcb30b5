package lunadmin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/diskquorum/rawdev"
)

// ShareOptions say how two nodes find out whether they see one LUN.
type ShareOptions struct {
	Nonce   uint64        // the same on both nodes, not zero
	Answer  bool          // this is the second node: it answers what the first one writes
	Wait    time.Duration // for the other node; 0: two minutes
	Poll    time.Duration // between two reads; 0: 2 ms
	Waiting func(r *ShareReport)
}

// ShareReport says what two nodes saw of each other. Its JSON form is part of fencectl's
// interface.
type ShareReport struct {
	Device    *DeviceReport `json:"device,omitempty"`
	ID        string        `json:"id"`
	Nonce     string        `json:"nonce"`
	Role      string        `json:"role"`   // first or second
	Rounds    int           `json:"rounds"` // in which each read what the other had written
	RoundTrip Latency       `json:"roundTrip"`
	Torn      int           `json:"torn"`   // reads that saw a write of the other half done
	Others    int           `json:"others"` // rounds that the check of a third node disturbed
	Wrote     string        `json:"wrote"`
	Warnings  []string      `json:"warnings"`
}

// NewNonce returns a nonce for ShareOptions.
func NewNonce() (uint64, error) {
	n, err := random63()
	return max(n, 1), err
}

const (
	shareRounds = 50
	shareWait   = 2 * time.Minute
	sharePoll   = 2 * time.Millisecond

	lingerBeside = 2 * time.Second // a check writes more often than that
)

// SharePath opens a device and plays one part of the check.
func SharePath(ctx context.Context, path string, o ShareOptions) (*ShareReport, error) {
	dev, err := rawdev.Open(path, rawdev.Options{})
	if err != nil {
		return nil, err
	}
	r, err := Share(ctx, dev, o)
	if cerr := dev.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, fmt.Errorf("check %s: %w", path, err)
	}
	r.Device = deviceReport(path, dev)
	if w := dev.Warning(); w != "" {
		r.Warnings = append(r.Warnings, w)
	}
	return r, nil
}

// Share plays ball with another node over the scratch block: the first node writes the
// nonce with even counts, the second one answers each with the odd count after it. So each
// read proves that what the other node wrote is seen here, whole and not out of a cache.
func Share(ctx context.Context, raw diskquorum.Device, o ShareOptions) (*ShareReport, error) {
	if o.Wait <= 0 {
		o.Wait = shareWait
	}
	if o.Poll <= 0 {
		o.Poll = sharePoll
	}
	dev := &interruptible{ctx: ctx, Device: raw}
	sb, err := openLUN(dev)
	if err != nil {
		return nil, err
	}
	s := &sharer{o: &o, dev: dev, sb: sb, off: diskquorum.ScratchOffset(sb.Slots), block: make([]byte, diskquorum.BlockSize)}
	s.report = ShareReport{ID: fmt.Sprintf("%x", sb.ID), Nonce: fmt.Sprintf("%016x", o.Nonce), Role: "first", Wrote: scratchWords(sb), Warnings: []string{}}
	if o.Answer {
		s.report.Role = "second"
	}
	if err := s.play(ctx); err != nil {
		return nil, err
	}
	s.report.RoundTrip = latency(s.trips)
	return &s.report, nil
}

type sharer struct {
	o       *ShareOptions
	dev     diskquorum.Device
	sb      *diskquorum.Superblock
	off     int64
	block   []byte
	written bool   // this node has thrown once
	last    uint64 // count this node wrote last
	back    int    // reads that showed an older write than our last one
	trips   []time.Duration
	report  ShareReport
}

// play runs all rounds. The last ball is the first node's, so that the second one ends too.
func (s *sharer) play(ctx context.Context) error {
	if s.o.Waiting != nil {
		s.o.Waiting(&s.report)
	}
	for round := range uint64(shareRounds) {
		expected := 2*round + 1
		if s.o.Answer {
			expected = 2 * round
		} else if err := s.throw(2 * round); err != nil {
			return err
		}
		start := time.Now()
		if err := s.catch(ctx, expected); err != nil {
			return err
		}
		if s.written {
			s.trips = append(s.trips, time.Since(start))
		}
		s.report.Rounds++
		if s.o.Answer {
			if err := s.throw(expected + 1); err != nil {
				return err
			}
		}
	}
	if s.o.Answer {
		return s.catch(ctx, 2*shareRounds)
	}
	if err := s.throw(2 * shareRounds); err != nil {
		return err
	}
	return s.linger(ctx)
}

// linger guards the last ball, which nobody answers: the check of a third node may take it away before the other one has
// seen it. Where one has done so before it may do it again, so that takes longer.
func (s *sharer) linger(ctx context.Context) error {
	quiet := func() time.Time {
		if s.report.Others+s.back > 0 {
			return time.Now().Add(lingerBeside)
		}
		return time.Now().Add(10 * s.o.Poll)
	}
	for end := quiet(); time.Now().Before(end); {
		if err := sleep(ctx, s.o.Poll); err != nil {
			return err
		}
		disturbed := s.report.Others + s.back
		if _, err := s.read(s.last); err != nil {
			return err
		}
		if s.report.Others+s.back > disturbed {
			end = quiet()
		}
	}
	return nil
}

func (s *sharer) throw(count uint64) error {
	if err := diskquorum.EncodeScratch(s.block, s.sb, s.o.Nonce, count); err != nil {
		return err
	}
	_, err := s.dev.WriteAt(s.block, s.off)
	s.written, s.last = true, count
	return err
}

// catch reads until the other node's count is there.
func (s *sharer) catch(ctx context.Context, expected uint64) error {
	for end := time.Now().Add(s.o.Wait); ; {
		done, err := s.read(expected)
		if done || err != nil {
			return err
		}
		if time.Now().After(end) {
			return s.silence()
		}
		if err := sleep(ctx, s.o.Poll); err != nil {
			return err
		}
	}
}

func (s *sharer) read(expected uint64) (done bool, err error) {
	if _, err := s.dev.ReadAt(s.block, s.off); err != nil {
		return false, err
	}
	run, count, err := diskquorum.DecodeScratch(s.block, s.sb)
	switch {
	case errors.Is(err, diskquorum.ErrTorn):
		s.report.Torn++
		return false, nil
	case errors.Is(err, diskquorum.ErrBlank) && !s.written:
		return false, nil
	case err != nil:
		return false, fmt.Errorf("the scratch block is neither what this node wrote nor what the other did: %w", err)
	case run != s.o.Nonce && s.written:
		s.report.Others++ // the check of a third node: throw again
		return false, s.throw(s.last)
	case run != s.o.Nonce:
		return false, nil
	case count == expected:
		return true, nil
	case count > expected:
		return false, fmt.Errorf("the other node is at %d, %d was expected: start both sides again, with a new nonce", count, expected)
	case s.written && count < s.last:
		// A cache, or the other node repeated its write because a third one's check took it
		// away: then ours is repeated and all is well.
		s.back++
		return false, s.throw(s.last)
	}
	return false, nil
}

func (s *sharer) silence() error {
	if s.back > 0 {
		return fmt.Errorf("%d times an older write was read back than the last one: there is a cache between this node and the LUN, which no lease survives", s.back)
	}
	if !s.written || s.report.Rounds == 0 {
		return fmt.Errorf("nothing of the other node was seen for %v: is the command running there, with this nonce? If it is, the two nodes do not see the same LUN "+
			"(compare the id %s), or one of them sees a cache", s.o.Wait, s.report.ID)
	}
	return fmt.Errorf("the other node has not answered for %v in round %d: has it ended?", s.o.Wait, s.report.Rounds+1)
}
