package client

import (
	"bufio"
	"encoding/binary"
	"encoding/gob"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// bareVariable makes the test binary a bare reader of the socket that it names.
const bareVariable = "FENCING_TEST_BARE"

// bareSize is the size of an event on the agent's socket: the message and the frames of gRPC and HTTP/2 around it.
const bareSize = 96

// BenchmarkRatioToBroadcast measures the time from a decision to a hundred subscribers, each in its own process. For
// each event it also measures how long the kernel alone takes: a loop writes as many bytes to a hundred Unix sockets,
// each with a process that sleeps in read(2). p99-ratio is the first time divided by the second.
func BenchmarkRatioToBroadcast(b *testing.B) {
	const subscribers = 100
	hub, path := serveOnSocket(b)
	bare, conns := startBare(b, subscribers)
	all := make([]*process, subscribers)
	for i := range all {
		all[i] = startProcess(b, path)
		all[i].ready(b)
	}
	pace := time.NewTicker(2 * betweenEvents)
	defer pace.Stop()
	message, events := make([]byte, bareSize), 0
	for b.Loop() {
		<-pace.C
		e := left(fmt.Sprintf("n%d", events%groupSize))
		if events/groupSize%2 == 1 {
			e = join(e.Node.Name)
		}
		e.Time = time.Now()
		hub.Publish(e)
		<-pace.C
		binary.LittleEndian.PutUint64(message, uint64(time.Now().UnixNano()))
		for _, c := range conns {
			if _, err := c.Write(message); err != nil {
				b.Fatal(err)
			}
		}
		events++
	}
	ours, theirs := collect(b, all, events), collect(b, bare, events)
	at := func(times []time.Duration, percent int) float64 { return float64(times[(len(times)-1)*percent/100]) }
	for _, percent := range []int{50, 99} {
		b.ReportMetric(at(ours, percent), fmt.Sprintf("p%d-ns", percent))
		b.ReportMetric(at(theirs, percent), fmt.Sprintf("bare-p%d-ns", percent))
		b.ReportMetric(at(ours, percent)/at(theirs, percent), fmt.Sprintf("p%d-ratio", percent))
	}
	b.ReportMetric(0, "ns/op")
}

// collect lets the processes end and joins their measurements in order.
func collect(b *testing.B, all []*process, events int) (times []time.Duration) {
	for _, p := range all {
		times = append(times, p.end(b, events).Times...)
	}
	slices.Sort(times)
	return times
}

// startBare starts bare readers, and returns a connection to each.
func startBare(b *testing.B, n int) (all []*process, conns []net.Conn) {
	path := filepath.Join(b.TempDir(), "bare")
	l, err := net.Listen("unix", path)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	for range n {
		cmd := exec.Command(self)
		cmd.Env, cmd.Stderr = append(os.Environ(), bareVariable+"="+path), os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			b.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			b.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		c, err := l.Accept()
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			_ = c.Close() // this ends the process
			_ = in.Close()
			_ = cmd.Wait()
		})
		all, conns = append(all, &process{in: in, out: bufio.NewReader(out)}), append(conns, c)
	}
	return all, conns
}

// readBare is the process of a bare reader. It sleeps in read(2) and records how long each message took. It reads the
// number of messages from its input after all of them have been sent.
func readBare(path string) error {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		err = syscall.Connect(fd, &syscall.SockaddrUnix{Name: path})
	}
	if err != nil {
		return err
	}
	count := make(chan int, 1)
	go func() {
		var events int
		if _, err := fmt.Scan(&events); err != nil {
			os.Exit(1)
		}
		count <- events
	}()
	times := make(chan time.Duration, 1<<16)
	go func() {
		defer close(times)
		for message := make([]byte, bareSize); ; {
			for got := 0; got < bareSize; {
				n, err := syscall.Read(fd, message[got:])
				if err == syscall.EINTR {
					continue
				}
				if err != nil || n == 0 {
					return
				}
				got += n
			}
			times <- time.Duration(time.Now().UnixNano() - int64(binary.LittleEndian.Uint64(message)))
		}
	}()
	var s sample
	for events := <-count; len(s.Times) < events; {
		t, ok := <-times
		if !ok {
			return io.ErrUnexpectedEOF
		}
		s.Times = append(s.Times, t)
	}
	return gob.NewEncoder(os.Stdout).Encode(s)
}
