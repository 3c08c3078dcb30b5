package members

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// pair is the server's certificate and its key, in files that another program renews.
type pair struct {
	cert, key string
	log       *slog.Logger

	mu   sync.Mutex
	last *tls.Certificate // guarded by mu
	said string           // the last problem that was logged; guarded by mu
}

// read reads the files again.
//
// Invariant: files that cannot be used, for example because they are being written, do not replace what was read
// before: agents that connect meanwhile would be without a controller.
func (p *pair) read() (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, err := tls.LoadX509KeyPair(p.cert, p.key)
	if err == nil {
		p.last = &c
	}
	switch now := time.Now(); {
	case err != nil && p.last == nil:
		p.say("no agent can follow, since the certificate of members.certFile and members.keyFile cannot be used", err)
	case err != nil:
		p.say("the new certificate of members.certFile and members.keyFile cannot be used; the one that was read before stays in use",
			fmt.Errorf("%w; the old certificate is valid until %s", err, p.last.Leaf.NotAfter.UTC().Format(time.RFC3339)))
	case now.After(c.Leaf.NotAfter):
		p.say("agents refuse the certificate of members.certFile: renew it", fmt.Errorf("it expired at %s", c.Leaf.NotAfter.UTC().Format(time.RFC3339)))
	case now.Before(c.Leaf.NotBefore):
		p.say("agents refuse the certificate of members.certFile until it is valid: compare the clocks", fmt.Errorf("it is not valid before %s", c.Leaf.NotBefore.UTC().Format(time.RFC3339)))
	default:
		p.said = ""
	}
	if p.last == nil {
		return nil, err
	}
	return p.last, nil
}

func (p *pair) say(text string, err error) {
	if why := text + err.Error(); p.said != why {
		p.said = why
		p.log.Warn(text, "err", err)
	}
}
