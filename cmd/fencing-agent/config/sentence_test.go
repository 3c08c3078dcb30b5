package config

import (
	"strings"
	"testing"
	"time"
)

func TestSentence(t *testing.T) {
	const lun = "lun: {devices: [/dev/mapper/fence]%s}"
	for _, c := range []struct {
		name, lun, dog string
		after          time.Duration
		warning        bool
	}{
		{"default", "", "{}", 5200 * time.Millisecond, false},
		{"off", "", "{sentenceAfter: off}", 0, false},
		{"as Helm writes it", "", "{sentenceAfter: false}", 0, false},
		{"longer", "", "{sentenceAfter: 7s, sentenceTimeout: 2s}", 7 * time.Second, false},
		{"too short", "", "{sentenceAfter: 1s}", 2500 * time.Millisecond, true},
		{"slow heartbeats", ", heartbeatInterval: 3s, ioTimeout: 8s", "{}", 8 * time.Second, false},
		{"nobody holds", ", hold: false", "{}", 0, false},
		{"a dry run", "", "{driver: none}", 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg, warnings := mustParse(t, with(strings.Replace(lun, "%s", c.lun, 1), "watchdog: "+c.dog), noEnv)
			if got := cfg.Sentencing(); got.After != c.after {
				t.Errorf("after %v, want %v", got.After, c.after)
			}
			warned := false
			for _, w := range warnings {
				warned = warned || strings.HasPrefix(w.String(), "watchdog.sentenceAfter: is shorter")
			}
			if warned != c.warning {
				t.Errorf("warnings %v", warnings)
			}
		})
	}
	cfg, _ := mustParse(t, with("onQuorumLoss: exclude", strings.Replace(lun, "%s", "", 1)), noEnv)
	if got := cfg.Sentencing(); got.After != 0 {
		t.Errorf("under another policy %v", got)
	}
	for dog, ok := range map[string]bool{
		"{timeout: 2s, feedInterval: 500ms}": true, "{timeout: 2s, feedInterval: 500ms, sentenceTimeout: 3s}": false,
		"{timeout: 4s, feedInterval: 1s}": true, "{timeout: 4s, feedInterval: 1s, sentenceTimeout: 2s}": false,
		"{timeout: 5s, feedInterval: 1s, sentenceTimeout: 2s}": true, "{timeout: 6s, feedInterval: 1s, sentenceTimeout: 3s}": false,
		"{timeout: 7s, feedInterval: 1s, sentenceTimeout: 3s}": true, "{timeout: 6s, feedInterval: 1s, sentenceTimeout: 3s, sentenceAfter: off}": true,
	} {
		_, _, err := parse("f", []byte(with(strings.Replace(lun, "%s", "", 1), "watchdog: "+dog)), noEnv, hostname)
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "watchdog.sentenceTimeout") {
			t.Errorf("%s: %v", dog, err)
		}
	}
	for _, bad := range []string{"{sentenceAfter: 100ms}", "{sentenceAfter: 5}", "{sentenceTimeout: 1500ms}", "{sentenceTimeout: 4s}"} {
		if _, _, err := parse("f", []byte(with("watchdog: "+bad)), noEnv, hostname); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}
