package reconcile

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// WriteNodes writes a line for each Node that this replica works on: what it does there, and what it waits for. The
// text is for people, and served under /nodes.
func (r *Reconciler) WriteNodes(out io.Writer) { r.Picture().Write(out) }

// Write writes a line for each Node.
func (p *Picture) Write(out io.Writer) {
	if len(p.Nodes) == 0 {
		fmt.Fprintln(out, "no Node is called dead")
		return
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tPHASE\tSINCE\tDETAIL")
	for _, n := range p.Nodes {
		text := n.Does()
		if by := n.Tellers(); by > 0 {
			text += fmt.Sprintf("; called dead by %d Nodes", by)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", n.Name, n.Phase, p.At.Sub(n.Since).Round(time.Second), text)
	}
	_ = t.Flush() // an error means that the reader has gone
}

// Tellers returns the number of Nodes that call this one dead.
func (n *NodePicture) Tellers() int {
	by := map[string]bool{}
	for _, t := range n.Told {
		by[t.By] = true
	}
	return len(by)
}
