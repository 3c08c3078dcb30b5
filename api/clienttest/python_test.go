package clienttest

import (
	"bufio"
	"os/exec"
	"testing"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// The example in Python prints the same about this agent as a Go program. The test is skipped where Python has no
// grpcio.
func TestPythonExample(t *testing.T) {
	python := pythonWithGRPC(t)
	if python == "" {
		t.Skip("no Python with grpcio and protobuf: apt-get install python3-grpcio python3-protobuf")
	}
	a := Start(t, "n1", "n2", "n3")
	cmd := exec.CommandContext(t.Context(), python, "../examples/python/follow_deaths.py", a.Socket) // it ends with the test
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }() // the error only reports that it was killed
	defer func() { _ = cmd.Process.Kill() }()
	lines := make(chan string, 16)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
	}()
	want := func(text string) {
		t.Helper()
		select {
		case got := <-lines:
			if got != text {
				t.Fatalf("it says %q, want %q", got, text)
			}
		case <-time.After(time.Minute):
			t.Fatalf("it does not say %q", text)
		}
	}
	a.Leave("n3")
	a.Fence("n2", fencingv1.Proof_PROOF_SENTENCE)
	want("fenced n2 " + BootOf("n2", 0) + " sentence")
	a.LoseQuorum()
	a.Fence("n3", fencingv1.Proof_PROOF_TIME)
	a.Restart()
	a.RegainQuorum()
	want("fenced n3 " + BootOf("n3", 0) + " time")
	a.Contradict("n3")
	want("withdrawn n3 " + BootOf("n3", 0))
}

// pythonWithGRPC returns a Python that has what the example needs: the one in the path, or Debian's.
func pythonWithGRPC(t *testing.T) string {
	t.Helper()
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(t.Context(), python, "-c", "import grpc, google.protobuf").Run() == nil {
			return python
		}
	}
	return ""
}
