package k8stest

import (
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// ConfigMap returns one by name, or nil. Namespaces are not told apart.
func (s *Server) ConfigMap(name string) *corev1.ConfigMap {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.maps[name].DeepCopy()
}

// UpdateConfigMap changes one that exists, or deletes it if f returns false.
func (s *Server) UpdateConfigMap(name string, f func(*corev1.ConfigMap) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.maps[name].DeepCopy()
	if !f(m) {
		delete(s.maps, name)
		return
	}
	s.putMap(m)
}

// Events returns what was created, in order.
func (s *Server) Events() []*corev1.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

func (s *Server) putMap(m *corev1.ConfigMap) {
	s.version++
	if m.UID == "" {
		m.UID = types.UID(fmt.Sprintf("uid-%d", s.version))
	}
	m.TypeMeta = metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}
	m.ResourceVersion = strconv.Itoa(s.version)
	s.maps[m.Name] = m
}

func (s *Server) body(r *http.Request) (runtime.Object, error) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	o, _, err := s.decoder.Decode(text, nil, nil)
	return o, err
}

func (s *Server) serveConfigMaps(w http.ResponseWriter, r *http.Request, verb string) {
	name := path.Base(r.URL.Path)
	if verb == "get" {
		if m := s.ConfigMap(name); m != nil {
			reply(w, http.StatusOK, m)
			return
		}
		Fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf("configmaps %q not found", name))
		return
	}
	o, err := s.body(r)
	m, ok := o.(*corev1.ConfigMap)
	if err != nil || !ok {
		Fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, fmt.Sprint(err))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.maps[m.Name]
	switch {
	case verb == "create" && old != nil:
		Fail(w, http.StatusConflict, metav1.StatusReasonAlreadyExists, m.Name)
	case verb == "update" && old == nil:
		Fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, m.Name)
	case verb == "update" && m.ResourceVersion != old.ResourceVersion:
		Fail(w, http.StatusConflict, metav1.StatusReasonConflict, "the object has been modified")
	default:
		if old != nil {
			m.UID = old.UID
		}
		s.putMap(m)
		reply(w, http.StatusOK, m)
	}
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
