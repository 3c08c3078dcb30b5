package main

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
)

// document runs the programs for their help texts. Manual pages are made from --help, as help2man does it, so that
// commands are described in only one place.
func (r *release) document(ctx context.Context) error {
	fencectl := r.programs[host().String()+"/fencectl"]
	if fencectl == "" {
		return fmt.Errorf("this machine (%s) cannot run the programs that it builds: use one of %v", host(), nodes)
	}
	r.pages, r.shells = map[string][]byte{}, map[string][]byte{}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		out, err := exec.CommandContext(ctx, fencectl, "completion", shell).Output()
		if err != nil {
			return fmt.Errorf("completion for %s: %w", shell, err)
		}
		r.shells[shell] = out
	}
	if err := r.commandPages(ctx, fencectl, nil, ""); err != nil {
		return err
	}
	text, err := exec.CommandContext(ctx, r.programs[host().String()+"/fencing-agent"], "--help").Output()
	if err != nil {
		return fmt.Errorf("fencing-agent --help: %w", err)
	}
	r.pages["fencing-agent.8"] = r.page("fencing-agent", 8, summary, string(text), []string{"fencectl(1)"})
	return nil
}

var command = regexp.MustCompile(`(?m)^  ([a-z][a-z-]*) +(.+)$`)

// commandPages makes the page of a command of fencectl, whose short description is a line of the page above, and the
// pages of the commands below it.
func (r *release) commandPages(ctx context.Context, program string, words []string, short string) error {
	out, err := exec.CommandContext(ctx, program, append(append([]string{}, words...), "--help")...).Output()
	if err != nil {
		return fmt.Errorf("%s --help: %w", strings.Join(words, " "), err)
	}
	name := strings.Join(append([]string{"fencectl"}, words...), "-")
	if short == "" {
		short, _, _ = strings.Cut(string(out), "\n")
	}
	var related []string
	if len(words) > 0 {
		related = append(related, "fencectl(1)")
	}
	for _, c := range command.FindAllStringSubmatch(section(string(out), "Commands"), -1) {
		related = append(related, name+"-"+c[1]+"(1)")
		if err := r.commandPages(ctx, program, append(append([]string{}, words...), c[1]), c[2]); err != nil {
			return err
		}
	}
	r.pages[name+".1"] = r.page(name, 1, strings.TrimSuffix(short, "."), string(out), append(related, "fencing-agent(8)"))
	return nil
}

var heading = regexp.MustCompile(`(?m)^([A-Z][A-Za-z]*):$`)

// section returns the text below a heading of a help text, up to the next heading.
func section(help, title string) string {
	parts := heading.FindAllStringSubmatchIndex(help, -1)
	for i, p := range parts {
		if help[p[2]:p[3]] == title {
			end := len(help)
			if i+1 < len(parts) {
				end = parts[i+1][0]
			}
			return help[p[1]:end]
		}
	}
	return ""
}

// page turns a help text into a manual page: its paragraphs become the description, and its sections become sections of
// the page.
func (r *release) page(name string, number int, short, help string, related []string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, ".\\\" Made from --help.\n.TH %s %d %s \"fencing-agent %s\"\n", strings.ToUpper(name), number, r.time.Format("2006-01-02"), r.plain())
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(name), roff(short))
	first := len(help)
	parts := heading.FindAllStringSubmatchIndex(help, -1)
	if len(parts) > 0 {
		first = parts[0][0]
	}
	literal := func(title, text string) {
		if text = strings.Trim(text, "\n"); text != "" {
			fmt.Fprintf(&b, ".SH %s\n.nf\n%s\n.fi\n", title, roff(text))
		}
	}
	literal("SYNOPSIS", section(help, "Usage"))
	literal("DESCRIPTION", help[:first])
	for _, p := range parts {
		switch title := help[p[2]:p[3]]; title {
		case "Usage":
		case "Flags":
			literal("OPTIONS", section(help, title))
		default:
			literal(strings.ToUpper(title), section(help, title))
		}
	}
	for i := range related {
		related[i] = roff(related[i])
	}
	fmt.Fprintf(&b, ".SH SEE ALSO\n%s\n.PP\n%s\n", strings.Join(related, ", "), roff(homepage))
	return []byte(b.String())
}

// roff escapes a text so that it contains no instructions of roff.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
