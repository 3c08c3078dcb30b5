package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// pageOf writes the configuration of an agent that listens there.
func pageOf(t *testing.T, http string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "agent.yaml")
	text := "nodeGroup: worker\nnodeName: n1\nsystemNetworks: [{name: mgmt, at: 10.0.0.1}]\n" +
		"members: {static: [{name: n1, addresses: {mgmt: 10.0.0.1}}]}\nhttp: {" + http + "}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// elsewhereHere is an address of this machine that is not the loopback, if there is one.
func elsewhereHere(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if n, is := a.(*net.IPNet); is && n.IP.IsGlobalUnicast() && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	return "127.0.0.1"
}

// pagePod is a kubectl that finds the pod of an agent, not on the loopback, and answers exec by what is given.
func pagePod(t *testing.T, file, answer string) (program string) {
	t.Helper()
	return asKubectl(t, `
*spec.nodeName=n1*) echo '{"items": [{"metadata": {"name": "a1", "namespace": "f"}, "spec": {"nodeName": "n1", "containers": [{"args": ["--config=`+file+`"], "ports": [{"containerPort": 9111}]}]}, "status": {"hostIP": "10.0.0.1"}}]}' ;;
"exec --context c -i --namespace f a1 -- fencectl page-tunnel `+file+`") `+answer+` ;;
`)
}

// pageServer serves a page and its events, the second of them after next, to those that come from the loopback.
func pageServer(t *testing.T, next chan struct{}) *httptest.Server {
	t.Helper()
	agent := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.RemoteAddr, "127.0.0.1:") || !strings.HasPrefix(r.Host, "127.0.0.1:") {
			http.Error(w, "from "+r.RemoteAddr+" for "+r.Host, http.StatusForbidden)
			return
		}
		if r.URL.Path != "/live" {
			fmt.Fprint(w, "the page")
			return
		}
		for i, wait := range []chan struct{}{next, nil} {
			fmt.Fprintf(w, "data: %d\n\n", i)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-wait:
			case <-r.Context().Done():
				return
			}
		}
	}))
	var err error
	if agent.Listener, err = net.Listen("tcp", net.JoinHostPort(elsewhereHere(t), "0")); err != nil {
		t.Fatal(err)
	}
	agent.Start()
	t.Cleanup(agent.Close)
	return agent
}

// An agent that listens on its node's address is reached, as from the loopback, by several connections at once, each event at once,
// and nothing goes on after an interrupt.
func TestUITunnels(t *testing.T) {
	next := make(chan struct{})
	agent := pageServer(t, next)
	file, pids := pageOf(t, "address: '"+agent.Listener.Addr().String()+"'"), filepath.Join(t.TempDir(), "pids")
	program := pagePod(t, file, "echo $$ >> "+pids+"; exec fencectl page-tunnel "+file)

	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	out, errs := newOutput(), newOutput()
	address, ended := make(chan string, 1), make(chan int, 1)
	go func() {
		ended <- run(ctx, &environment{name: pluginName, stdout: &toldAddress{out: out, line: address}, stderr: errs, getenv: os.Getenv}, []string{"ui", "n1", "--context", "c", "--kubectl", program})
	}()
	var url string
	select {
	case url = <-address:
	case code := <-ended:
		t.Fatalf("%d %s", code, errs)
	}
	var streams []*bufio.Reader
	for range 2 {
		q, err := http.Get(url + "live")
		if err != nil || q.StatusCode != http.StatusOK {
			t.Fatalf("%v, %+v", err, q)
		}
		defer q.Body.Close()
		streams = append(streams, bufio.NewReader(q.Body))
		expectLine(t, streams[len(streams)-1], "data: 0\n")
	}
	close(next)
	for _, s := range streams {
		expectLine(t, s, "\n")
		expectLine(t, s, "data: 1\n")
	}
	q, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(q.Body)
	q.Body.Close()
	if err != nil || string(text) != "the page" {
		t.Errorf("%q, %v", text, err)
	}
	interrupt()
	select {
	case code := <-ended:
		if code != exitOK || errs.String() != "" {
			t.Errorf("%d %s", code, errs)
		}
	case <-time.After(patience):
		t.Fatal("it goes on after it was interrupted")
	}
	started, err := os.ReadFile(pids)
	if err != nil || len(strings.Fields(string(started))) < 4 {
		t.Errorf("%q, %v: a question and three connections were expected", started, err)
	}
	for _, pid := range strings.Fields(string(started)) {
		if _, err := os.Stat("/proc/" + pid); err == nil {
			t.Errorf("kubectl %s is left behind", pid)
		}
	}
}

// toldAddress hands on the first thing that is written.
type toldAddress struct {
	out  io.Writer
	line chan string
}

func (f *toldAddress) Write(p []byte) (int, error) {
	select {
	case f.line <- strings.TrimSpace(string(p)):
	default:
	}
	return f.out.Write(p)
}

func expectLine(t *testing.T, r *bufio.Reader, want string) {
	t.Helper()
	got := make(chan string, 1)
	go func() {
		line, _ := r.ReadString('\n')
		got <- line
	}()
	select {
	case line := <-got:
		if line != want {
			t.Fatalf("%q, want %q", line, want)
		}
	case <-time.After(patience):
		t.Fatalf("no %q", want)
	}
}

// A pod that does not know the verb is told of once, before an address is printed, and so is one that has gone.
func TestUITunnelFailsOnce(t *testing.T) {
	file := pageOf(t, "address: '127.0.0.1:9111'")
	old := `echo 'fencectl: unknown command "page-tunnel"; see fencectl --help' >&2; echo 'command terminated with exit code 2' >&2; exit 2`
	code, out, diag := runPlugin(t, "ui", "n1", "--context", "c", "--kubectl", pagePod(t, file, old))
	if code != exitFailed || out != "" || strings.Count(diag, "\n") != 1 || !strings.Contains(diag, "a1 is older than this command") || !strings.Contains(diag, "upgrade it") || !strings.Contains(diag, "http://10.0.0.1:9111/") {
		t.Errorf("%d %q %q", code, out, diag)
	}
	flag := filepath.Join(t.TempDir(), "asked")
	gone := `test -e ` + flag + ` || { : > ` + flag + `; exit 0; }; echo 'pods "a1" not found' >&2; exit 1`
	out2, errs := newOutput(), newOutput()
	var connections []net.Conn
	u := &viewer{env: &environment{name: pluginName, stdout: out2, stderr: errs, getenv: os.Getenv}, kube: &kubeFlags{program: pagePod(t, file, gone), context: "c"}, open: true}
	u.browse = func(_ context.Context, url string) error { // a browser opens some at once
		for range 4 {
			c, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/"))
			if err != nil {
				return nil // it has ended already
			}
			connections = append(connections, c)
			_, _ = io.WriteString(c, "GET / HTTP/1.1\r\n\r\n")
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	pod, err := u.agent(ctx, "n1")
	if err != nil {
		t.Fatal(err)
	}
	if err := u.show(ctx, pod); err == nil || !strings.Contains(err.Error(), `the way to the agent has ended: kubectl exec: pods "a1" not found`) || errs.String() != "" {
		t.Errorf("%v, %s", err, errs)
	}
	for _, c := range connections {
		_ = c.Close()
	}
}

// Guard: page-tunnel leads to the agent's listener, and nowhere else.
func TestPageTunnelGoesNowhereElse(t *testing.T) {
	none := func(string) string { return "" }
	for spec, want := range map[string]string{
		"address: '192.0.2.1:80'":                     "192.0.2.1:80 is no address of this node",
		"address: ''":                                 "http.address is empty",
		"address: '127.0.0.1:9110', page: none":       "http.page is none",
		"address: '$NODE_IP:9110'":                    "names $NODE_IP",
		"address: 'nowhere.invalid:9110', page: any ": "http.address",
	} {
		if a, err := pageAddress(pageOf(t, spec), none); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", spec, a, err)
		}
	}
	for spec, want := range map[string]string{
		"address: ':9110'":           "127.0.0.1:9110",
		"address: '[::]:9110'":       "[::1]:9110",
		"address: '0.0.0.0:9110'":    "127.0.0.1:9110",
		"address: '127.0.0.2:9110'":  "127.0.0.2:9110",
		"address: 'localhost:9110' ": ":9110",
	} {
		if a, err := pageAddress(pageOf(t, spec), none); err != nil || !strings.HasSuffix(a.String(), want) {
			t.Errorf("%s: %v, %v", spec, a, err)
		}
	}
	node := func(key string) string { return map[string]string{"NODE_IP": elsewhereHere(t)}[key] }
	if a, err := pageAddress(pageOf(t, "address: '$NODE_IP:9110'"), node); err != nil || a.String() != elsewhereHere(t)+":9110" {
		t.Errorf("%v, %v", a, err)
	}
	fifo, w, err := os.Pipe() // as kubectl's user writes to the command
	if err != nil {
		t.Fatal(err)
	}
	defer fifo.Close()
	w.Close()
	if a, err := pageAddress(fmt.Sprintf("/dev/fd/%d", fifo.Fd()), none); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("%v, %v", a, err)
	}
	var out, errs bytes.Buffer
	env := &environment{name: "fencectl", stdin: strings.NewReader("GET / HTTP/1.0\r\n\r\n"), stdout: &out, stderr: &errs, getenv: none}
	if code := run(t.Context(), env, []string{pageTunnel, pageOf(t, "address: '127.0.0.1:1'")}); code != exitFailed || !strings.Contains(errs.String(), "the agent's page: ") {
		t.Errorf("%d %q", code, errs.String())
	}
}
