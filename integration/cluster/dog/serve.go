package dog

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/watchdog"
	"github.com/fencing-agent/fencing-agent/watchdog/watchdogtest"
)

// Serve is the device. fire is called once, when a countdown has ended.
func Serve(l net.Listener, fire func()) {
	device := watchdogtest.New(watchdogtest.Config{
		Clock: boottime.Now, Identity: "Watchdog of a node of namespaces", OnFire: func(boottime.Instant) { fire() },
	})
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go serve(conn, device)
	}
}

// serve is one process that has the device open, or looks at it.
func serve(conn net.Conn, device *watchdogtest.Device) {
	open := false
	defer func() {
		_ = conn.Close()
		if open {
			device.Kill()
		}
	}()
	var buf [messageSize]byte
	for {
		if _, err := io.ReadFull(conn, buf[:]); err != nil {
			return
		}
		op, value := buf[0], time.Duration(binary.BigEndian.Uint64(buf[1:]))
		var took time.Duration
		var err error
		switch op {
		case opArm:
			var info watchdog.Info
			info, err = device.Arm(value)
			took, open = info.Timeout, open || err == nil
		case opFeed:
			err = device.Feed()
		case opShorten:
			took, err = device.Shorten(value)
		case opDisarm:
			if err = device.Disarm(); err == nil {
				open = false
			}
		case opLook:
			if c, _ := device.Look(); c.Running {
				took = c.Timeout
			}
		default:
			return
		}
		buf[0] = code(err)
		binary.BigEndian.PutUint64(buf[1:], uint64(took))
		if _, err := conn.Write(buf[:]); err != nil {
			return
		}
	}
}

func code(err error) byte {
	switch {
	case err == nil:
		return answerDone
	case errors.Is(err, watchdog.ErrBusy):
		return answerBusy
	case errors.Is(err, watchdog.ErrCondemned):
		return answerCondemned
	}
	return answerFailed
}
