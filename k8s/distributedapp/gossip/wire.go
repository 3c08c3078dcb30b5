package gossip

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/fencing-agent/fencing-agent/k8s/distributedapp"
)

const (
	mostBytes = 1024 // of a message
	mostName  = 253  // of a name in Kubernetes
)

// Encode encodes a message for the network.
func Encode(m distributedapp.Message) ([]byte, error) {
	text, err := json.Marshal(m)
	if err == nil && len(text) > mostBytes {
		return nil, fmt.Errorf("the message has %d bytes, but must have at most %d", len(text), mostBytes)
	}
	return text, err
}

// Decode reads a message and refuses what no replica sends. It cannot tell who sent it.
func Decode(text []byte) (m distributedapp.Message, err error) {
	if len(text) > mostBytes {
		return m, fmt.Errorf("the message has %d bytes, but must have at most %d", len(text), mostBytes)
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return distributedapp.Message{}, err
	}
	switch {
	case m.Origin == "":
		err = errors.New("the sender is missing")
	case max(len(m.Origin), len(m.Namespace), len(m.Name)) > mostName:
		err = fmt.Errorf("a name must have at most %d bytes", mostName)
	case m.Kind == distributedapp.Configure:
	case m.Kind != distributedapp.Reconcile && m.Kind != distributedapp.Delete:
		err = errors.New("the kind of the message is not known")
	case m.Namespace == "" || m.Name == "":
		err = errors.New("the message must name a DistributedApp")
	}
	if err != nil {
		return distributedapp.Message{}, err
	}
	return m, nil
}
