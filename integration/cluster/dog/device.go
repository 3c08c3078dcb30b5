package dog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/fencing-agent/fencing-agent/watchdog"
)

// Requests and answers are an octet and a number.
const (
	opArm = iota + 1
	opFeed
	opShorten
	opDisarm
	opLook // by a connection that opens nothing
)

const (
	answerDone = iota
	answerBusy
	answerCondemned
	answerFailed
)

const messageSize = 9

// Device is the watchdog of the node, as one process opens it.
type Device struct {
	path string
	conn net.Conn // nil: it is not open
	buf  [messageSize]byte
}

var (
	_ watchdog.Device = (*Device)(nil)
	_ watchdog.Looker = (*Device)(nil)
)

// At is the device behind a socket.
func At(path string) *Device { return &Device{path: path} }

var errNotOpen = errors.New("the watchdog is not open")

// Arm opens the device.
func (d *Device) Arm(timeout time.Duration) (watchdog.Info, error) {
	if d.conn != nil {
		return watchdog.Info{}, fmt.Errorf("arm %s: it is open", d.path)
	}
	conn, err := net.Dial("unix", d.path)
	if err != nil {
		return watchdog.Info{}, fmt.Errorf("arm: %w", err)
	}
	took, err := ask(conn, &d.buf, opArm, int64(timeout))
	if err != nil {
		return watchdog.Info{}, errors.Join(fmt.Errorf("arm %s: %w", d.path, err), conn.Close())
	}
	d.conn = conn
	return watchdog.Info{Identity: "Watchdog of a node of namespaces", Timeout: time.Duration(took), MagicClose: true}, nil
}

// Feed restarts the countdown.
func (d *Device) Feed() error {
	_, err := d.do(opFeed, 0)
	return err
}

// Shorten sets the timeout of the countdown that runs.
func (d *Device) Shorten(timeout time.Duration) (time.Duration, error) {
	took, err := d.do(opShorten, int64(timeout))
	return time.Duration(took), err
}

// Disarm stops the countdown and closes the device.
func (d *Device) Disarm() error {
	if d.conn == nil {
		return nil
	}
	if _, err := d.do(opDisarm, 0); err != nil {
		return err
	}
	err := d.conn.Close()
	d.conn = nil
	return err
}

// Look says what counts down, without opening the device.
func (d *Device) Look() (watchdog.Countdown, bool) {
	conn, err := net.Dial("unix", d.path)
	if err != nil {
		return watchdog.Countdown{}, false
	}
	defer conn.Close()
	var buf [messageSize]byte
	timeout, err := ask(conn, &buf, opLook, 0)
	return watchdog.Countdown{Running: timeout > 0, Timeout: time.Duration(timeout)}, err == nil
}

func (d *Device) do(op byte, value int64) (int64, error) {
	if d.conn == nil {
		return 0, errNotOpen
	}
	return ask(d.conn, &d.buf, op, value)
}

func ask(conn net.Conn, buf *[messageSize]byte, op byte, value int64) (int64, error) {
	buf[0] = op
	binary.BigEndian.PutUint64(buf[1:], uint64(value))
	if _, err := conn.Write(buf[:]); err != nil {
		return 0, err
	}
	if _, err := io.ReadFull(conn, buf[:]); err != nil {
		return 0, err
	}
	took := int64(binary.BigEndian.Uint64(buf[1:]))
	switch buf[0] {
	case answerDone:
		return took, nil
	case answerBusy:
		return 0, watchdog.ErrBusy
	case answerCondemned:
		return 0, watchdog.ErrCondemned
	}
	return 0, watchdog.ErrRefused
}
