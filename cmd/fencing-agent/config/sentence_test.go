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
		{"off", "", "{selfFence: none}", 0, false},
		{"off, after", "", "{selfFence: none}\nexperimental: {selfFenceAfter: 7s}", 0, false},
		{"longer", "", "{}\nexperimental: {selfFenceAfter: 7s}", 7 * time.Second, false},
		{"too short", "", "{}\nexperimental: {selfFenceAfter: 1s}", 2500 * time.Millisecond, true},
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
				warned = warned || strings.HasPrefix(w.String(), "experimental.selfFenceAfter: is shorter")
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
	for _, bad := range []string{"watchdog: {selfFence: off}", "watchdog: {selfFence: true}", "experimental: {selfFenceAfter: 100ms}", "experimental: {selfFenceAfter: 5}"} {
		if _, _, err := parse("f", []byte(with(bad)), noEnv, hostname); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

// The loss of the LUN is a ground only where it stops a node.
func TestSentenceOnLUNLoss(t *testing.T) {
	on := func(mode, more string) string {
		return with("lun: {devices: [/dev/mapper/fence], mode: "+mode+"}", "watchdog: {selfFence: quorum-or-lun"+more+"}")
	}
	for mode, ok := range map[string]bool{"and": true, "or": false, "tiebreaker": false} {
		cfg, _, err := parse("f", []byte(on(mode, "")), noEnv, hostname)
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "watchdog.selfFence: needs lun.mode: and") {
			t.Errorf("%s: %v", mode, err)
		}
		if err == nil && !cfg.Sentencing().LUNLoss {
			t.Error("it has no effect")
		}
	}
	if cfg, _ := mustParse(t, with("lun: {devices: [/dev/mapper/fence], mode: and}"), noEnv); cfg.Sentencing().LUNLoss {
		t.Error("it is the default")
	}
	_, warnings, err := parse("f", []byte(on("and", ", driver: none")), noEnv, hostname)
	if lines := strings.Join(Lines("f", warnings), "\n"); err != nil || !strings.Contains(lines, "watchdog.selfFence: has no effect: watchdog.driver is none") {
		t.Errorf("%v, %s", err, lines)
	}
}

// The check reports what keeps a node from condemning itself, if somebody configured the sentence or if the guard is
// worse for the lack of it.
func TestSentenceThatHasNoEffect(t *testing.T) {
	const lun, asked = "lun: {devices: [/dev/mapper/fence]}", "experimental: {selfFenceAfter: 7s}"
	for name, c := range map[string]struct {
		lines []string
		want  string // beginning of the warning; empty: none
	}{
		"works":           {[]string{lun, asked}, ""},
		"default, no LUN": {nil, ""},
		"no LUN":          {[]string{asked}, "experimental.selfFenceAfter: has no effect: there is no LUN"},
		"no hold":         {[]string{"lun: {devices: [/dev/mapper/fence], hold: false}", asked}, "experimental.selfFenceAfter: has no effect: lun.hold is false"},
		"policy":          {[]string{lun, "onQuorumLoss: wait", asked}, "experimental.selfFenceAfter: has no effect: onQuorumLoss is wait"},
		"dry run":         {[]string{lun, "watchdog: {driver: none}", asked}, "experimental.selfFenceAfter: has no effect: watchdog.driver is none"},
		"short":           {[]string{lun, "watchdog: {timeout: 3s}"}, "watchdog.timeout: is not longer than the longest countdown of a condemned boot"},
		"short, off":      {[]string{lun, "watchdog: {timeout: 3s, selfFence: none}"}, ""},
		"a second longer": {[]string{lun, "watchdog: {timeout: 4s}"}, ""},
		"short, no LUN":   {[]string{"watchdog: {timeout: 3s}"}, ""},
	} {
		_, warnings := mustParse(t, with(c.lines...), noEnv)
		got := ""
		for _, w := range warnings {
			if s := w.String(); strings.Contains(s, "has no effect") && !strings.HasPrefix(s, "lun.") || strings.Contains(s, "condemned boot") {
				got += s
			}
		}
		if !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: warned %q, want %q", name, got, c.want)
		}
	}
}
