package swim

import (
	"context"
	"log/slog"
	"strings"
	"time"
)

// quietTime is the minimum time between two lines about the same problem.
const quietTime = time.Minute

// journal accepts log lines from code under memberlist's locks, where nothing may block, and writes them from a
// separate goroutine. It also finds in memberlist's log the events that memberlist reports nowhere else: packets with a
// foreign label or key.
type journal struct {
	log     *slog.Logger
	refused func(refusal)
	entries chan entry
}

// entry is one line; a non-empty key limits lines with this key to one per quietTime.
type entry struct {
	level slog.Level
	msg   string
	key   string
	attrs []slog.Attr
}

func newJournal(log *slog.Logger, refused func(refusal)) *journal {
	return &journal{log: log, refused: refused, entries: make(chan entry, 256)}
}

// post never blocks; what does not fit is lost.
func (j *journal) post(e entry) {
	if !j.log.Enabled(context.Background(), e.level) {
		return
	}
	select {
	case j.entries <- e:
	default:
	}
}

// warn posts a warning that may recur with every packet.
func (j *journal) warn(key, msg string, attrs ...slog.Attr) {
	j.post(entry{level: slog.LevelWarn, msg: msg, key: key, attrs: attrs})
}

func (j *journal) run(ctx context.Context) {
	type silence struct {
		until   time.Time
		skipped int
	}
	silences := make(map[string]silence) // the keys are few and fixed in this package
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-j.entries:
			if e.key != "" {
				s := silences[e.key]
				if time.Now().Before(s.until) {
					s.skipped++
					silences[e.key] = s
					continue
				}
				silences[e.key] = silence{until: time.Now().Add(quietTime)}
				if s.skipped > 0 {
					e.attrs = append(e.attrs, slog.Int("skipped", s.skipped))
				}
			}
			j.log.LogAttrs(ctx, e.level, e.msg, e.attrs...)
		}
	}
}

// complaints lists the memberlist v0.7.0 log lines that mean a refused packet or stream; tests provoke them.
var complaints = []struct {
	text    string
	refusal refusal
	msg     string
}{
	// This text must be checked before the texts that it may quote. A silent stream that reaches its deadline also
	// causes this line.
	{"label header cannot be empty", refusedMalformed, "refused undecodable gossip"},
	{"remove the stream label header", refusedCut, "a stream ended before its type was known: a peer gave up, or a port scan"},
	{"with unacceptable label", refusedLabel, "refused gossip of another cluster, group or network: check addresses, ports and network names"},
	{"Decrypt packet failed", refusedKey, "refused gossip with an unknown key: give all nodes the same key file"},
	{"no installed keys could decrypt", refusedKey, "refused gossip with an unknown key: give all nodes the same key file"},
	{"encryption is not configured", refusedKey, "refused encrypted gossip: give all nodes the same key file"},
	{"remote state is not encrypted", refusedKey, "refused unencrypted gossip: give all nodes the same key file"},
	{"Failed to decode", refusedMalformed, "refused undecodable gossip"},
	{"not supported", refusedMalformed, "refused undecodable gossip"},
	{"invalid checksum", refusedMalformed, "refused undecodable gossip"},
	{"cannot decode label", refusedMalformed, "refused undecodable gossip"},
	{"missing message type", refusedMalformed, "refused undecodable gossip"},
}

// Write handles one line of memberlist's logger. Nearly all lines repeat what the delegates and the evidence report, so
// they are only for debugging.
func (j *journal) Write(p []byte) (int, error) {
	line := strings.TrimSpace(string(p))
	level, text := splitLevel(line)
	if strings.Contains(text, errFrame.Error()) {
		level = slog.LevelDebug // the refusal was already logged and counted
	}
	if level >= slog.LevelWarn {
		for _, c := range complaints {
			if strings.Contains(text, c.text) {
				j.refused(c.refusal)
				j.warn(string(c.refusal), c.msg, slog.String("detail", text))
				return len(p), nil
			}
		}
	}
	if level >= slog.LevelError {
		j.warn("memberlist", "memberlist reported an error", slog.String("detail", text))
		return len(p), nil
	}
	j.post(entry{level: slog.LevelDebug, msg: text})
	return len(p), nil
}

// splitLevel takes "[ERR] memberlist: text" apart.
func splitLevel(line string) (slog.Level, string) {
	level, text := slog.LevelDebug, line
	if rest, ok := strings.CutPrefix(line, "["); ok {
		if word, tail, ok := strings.Cut(rest, "]"); ok {
			text = tail
			switch word {
			case "WARN":
				level = slog.LevelWarn
			case "ERR", "ERROR":
				level = slog.LevelError
			}
		}
	}
	text = strings.TrimPrefix(strings.TrimSpace(text), "memberlist: ")
	return level, text
}
