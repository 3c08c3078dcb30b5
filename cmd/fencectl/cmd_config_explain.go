package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/docs"
)

// keyPage is the description of a key in docs/configuration.md, as plain text.
type keyPage struct {
	Key     string `json:"key"`
	Section string `json:"section"`
	Default string `json:"default"`
	Allowed string `json:"allowed"`
	Nodes   string `json:"nodes"`
	Meaning string `json:"meaning"`
}

func newConfigExplainCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain [KEY]",
		Short: "Say what a key of the configuration means",
		Long: `Say what a key of the agent's configuration means: its default, what is allowed, the trade-off, and whether
all nodes of a group must have the same. It is what docs/configuration.md of this version says.

Without KEY it lists all keys by section; with the beginning of keys, such as lun, those.`,
		Example: `  fencectl config explain watchdog.timeout
  fencectl config explain lun
  fencectl config explain`,
		Args:              optional,
		ValidArgsFunction: cobra.FixedCompletions(config.Keys(), cobra.ShellCompDirectiveNoFileComp),
	}
	out := newPrinter(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		pages := keyPages(docs.Configuration + docs.Tuning)
		if len(args) == 0 {
			return out.print(env.stdout, pages, func(t *table) { listKeys(t, pages) })
		}
		key := plainKey(args[0])
		below := slices.DeleteFunc(slices.Clone(pages), func(p keyPage) bool { return !strings.HasPrefix(plainKey(p.Key), key+".") })
		if i := slices.IndexFunc(pages, func(p keyPage) bool { return plainKey(p.Key) == key }); i >= 0 {
			return out.print(env.stdout, pages[i], func(t *table) {
				t.row(pages[i].text())
				if len(below) > 0 {
					t.row("")
					listKeys(t, below)
				}
			})
		}
		now, former := config.FormerKey(key)
		switch {
		case len(below) > 0:
		case now != "":
			return usagef("%q is no longer a key; %s replaces it, and %s config migrate FILE writes a file with the new key", args[0], now, env.command())
		case former:
			return usagef("%q is no longer a key; %s config migrate FILE writes a file with what replaces it", args[0], env.command())
		default:
			return usagef("%q is not a key; %s config explain lists all keys", args[0], env.command())
		}
		return out.print(env.stdout, below, func(t *table) { listKeys(t, below) })
	}
	return cmd
}

// An element of a list may be named, numbered or left open: systemNetworks[mgmt].port, systemNetworks.port.
var element = regexp.MustCompile(`\[[^]]*\]`)

func plainKey(key string) string { return strings.Trim(element.ReplaceAllString(key, ""), ".") }

var keyRow = regexp.MustCompile("^\\| `([^`]+)` \\|([^|]*)\\|([^|]*)\\|([^|]*)\\|$")

// keyPages reads the rows of the page's tables that begin with a key.
func keyPages(markdown string) []keyPage {
	keys := config.Keys()
	var pages []keyPage
	section := ""
	for line := range strings.Lines(markdown) {
		line = strings.TrimSpace(line)
		if title, ok := strings.CutPrefix(line, "## "); ok {
			section = plainText(title)
		}
		m := keyRow.FindStringSubmatch(line)
		if m == nil || !slices.Contains(keys, m[1]) {
			continue
		}
		pages = append(pages, keyPage{
			Key: m[1], Section: section, Default: plainText(m[2]), Allowed: plainText(m[3]), Nodes: agreement(m[1]), Meaning: plainText(m[4]),
		})
	}
	return pages
}

// agreement describes whether all nodes must have the same value.
func agreement(key string) string {
	switch a, _ := config.AgreementOn(key); a {
	case config.MustAgree:
		return "the same on all nodes of the group"
	case config.OfANode:
		return "each node may have its own"
	default:
		return "may differ, and seldom should"
	}
}

var markdownLink = regexp.MustCompile(`\[([^\]]*)\]\(([^)]*)\)`)

// plainText removes the Markdown. It keeps the target of a link to another page, so that a reader can look for it.
func plainText(cell string) string {
	cell = markdownLink.ReplaceAllStringFunc(cell, func(link string) string {
		m := markdownLink.FindStringSubmatch(link)
		if page, _, _ := strings.Cut(m[2], "#"); page != "" && !strings.HasPrefix(m[1], "adr/") {
			if name := "docs/" + page; !strings.Contains(m[1], page) && !strings.Contains(page, "..") {
				return m[1] + " (" + name + ")"
			}
		}
		return m[1]
	})
	return strings.TrimSpace(strings.NewReplacer("`", "", "**", "", "<br>", " ", "&lt;", "<", "&gt;", ">").Replace(cell))
}

// pageWidth is the usual width of a terminal.
const pageWidth = 80

// text is the page: the facts, then what it means.
func (p keyPage) text() string {
	var b strings.Builder
	b.WriteString(p.Key + "\n")
	for _, fact := range []struct{ name, text string }{{"default", p.Default}, {"allowed", p.Allowed}, {"nodes", p.Nodes}, {"section", p.Section}} {
		lead := fmt.Sprintf("  %-9s", fact.name)
		for _, line := range wrapWords(fact.text, pageWidth-len(lead)) {
			b.WriteString(lead + line + "\n")
			lead = strings.Repeat(" ", len(lead))
		}
	}
	b.WriteString("\n")
	for _, line := range wrapWords(p.Meaning, pageWidth-2) {
		b.WriteString("  " + line + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// wrapWords breaks a text into lines of at most so many characters, except for words that are longer.
func wrapWords(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case len([]rune(line))+1+len([]rune(word)) > width:
			lines = append(lines, line)
			line = word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

// listKeys prints keys and defaults by section, one line each.
func listKeys(t *table, pages []keyPage) {
	widest := map[string]int{}
	for _, p := range pages {
		widest[p.Section] = max(widest[p.Section], len(p.Key))
	}
	section := ""
	for _, p := range pages {
		if p.Section != section {
			if section != "" {
				t.row("")
			}
			section = p.Section
			t.row(section)
		}
		lead := fmt.Sprintf("  %-*s  ", widest[p.Section], p.Key)
		first := wrapWords(p.Default, pageWidth-len(lead)-4)
		if len(first) > 1 {
			first[0] = strings.TrimSuffix(first[0], ",") + " …"
		}
		t.row(lead + first[0])
	}
}
