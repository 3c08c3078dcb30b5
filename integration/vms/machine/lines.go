package machine

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/vms/control"
)

const lineLimit = 8 << 20

// jsonLine is a connection that carries one JSON value a line.
type jsonLine struct {
	conn net.Conn
	mu   sync.Mutex // held while writing
}

func newJSONLine(conn net.Conn) *jsonLine { return &jsonLine{conn: conn} }

func (l *jsonLine) write(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err = l.conn.Write(append(text, '\n'))
	return err
}

func (l *jsonLine) read(line func([]byte)) {
	lines := bufio.NewScanner(l.conn)
	lines.Buffer(nil, lineLimit)
	for lines.Scan() {
		line(lines.Bytes())
	}
}

// readQMP records what the hypervisor saw. Replies to commands become events, too, because nobody waits for them.
func (m *Machine) readQMP() {
	m.qmp.read(func(line []byte) {
		var message struct {
			Event     string          `json:"event"`
			Data      json.RawMessage `json:"data"`
			Error     json.RawMessage `json:"error"`
			Timestamp struct {
				Seconds      int64 `json:"seconds"`
				Microseconds int64 `json:"microseconds"`
			} `json:"timestamp"`
		}
		if err := json.Unmarshal(line, &message); err != nil {
			return // the line is incomplete because the machine was closed
		}
		switch {
		case message.Event != "":
			at := time.Unix(message.Timestamp.Seconds, message.Timestamp.Microseconds*1000)
			if message.Event == "RESET" {
				m.forget()
			}
			m.note(Event{At: at, Kind: QMP, Source: message.Event, Text: string(message.Data)})
		case message.Error != nil:
			m.note(Event{At: time.Now(), Kind: QMP, Source: "error", Text: string(message.Error)})
		}
	})
	m.forget() // QEMU has ended
}

// forget ends all requests that a guest received before its reset.
func (m *Machine) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, reply := range m.waiting {
		reply <- control.Message{Error: errReset.Error()}
		delete(m.waiting, id)
	}
}

func (m *Machine) readControl() {
	m.ctl.read(func(line []byte) {
		var message control.Message
		if err := json.Unmarshal(line, &message); err != nil {
			return // a reset cut the line short
		}
		switch message.Kind {
		case control.Reply:
			m.mu.Lock()
			reply := m.waiting[message.ID]
			delete(m.waiting, message.ID)
			m.mu.Unlock()
			if reply != nil {
				reply <- message
			}
		default:
			m.note(Event{At: time.Now(), Kind: message.Kind, Source: message.Source, Text: message.Text})
		}
	})
}

// Run runs a script in the guest and returns what it wrote.
func (m *Machine) Run(ctx context.Context, script string) (string, error) {
	return m.ask(ctx, control.OpExec, script)
}

// Get fetches a URL in the guest.
func (m *Machine) Get(ctx context.Context, url string) (string, error) {
	return m.ask(ctx, control.OpGet, url)
}

// Service starts, stops or restarts the guest's agent, or turns its restart off; verb is start, stop, restart or
// norestart.
func (m *Machine) Service(ctx context.Context, verb string) error {
	_, err := m.ask(ctx, control.OpService, verb)
	return err
}

func (m *Machine) ask(ctx context.Context, op, arg string) (string, error) {
	id := m.next.Add(1)
	reply := make(chan control.Message, 1)
	m.mu.Lock()
	m.waiting[id] = reply
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		delete(m.waiting, id)
		m.mu.Unlock()
	}()
	if err := m.ctl.write(control.Request{ID: id, Op: op, Args: []string{arg}}); err != nil {
		return "", fmt.Errorf("machine %s: %w", m.Name, err)
	}
	var err error
	select {
	case message := <-reply:
		if message.Error == "" {
			return message.Text, nil
		}
		err = errors.New(message.Error)
		if message.Error == errReset.Error() {
			err = errReset
		}
		return message.Text, fmt.Errorf("machine %s: %s: %w %s", m.Name, arg, err, message.Text)
	case <-m.done:
		err = m.Ended()
	case <-ctx.Done():
		err = ctx.Err()
	}
	return "", fmt.Errorf("machine %s: %s: %w", m.Name, arg, err)
}
