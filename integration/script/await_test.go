package script

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/emptypb"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

const pollInterval = 50 * time.Millisecond

// poll calls try until it returns "", and fails with its last answer.
func poll(ts *testscript.TestScript, node string, try func() string) {
	deadline := time.NewTimer(runLimit)
	defer deadline.Stop()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	p := stateOf(ts).agents[node]
	for {
		missing := try()
		if missing == "" {
			return
		}
		if p != nil && !p.running() {
			if missing = try(); missing == "" { // its last message may be the awaited one
				return
			}
			ts.Fatalf("%s has ended with exit code %d: %s", node, p.code, missing)
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			ts.Fatalf("not within %v: %s", runLimit, missing)
		}
	}
}

// cmdAwait is "[!] await NODE KEY PATTERN": it waits until the agent's status, as fencectl status -o json prints it,
// matches (or does not match) at KEY, such as nodes.n2.available.
func cmdAwait(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: [!] await NODE KEY PATTERN")
	}
	re, err := regexp.Compile("^(?:" + args[2] + ")$")
	ts.Check(err)
	poll(ts, args[0], func() string {
		status, err := agentStatus(ts.MkAbs(args[0] + ".sock"))
		if err != nil {
			return err.Error()
		}
		value := describe(lookup(status, splitKey(args[1])))
		if re.MatchString(value) == neg {
			return fmt.Sprintf("%s of %s is %q", args[1], args[0], value)
		}
		return ""
	})
}

// agentStatus asks the agent at a socket.
func agentStatus(socket string) (map[string]any, error) {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	status, err := fencingv1.NewFencingStatusClient(conn).GetStatus(ctx, &emptypb.Empty{})
	if err != nil {
		return nil, err
	}
	text, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(status)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	return out, json.Unmarshal(text, &out)
}

// cmdAwaitLog is "awaitlog NAME PATTERN [COUNT]": it waits until at least COUNT (default 1) lines of NAME.log match.
func cmdAwaitLog(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: awaitlog NAME PATTERN [COUNT]")
	}
	want := 1
	if len(args) == 3 {
		var err error
		want, err = strconv.Atoi(args[2])
		ts.Check(err)
	}
	re, err := regexp.Compile(args[1])
	ts.Check(err)
	poll(ts, args[0], func() string {
		text, err := os.ReadFile(ts.MkAbs(args[0] + ".log"))
		if err != nil {
			return err.Error()
		}
		found := 0
		for line := range strings.Lines(string(text)) {
			if re.MatchString(line) {
				found++
			}
		}
		if found < want {
			return fmt.Sprintf("%d of %d lines match %s", found, want, args[1])
		}
		return ""
	})
}

// get sends a request to the agent of a node over HTTP.
func get(ts *testscript.TestScript, node, path string) (int, string, error) {
	config, err := readYAML(ts.MkAbs(node + ".yaml"))
	if err != nil {
		return 0, "", err
	}
	client := http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	resp, err := client.Get(fmt.Sprintf("http://%v%s", lookup(config, []string{"http", "address"}), path))
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// cmdHTTP is "http NODE PATH CODE": it sends one request; scripts check the body with stdout.
func cmdHTTP(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: http NODE PATH CODE")
	}
	code, body, err := get(ts, args[0], args[1])
	ts.Check(err)
	_, _ = io.WriteString(ts.Stdout(), body)
	if strconv.Itoa(code) != args[2] {
		ts.Fatalf("%s of %s: status %d, want %s: %s", args[1], args[0], code, args[2], body)
	}
	if strings.HasPrefix(args[1], "/debug/") && !json.Valid([]byte(body)) {
		ts.Fatalf("%s of %s is not valid JSON", args[1], args[0])
	}
}

// cmdAwaitHTTP is "awaithttp NODE PATH PATTERN": it waits until a line of the body matches.
func cmdAwaitHTTP(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: awaithttp NODE PATH PATTERN")
	}
	re, err := regexp.Compile("(?m)" + args[2])
	ts.Check(err)
	poll(ts, args[0], func() string {
		_, body, err := get(ts, args[0], args[1])
		if err != nil {
			return err.Error()
		}
		if !re.MatchString(body) {
			return fmt.Sprintf("nothing in %s of %s matches %s", args[1], args[0], args[2])
		}
		return ""
	})
}
