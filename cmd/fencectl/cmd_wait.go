package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencing-agent/fencing-agent/api/client"
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/api/view"
	"github.com/fencing-agent/fencing-agent/api/words"
	"github.com/fencing-agent/fencing-agent/k8s/deaths"
)

const (
	// quietFor is how long a wait prints nothing, and then the interval at which it checks for news.
	quietFor = time.Second
	// sayAgain is how long a wait is silent before it repeats its message.
	sayAgain = 10 * time.Second
)

func newWaitCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "wait --fenced NODE",
		Short: "Wait until a node is proven dead",
		Long: `Wait until this node's agent has proven that NODE cannot be running any more, by the rules of
docs/consumers.md: what NODE had may then be taken over. Not to answer (LEFT) is no proof. Neither is the word
of an agent that stands still or whose node has no quorum or is not fed; the command goes on waiting.

Without --boot, NODE has to be FENCED now. With --boot it is the death of that boot and no other, also when NODE
is back under another one; it is a boot nonce, or the bootID of the Node in Kubernetes.

The result is one line on stdout. What is waited for is said on stderr after one second, when it changes, and
every ten seconds. The wait outlives a restart of the agent; an agent that cannot be reached at the very
beginning is an error.

Exit codes: 0 proven dead; 3 not proven within --timeout; 1 anything else, so also Ctrl-C and a NODE that is
no member; 2 bad usage, so also --help beside --fenced. Only 0 allows anything. In a script put the name of the
node last, after "--".`,
		Example: `  fencectl wait --fenced n3 && do-failover
  fencectl wait --fenced n3 --timeout 10m
  fencectl wait --fenced n3 --boot 024bc581b3a34be3 -o json | jq -r .proof`,
		Args: operands("NODE"),
	}
	w := &deathWait{env: env, agent: newSocketFlag(cmd)}
	flags := cmd.Flags()
	fenced := flags.Bool("fenced", false, "wait until the node is proven dead; needed, there is nothing else to wait for yet")
	flags.Var((*bootFlag)(&w.boot), "boot", "wait for the death of this `boot`")
	flags.DurationVar(&w.limit, "timeout", 3*time.Minute, "how long to wait")
	cmd.ValidArgsFunction = w.complete
	_ = cmd.RegisterFlagCompletionFunc("boot", cobra.NoFileCompletions) // fails for unknown flags only
	out := newPrinter(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case !*fenced:
			return usagef("say what to wait for: --fenced")
		case w.limit <= 0:
			return usagef("invalid argument %v for \"--timeout\" flag: it must be more than 0", w.limit)
		}
		w.node = args[0]
		return w.tell(cmd.Context(), out)
	}
	return cmd
}

// tell waits, and prints the death. A proven death is printed even if the progress messages cannot be written.
func (w *deathWait) tell(ctx context.Context, out *printer) error {
	w.env.stderr = newUnstuck(w.env.stderr)
	defer w.saying.Wait()
	death, err := w.run(ctx)
	if err != nil {
		return err
	}
	if out.format != formatTable {
		return out.print(w.env.stdout, resultOf(death), nil)
	}
	return writeText(w.env, []byte(w.line(death)))
}

// helpForAnswer returns an error text if a command printed its help instead of an answer; otherwise it is empty. A
// script reads exit code 0 as the answer, such as a proven death or a healthy node, and the name that it passes may be
// -h.
func helpForAnswer(cmd *cobra.Command) string {
	help, _ := cmd.Flags().GetBool("help") // an error: there is no such flag
	switch {
	case help && cmd.Flags().Changed("fenced"):
		return "--help waits for nothing"
	case help && cmd.Flags().Changed("check"):
		return "--help checks nothing"
	}
	return ""
}

// deathWait is one wait for the death of a node.
type deathWait struct {
	env   *environment
	agent *agentFlags
	node  string
	boot  string
	limit time.Duration

	saying sync.WaitGroup // waited for only before the result is printed

	mu   sync.Mutex // guards the fields below
	last client.StatusUpdate
	why  error // nil: there was no answer yet
}

// A wait for a boot that cannot exist, or for a wrong one, would at best end with exit code 3. The start of a bootID
// looks like a nonce, but an agent sets the lowest bit of its nonce.
var (
	bootID    = regexp.MustCompile(`^[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}$`)
	bootNonce = regexp.MustCompile(`^[0-9a-f]{15}[13579bdf]$`)
)

// bootFlag is the nonce of a boot. The user gives the nonce or the bootID. It must not be empty, because a script's
// variable may be empty by mistake.
type bootFlag string

func (b *bootFlag) String() string { return string(*b) }

func (b *bootFlag) Type() string { return "boot" }

func (b *bootFlag) Set(boot string) error {
	switch {
	case bootID.MatchString(boot):
		*b = bootFlag(deaths.Boot(boot))
	case bootNonce.MatchString(boot):
		*b = bootFlag(boot)
	default:
		return errors.New("give the whole bootID of the Node in Kubernetes, or bootNonce as \"fencectl status -o json\" shows it")
	}
	return nil
}

// complete offers the other members.
func (w *deathWait) complete(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	if len(args) > 0 {
		return nil, none
	}
	w.agent.timeout = quietFor
	st, err := getStatus(cmd.Context(), w.env, w.agent)
	if err != nil {
		return nil, none
	}
	var names []string
	for _, n := range st.GetNodes() {
		if n.GetName() != st.GetSelf().GetName() {
			names = append(names, view.Clean(n.GetName()))
		}
	}
	return names, none
}

// errWaited is the cause of the end of a wait that took too long.
var errWaited = errors.New("the timeout has passed")

func (w *deathWait) run(ctx context.Context) (client.ProvenDeath, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, w.limit, errWaited)
	defer cancel()
	path, err := filepath.Abs(w.agent.path(w.env))
	if err != nil {
		return client.ProvenDeath{}, fmt.Errorf("agent socket: %w", err)
	}
	// The first request finds problems with the socket, and returns what to do.
	if _, err := getStatus(ctx, w.env, w.agent); err != nil && ctx.Err() == nil {
		if failed := new(agentError); !errors.As(err, &failed) || failed.unreachable || !failed.passing {
			return client.ProvenDeath{}, err
		}
	}
	over := make(chan struct{})
	w.saying.Go(func() { w.say(over) })
	death, err := client.WaitFenced(ctx, client.Config{Socket: path}, w.node, w.boot, func(u client.StatusUpdate, why error) {
		if ctx.Err() != nil {
			return // this command itself has ended the stream
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.last, w.why = u, why
	})
	close(over)
	switch unknown := new(client.UnknownNodeError); {
	case errors.As(err, &unknown):
		return death, noMember(w.node, unknown.Members)
	case errors.Is(err, errWaited):
		return death, timeoutError{fmt.Errorf("%s is not proven dead after %v: %s", view.Clean(w.node), w.limit, w.missing())}
	}
	return death, err
}

// say prints on stderr for what the command waits, until over is closed.
func (w *deathWait) say(over <-chan struct{}) {
	tick := time.NewTicker(quietFor)
	defer tick.Stop()
	told, at := "", time.Time{}
	for {
		select {
		case <-over:
			return
		case now := <-tick.C:
			if key := w.key(); key != told || now.Sub(at) >= sayAgain {
				told, at = key, now
				w.env.warn("waiting: " + w.missing())
			}
		}
	}
}

// key changes whenever the text about the wait changes, except for the times in the text.
func (w *deathWait) key() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.member()
	return fmt.Sprint(w.why, w.last.Err, n.GetState(), n.GetSentence() != nil, n.GetProvenIn() != nil, w.last.Status.GetVerdict().GetReason())
}

// member is the node in the latest status. The caller holds the mutex.
func (w *deathWait) member() *fencingv1.NodeStatus {
	n, _ := memberOf(w.last.Status, w.node)
	return n
}

// missing describes what is missing, in the words of fencectl status.
func (w *deathWait) missing() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	st, name := w.last.Status, view.Clean(w.node)
	self := view.Clean(st.GetSelf().GetName())
	switch {
	case w.why == nil, errors.Is(w.why, client.ErrNoWord) && w.last.Err == nil:
		return "the agent has not sent a status yet"
	case errors.Is(w.why, client.ErrNoWord):
		return view.Clean(w.last.Err.Error()) + "; trying again"
	case errors.Is(w.why, client.ErrStandsStill):
		age := time.Since(st.GetTime().AsTime())
		return fmt.Sprintf("%s: THE AGENT STANDS STILL for %s, what it says about %s does not count", self, view.Brief(age), name)
	case errors.Is(w.why, client.ErrNoQuorum):
		return fmt.Sprintf("%s: %s - %s; what it says about %s does not count", self, view.Permission(st).Text, view.Clean(words.Reason(st.GetVerdict())), name)
	}
	return w.standing(st, w.member())
}

// standing describes the state of the node, and what is missing for the proof of its death.
func (w *deathWait) standing(st *fencingv1.Status, n *fencingv1.NodeStatus) string {
	if text := view.Sentence(n); text != "" && !errors.Is(w.why, client.ErrOtherBoot) {
		return view.Clean(text)
	}
	text := view.Clean(n.GetName()) + ": " + view.State(st, n).Text
	if n.GetStateAge() != nil && !n.GetReachable() && n.GetState() != fencingv1.NodeState_NODE_STATE_FENCED {
		text += " for " + view.Ago(n.GetStateAge())
	}
	switch {
	case errors.Is(w.why, client.ErrOtherBoot):
		return text + ", but the death of boot " + w.boot + " is not known here: this agent last met boot " + view.OrUnknown(bootOf(n))
	case errors.Is(w.why, client.ErrNoProof):
		return text + ", but this agent does not say which boot, or how that is known: ask the agent of another node"
	case errors.Is(w.why, client.ErrAnswers):
		return text + ": it runs"
	case n.GetProvenIn() != nil:
		return text + ", may be running; this agent can vouch for its death in " + view.Ago(n.GetProvenIn()) + ", and a majority has to"
	}
	return text + ", may be running; time alone will not prove its death, another boot of it will"
}

// deathResult is the output of wait and confirm-dead about a death with -o json.
type deathResult struct {
	Node      string    `json:"node"`
	Boot      string    `json:"boot"`
	Proof     string    `json:"proof"`
	Since     time.Time `json:"since"`
	Runs      string    `json:"runs,omitempty"`
	Teller    string    `json:"teller,omitempty"`
	By        string    `json:"by,omitempty"`
	Reference string    `json:"reference,omitempty"`
	Reason    string    `json:"reason,omitempty"`
}

func resultOf(d client.ProvenDeath) deathResult {
	return deathResult{Node: d.Node, Boot: d.Boot, Proof: proofText(d.Proof), Since: d.At, Runs: d.Runs}
}

// line is the result for people. For the death of a named boot it does not print FENCED: the node may be back.
func (w *deathWait) line(d client.ProvenDeath) string {
	r := resultOf(d)
	boot := view.Clean(r.Boot)
	what := "FENCED - boot " + boot
	if w.boot != "" {
		what = "boot " + boot + " is dead"
	}
	text := fmt.Sprintf("%s: %s, proof %s, since %s", view.Clean(r.Node), what, r.Proof, r.Since.In(w.env.zone()).Format(time.DateTime))
	if r.Runs != "" {
		text += "; back as boot " + view.Clean(r.Runs)
	}
	return text + "\n"
}
