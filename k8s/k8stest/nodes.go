package k8stest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// bookmarkInterval is the interval of a real server.
const bookmarkInterval = time.Minute

// Node makes a Node with a label and internal addresses.
func Node(name string, label map[string]string, internal ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: maps.Clone(label), Annotations: map[string]string{}}}
	for _, ip := range internal {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
	}
	return n
}

// Put creates or replaces a Node.
func (s *Server) Put(n *corev1.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(n.DeepCopy())
}

func (s *Server) put(n *corev1.Node) {
	kind, old := "ADDED", s.nodes[n.Name]
	if old != nil {
		kind, n.UID = "MODIFIED", old.UID
	}
	s.version++
	if n.UID == "" {
		n.UID = types.UID(fmt.Sprintf("uid-%d", s.version))
	}
	n.TypeMeta = metav1.TypeMeta{Kind: "Node", APIVersion: "v1"}
	n.ResourceVersion = strconv.Itoa(s.version)
	s.nodes[n.Name] = n
	s.log(kind, n)
}

func (s *Server) log(kind string, n *corev1.Node) {
	s.history = append(s.history, change{s.version, kind, n})
	close(s.wake)
	s.wake = make(chan struct{})
}

// Update changes a Node that exists.
func (s *Server) Update(name string, f func(*corev1.Node)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[name].DeepCopy()
	f(n)
	s.put(n)
}

// Delete deletes a Node.
func (s *Server) Delete(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[name].DeepCopy()
	delete(s.nodes, name)
	s.version++
	n.ResourceVersion = strconv.Itoa(s.version)
	s.log("DELETED", n)
}

// Get returns a Node, or nil.
func (s *Server) Get(name string) *corev1.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes[name].DeepCopy()
}

// Compact forgets the history: watches cannot resume from a version before the present one.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.oldest, s.history = s.version, nil
}

// EndWatches ends all watches, as a real server does from time to time.
func (s *Server) EndWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watchers {
		close(w)
		delete(s.watchers, w)
	}
}

func (s *Server) serveNodes(w http.ResponseWriter, r *http.Request, verb string) {
	name := path.Base(r.URL.Path)
	switch verb {
	case "get":
		if n := s.Get(name); n != nil {
			reply(w, http.StatusOK, n)
			return
		}
		Fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf("nodes %q not found", name))
	case "list":
		s.listNodes(w, r)
	case "watch":
		s.watchNodes(w, r)
	case "patch":
		s.patchNode(w, r, name)
	default:
		Fail(w, http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, verb)
	}
}

func matcher(r *http.Request) func(*corev1.Node) bool {
	q := r.URL.Query()
	label, errL := labels.Parse(q.Get("labelSelector"))
	field, errF := fields.ParseSelector(q.Get("fieldSelector"))
	return func(n *corev1.Node) bool {
		return errL == nil && errF == nil && label.Matches(labels.Set(n.Labels)) && field.Matches(fields.Set{"metadata.name": n.Name})
	}
}

func (s *Server) listNodes(w http.ResponseWriter, r *http.Request) {
	q, matches := r.URL.Query(), matcher(r)
	limit, _ := strconv.Atoi(q.Get("limit")) // none: 0
	if q.Get("resourceVersion") == "0" {
		limit = 0 // the whole list, from the watch cache
	}
	list := &corev1.NodeList{TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"}}
	s.mu.Lock()
	for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
		n := s.nodes[name]
		if name <= q.Get("continue") || !matches(n) {
			continue
		}
		if limit > 0 && len(list.Items) == limit {
			list.Continue = list.Items[limit-1].Name
			break
		}
		list.Items = append(list.Items, *n)
	}
	list.ResourceVersion = strconv.Itoa(s.version)
	s.mu.Unlock()
	reply(w, http.StatusOK, list)
}

func (s *Server) patchNode(w http.ResponseWriter, r *http.Request, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.nodes[name]
	if old == nil {
		Fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, name)
		return
	}
	n := &corev1.Node{}
	if err := mergePatch(r, old, n); err != nil {
		Fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	s.put(n)
	reply(w, http.StatusOK, n)
}

func mergePatch(r *http.Request, old, to any) error {
	if ct := r.Header.Get("Content-Type"); ct != string(types.MergePatchType) {
		return fmt.Errorf("patch of type %q", ct)
	}
	var patch, object map[string]any
	if err := json.NewDecoder(r.Body).Decode(&patch); err != nil {
		return err
	}
	text, err := json.Marshal(old)
	if err == nil {
		err = json.Unmarshal(text, &object)
	}
	if err == nil {
		text, err = json.Marshal(merged(object, patch))
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(text, to)
}

// merged applies a merge patch (RFC 7386).
func merged(object, patch map[string]any) map[string]any {
	if object == nil {
		object = map[string]any{}
	}
	for k, v := range patch {
		switch v := v.(type) {
		case nil:
			delete(object, k)
		case map[string]any:
			inner, _ := object[k].(map[string]any) // anything else is replaced
			object[k] = merged(inner, v)
		default:
			object[k] = v
		}
	}
	return object
}

// watchNodes streams the changes after the version that is asked for. Without a version, or with version 0, it first
// sends the present Nodes.
func (s *Server) watchNodes(w http.ResponseWriter, r *http.Request) {
	q, matches := r.URL.Query(), matcher(r)
	from, _ := strconv.Atoi(q.Get("resourceVersion"))
	timeout, _ := strconv.Atoi(q.Get("timeoutSeconds"))
	if timeout <= 0 {
		timeout = 3600
	}
	end := make(chan struct{})
	s.mu.Lock()
	if from > 0 && from < s.oldest {
		s.mu.Unlock()
		Fail(w, http.StatusGone, metav1.StatusReasonExpired, "too old resource version")
		return
	}
	var first []change
	if from == 0 {
		from = s.version
		for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
			first = append(first, change{s.version, "ADDED", s.nodes[name]})
		}
	}
	s.watchers[end] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers, end)
	}()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	stream := &stream{w: w, matches: matches, sent: from}
	stream.send(first)
	s.follow(r, stream, end, time.Duration(timeout)*time.Second, q.Get("allowWatchBookmarks") == "true")
}

func (s *Server) follow(r *http.Request, st *stream, end <-chan struct{}, timeout time.Duration, bookmarks bool) {
	over := time.NewTimer(timeout)
	defer over.Stop()
	tick := time.NewTicker(bookmarkInterval)
	defer tick.Stop()
	for {
		s.mu.Lock()
		wake, version := s.wake, s.version
		var news []change
		for _, c := range s.history {
			if c.version > st.sent {
				news = append(news, c)
			}
		}
		s.mu.Unlock()
		st.send(news)
		st.sent = max(st.sent, version)
		select {
		case <-wake:
		case <-tick.C:
			if bookmarks {
				st.bookmark()
			}
		case <-over.C:
			return
		case <-end:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// stream is one watch on its way to the client.
type stream struct {
	w       http.ResponseWriter
	matches func(*corev1.Node) bool
	sent    int
}

func (st *stream) send(news []change) {
	for _, c := range news {
		st.sent = max(st.sent, c.version)
		if st.matches(c.node) {
			st.put(c.kind, c.node)
		}
	}
	st.flush()
}

func (st *stream) bookmark() {
	n := &corev1.Node{TypeMeta: metav1.TypeMeta{Kind: "Node", APIVersion: "v1"}}
	n.ResourceVersion = strconv.Itoa(st.sent)
	st.put("BOOKMARK", n)
	st.flush()
}

func (st *stream) put(kind string, n *corev1.Node) {
	_ = json.NewEncoder(st.w).Encode(map[string]any{"type": kind, "object": n}) // the peer may be gone
}

func (st *stream) flush() { _ = http.NewResponseController(st.w).Flush() }
