package k8stest

import (
	"fmt"
	"io"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Events returns the Events that were created, in order.
func (s *Server) Events() []*corev1.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

func (s *Server) body(r *http.Request) (runtime.Object, error) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	o, _, err := s.decoder.Decode(text, nil, nil)
	return o, err
}

func (s *Server) serveEvents(w http.ResponseWriter, r *http.Request, verb string) {
	o, err := s.body(r)
	e, ok := o.(*corev1.Event)
	if verb != "create" || err != nil || !ok {
		Fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, fmt.Sprint(verb, err))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.events = append(s.events, e)
	e.TypeMeta = metav1.TypeMeta{Kind: "Event", APIVersion: "v1"}
	reply(w, http.StatusCreated, e)
}
