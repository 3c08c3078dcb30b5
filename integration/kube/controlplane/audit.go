package controlplane

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// auditLog is the file in which the API server records every request.
const auditLog = "audit.log"

// Request is one request in the API server's audit log.
type Request struct {
	ID string `json:"auditID"`
	// Stage is the last one that was recorded: RequestReceived, ResponseStarted (for a watch that is still open),
	// ResponseComplete or Panic.
	Stage       string    `json:"stage"`
	Verb        string    `json:"verb"` // get, list, watch, create, update, patch, delete, ...
	URI         string    `json:"requestURI"`
	UserAgent   string    `json:"userAgent"`
	Received    time.Time `json:"requestReceivedTimestamp"`
	User        User      `json:"user"`
	Object      Object    `json:"objectRef"`
	Response    Response  `json:"responseStatus"`
	Annotations map[string]string
}

// User is the sender of a request.
type User struct {
	Name  string              `json:"username"`
	Extra map[string][]string `json:"extra"`
}

// Node returns the node of the pod to which the user's token is bound, or "".
func (u User) Node() string {
	if nodes := u.Extra["authentication.kubernetes.io/node-name"]; len(nodes) == 1 {
		return nodes[0]
	}
	return ""
}

// Object is the object of a request; it is empty if there is none, as for /readyz.
type Object struct {
	Resource, Subresource, Namespace, Name string
}

// Response is the answer to a request.
type Response struct {
	Code   int
	Reason string
}

// String is a short form for lists of requests.
func (r Request) String() string {
	return fmt.Sprintf("%s %s %s: %d", r.User.Name, r.Verb, r.URI, r.Response.Code)
}

// Requests returns the requests for which keep is true, of all that the API server has received in all its runs, in
// their order. Each is listed once, in its last recorded form. An answered request is listed before its client has the
// answer.
func (p *ControlPlane) Requests(keep func(Request) bool) ([]Request, error) {
	text, err := os.ReadFile(filepath.Join(p.config.Dir, auditLog))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	var all []Request
	index := map[string]int{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r Request
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			continue // the server is still writing it, or was killed while it did
		}
		if i, ok := index[r.ID]; ok {
			all[i] = r
			continue
		}
		index[r.ID] = len(all)
		all = append(all, r)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	var kept []Request
	for _, r := range all {
		if keep(r) {
			kept = append(kept, r)
		}
	}
	return kept, nil
}

// portTaken reports whether the program ended because another process had taken its port.
func portTaken(of *process) bool { return strings.Contains(of.lastLines(), "address already in use") }
