package room

import (
	"bufio"
	"fmt"
	"net"
	"testing"
)

// Guard: the half-close. kubectl exec ends one direction and continues to read the other.
func TestRelayPassesBothDirections(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	front, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		Relay(front, server.Addr().String())
		close(ended)
	}()
	go func() { // it answers with what it has read, after it has read everything
		c, err := server.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		heard := 0
		for lines := bufio.NewScanner(c); lines.Scan(); heard++ {
		}
		fmt.Fprintf(c, "%d lines\n", heard)
	}()
	c, err := net.Dial("tcp", front.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "one\ntwo\n")
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if said, err := bufio.NewReader(c).ReadString('\n'); err != nil || said != "2 lines\n" {
		t.Errorf("%q, %v", said, err)
	}
	front.Close()
	<-ended
}
