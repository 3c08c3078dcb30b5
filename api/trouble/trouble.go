package trouble

import (
	"context"
	"log/slog"
	"regexp"
	"slices"
	"strings"
)

// Severity tells how soon a person is needed.
type Severity uint8

// These are the severities, as the alerts name them.
const (
	Info     Severity = iota // worth knowing
	Warning                  // a protection is weaker than it should be: act within days
	Critical                 // somebody may be reset, or was: now
)

// String returns the label of an alert.
func (s Severity) String() string { return [...]string{"info", "warning", "critical"}[s] }

// Trouble is one thing that can be wrong.
type Trouble struct {
	Code     string // by which programs and the document identify it
	Severity Severity
	// Sentence contains names in braces, {node} or {device}, which an alert replaces. The node itself uses Here.
	Sentence string
	Means    string // one or two sentences, for an alert
	Do       string // what a person does first
	Section  string // the anchor of its section in docs/troubleshooting.md
	Alert    string // of the chart; empty: none
	Over     string // what the log reports at its end; empty: nothing
	// Unless lists the codes of troubles that explain this one, of the same subject or of the whole node. It is not
	// shown together with them.
	Unless []string
}

var placeholder = regexp.MustCompile(` ?\(?\{[a-z]+\}\)?`)

// Here returns the sentence for a report of the node about itself.
func (t *Trouble) Here() string {
	text, _, _ := strings.Cut(t.Sentence, ": {value}")
	text = strings.NewReplacer("the group {group}", "this group", "{node} ({group})", "this node", "{node}", "this node", "{group}", "this group",
		"network {network}", "a network", "{breaker}", "the tie-breaker").Replace(text)
	return placeholder.ReplaceAllString(text, "")
}

// Log logs the beginning of the trouble.
func (t *Trouble) Log(log *slog.Logger, attrs ...any) {
	level := [...]slog.Level{slog.LevelInfo, slog.LevelWarn, slog.LevelError}[t.Severity]
	log.Log(context.Background(), level, t.Here(), append(attrs, "trouble", t.Code, "do", t.Do)...)
}

// Ended logs the end of the trouble.
func (t *Trouble) Ended(log *slog.Logger, attrs ...any) {
	log.Info(t.Over, append(attrs, "trouble", t.Code)...)
}

// Found is a trouble of a subject: a network, a device. An empty subject is the whole node.
type Found struct {
	*Trouble
	Subject string
}

// Explained reports whether one of the others that were found explains f.
func (f Found) Explained(all []Found) bool {
	return slices.ContainsFunc(all, func(o Found) bool {
		return slices.Contains(f.Unless, o.Code) && (o.Subject == "" || f.Subject == "" || o.Subject == f.Subject)
	})
}
