package marks

import (
	"context"
	"errors"
	"log/slog"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fencing-agent/fencing-agent/k8s/ownnode"
)

// Annotation keeps one annotation of the Node, by patches that contain nothing else. A server whose policy does not
// know the annotation yet refuses only these patches, and not the patches of a [Writer].
type Annotation struct {
	*Outbox
	key string
}

// NewAnnotation returns an annotation whose value is not known yet. Config.Registry is not used.
func NewAnnotation(c Config, key string) (*Annotation, error) {
	if c.Client == nil || c.Node == "" || key == "" {
		return nil, errors.New("annotation of this node's Node: client, name and key are mandatory")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	log := c.Logger.With("annotation", key)
	return &Annotation{key: key, Outbox: NewOutbox(Transport{
		Send: func(ctx context.Context, report string) error {
			wish := Wish{key: &report}
			if report == "" {
				wish[key] = nil
			}
			_, err := Patch(ctx, c.Client, c.Node, nil, wish)
			if err == nil {
				log.Debug("wrote an annotation of this node's Node")
			}
			return err
		},
		Refuses: apierrors.IsForbidden,
		Logger:  log, Rand: c.Rand,
		Failed:   "cannot write an annotation of this node's Node",
		Refused:  "cannot write an annotation of this node's Node: the API server forbids it",
		Accepted: "writing an annotation of this node's Node is no longer forbidden",
		Hint: "the ValidatingAdmissionPolicy own-node of the agents, whose full name the error has, does not allow " + key +
			" if it is older than this agent; or their ClusterRole does not allow the verb patch for nodes. Update both: apply the manifests of this agent's version",
	})}, nil
}

// Seen records the present state of the Node. Before the first call, and while there is no Node, nothing is written. An
// annotation that somebody has emptied is not like none: its readers cannot decode it, so it is removed.
func (a *Annotation) Seen(s ownnode.State) {
	report, is := s.Annotations[a.key]
	if is && report == "" {
		report = " "
	}
	a.Has(report, s.Exists)
}
