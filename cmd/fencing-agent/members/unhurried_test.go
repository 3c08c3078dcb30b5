package members

import (
	"net"
	"time"
)

// unhurried is a connection in memory whose write deadlines are never already past. For a past deadline, as TLS sets it
// when it closes, bufconn starts a timer of 0 s. The runtime of Go 1.26 runs such a timer of a bubble at once, on the
// goroutine that starts it. Two such timers at a time end a test under the race detector with SIGSEGV.
type unhurried struct{ net.Conn }

func (u unhurried) SetWriteDeadline(t time.Time) error {
	if soon := time.Now().Add(1); !t.IsZero() && t.Before(soon) {
		t = soon
	}
	return u.Conn.SetWriteDeadline(t)
}

type unhurriedListener struct{ net.Listener }

func (l unhurriedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return unhurried{conn}, nil
}
