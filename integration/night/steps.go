package night

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/integration/observe"
)

func (n *night) play(ctx context.Context) error {
	steps := []func(context.Context) error{
		n.evening, n.paged, n.status, n.browser, n.reset, n.history, n.maintenance, n.confirm,
	}
	began := time.Now()
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	fmt.Fprintf(n.Out, "\nThe night is over: %d steps showed all %d things that they must, in %.0f s.\n", n.steps, n.wants, time.Since(began).Seconds())
	return nil
}

func (n *night) evening(ctx context.Context) error {
	n.step("Evening: four nodes, two networks, a LUN, armed watchdogs")
	if err := n.await(ctx, "all up", everybody()); err != nil {
		return err
	}
	_, err := n.on(ctx, "n1", []string{"status"}, n.socket("n1"), `4 of 4`)
	return err
}

// paged shows the metrics from which the alert FencingNoQuorum is made.
func (n *night) paged(ctx context.Context) error {
	n.step("03:12: %s loses both networks. The page: FencingNoQuorum", victim)
	if err := n.agents.CutNetworks(networks, nodes[:3], nodes[3:]); err != nil {
		return err
	}
	n.began = time.Now()
	if err := n.await(ctx, victim+" notices", observe.Starving(victim)); err != nil {
		return err
	}
	text, err := n.get(ctx, victim, "/metrics")
	if err != nil {
		return err
	}
	var lines string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "fencing_agent_has_quorum ") || strings.HasPrefix(line, "fencing_agent_watchdog_armed ") {
			lines += line
		}
	}
	n.tell("The alert asks for one sample in which it is armed and has no quorum; this was %.1f s after the cut.", time.Since(n.began).Seconds())
	return n.shown("curl -s http://"+page+"/metrics | grep -E 'has_quorum|armed'   # on "+victim, lines, `has_quorum 0`, `watchdog_armed 1`)
}

func (n *night) status(ctx context.Context) error {
	n.step("Who is missing? The status on a node that lives, and on the one that does not")
	others := observe.InState(fencingv1.NodeState_NODE_STATE_UNREACHABLE, victim, nodes[:3]...)
	either := func(v *observe.View) string {
		if others(v) == "" || observe.InState(fencingv1.NodeState_NODE_STATE_FENCED, victim, nodes[:3]...)(v) == "" {
			return ""
		}
		return "not all others miss it"
	}
	if err := n.await(ctx, "the others miss it", either); err != nil {
		return err
	}
	if _, err := n.on(ctx, "n1", []string{"status"}, n.socket("n1"), `3 of 4`, victim); err != nil {
		return err
	}
	_, err := n.on(ctx, victim, []string{"status"}, n.socket(victim), `STARVE|reset`)
	return err
}

var tags = regexp.MustCompile(`(?s)<(style|script|head).*?</(style|script|head)>|<[^>]*>`)

func (n *night) browser(ctx context.Context) error {
	n.step("The same in the browser: ssh -L 9110:%s root@n1, then http://localhost:9110/", page)
	ticket, err := n.get(ctx, "n1", "/ticket")
	if err != nil {
		return err
	}
	html, err := n.get(ctx, "n1", "/")
	if err != nil {
		return err
	}
	if plain := tags.ReplaceAllString(html, " "); !strings.Contains(plain, victim) || !strings.Contains(html, "<!") {
		return fmt.Errorf("step %d: the page does not name %s", n.steps, victim)
	}
	n.tell("\"Copy for a ticket\" there, and /ticket, begin with:")
	lines := strings.SplitAfter(ticket, "\n")
	return n.shown("curl -s http://"+page+"/ticket | head -12   # on n1", strings.Join(lines[:min(12, len(lines))], ""), victim)
}

func (n *night) reset(ctx context.Context) error {
	n.step("The reset, which nobody has to do anything for")
	select {
	case node := <-n.fired:
		n.tell("the watchdog has reset %s, %.1f s after the cut", node, time.Since(n.began).Seconds())
		if node != victim {
			return errors.New(node + " was reset, and had quorum")
		}
	case <-time.After(patience):
		return fmt.Errorf("%s was not reset in %v", victim, patience)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	_, err := n.on(ctx, "n1", []string{"wait", "--fenced", victim, "--timeout", "1m"}, n.socket("n1"), victim+`.*(FENCED|fenced|dead)`)
	return err
}

func (n *night) history(ctx context.Context) error {
	n.step("The networks are repaired, %s has booted. Why was it reset?", victim)
	n.dogs.Boot(victim)
	if err := errors.Join(n.agents.Heal(), n.agents.Reboot(victim)); err != nil {
		return err
	}
	if err := n.await(ctx, victim+" is back", everybody()); err != nil {
		return err
	}
	if _, err := n.on(ctx, victim, []string{"status"}, n.socket(victim), `4 of 4`, `last boot`); err != nil {
		return err
	}
	file := filepath.Join(n.dir, victim+".members-history")
	_, err := n.on(ctx, victim, []string{"history", "--boot", "-1"}, []string{"--file", file}, `boot -1 .*ended`, `LAST WORDS`)
	return err
}

func (n *night) maintenance(ctx context.Context) error {
	n.step("The card of %s is to be replaced: maintenance", victim)
	on := []string{"maintenance", "on", "--for", "2h", "--reason", "card of data", "--wait"}
	if _, err := n.on(ctx, victim, on, n.socket(victim), `(?i)maintenance|disarmed`); err != nil {
		return err
	}
	_, err := n.on(ctx, victim, []string{"status"}, n.socket(victim), `maintenance`, `card of data`)
	return err
}

var nonce = regexp.MustCompile(`--boot ([0-9a-f]{16})`)

func (n *night) confirm(ctx context.Context) error {
	n.step("%s is switched off, and nothing guarded it: a person confirms its death", victim)
	if err := n.agents.Kill(victim); err != nil {
		return err
	}
	if err := n.await(ctx, "the others miss it", observe.InState(fencingv1.NodeState_NODE_STATE_UNREACHABLE, victim, nodes[:3]...)); err != nil {
		return err
	}
	out, err := n.on(ctx, "n1", []string{"confirm-dead", victim}, n.socket("n1"), nonce.String())
	if err != nil {
		return err
	}
	boot := nonce.FindStringSubmatch(out)[1]
	said := []string{"confirm-dead", victim, "--boot", boot, "--reason", "PDU 3, outlets 7 and 19 are off, lamps are dark"}
	if err := n.untilBelieved(ctx, said); err != nil {
		return err
	}
	if err := n.await(ctx, "all know it", observe.InState(fencingv1.NodeState_NODE_STATE_FENCED, victim, nodes[:3]...)); err != nil {
		return err
	}
	_, err = n.on(ctx, "n2", []string{"status"}, n.socket("n2"), `3 of 4`, `FENCED`)
	return err
}

// untilBelieved confirms that the victim is off, and repeats this while the victim was heard too recently.
func (n *night) untilBelieved(ctx context.Context, said []string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	refused := false
	for {
		out, err := n.inBoot(ctx, "n1", append(append([]string{}, said...), n.socket("n1")...)...)
		switch early := strings.Contains(out, "was heard a moment ago"); {
		case ctx.Err() != nil:
			return fmt.Errorf("step %d: %s is not believed to be dead: %w", n.steps, victim, context.Cause(ctx))
		case err != nil && !early:
			return err
		case err == nil || !refused:
			typed := fmt.Sprintf("fencectl %s --reason %q   # on n1", strings.Join(said[:len(said)-2], " "), said[len(said)-1])
			if err := n.shown(typed, out, victim); err != nil || !early {
				return err
			}
			refused = true
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}
