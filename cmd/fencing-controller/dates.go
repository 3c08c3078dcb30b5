package main

import (
	"log/slog"
	"net/http"
	"sync"
	"time"
)

const (
	// mostSkew is the largest difference between this machine's clock and the API server's that is not logged. Jobs
	// allow for 15 s.
	mostSkew = 5 * time.Second
	// skewAgain is the least time between two such log lines.
	skewAgain = 10 * time.Minute
)

// dates compares this machine's clock with the Date of the API server's answers. Executors begin nothing after a time
// that this replica has set, by the clocks of their own machines. No decision depends on the comparison, but the
// administrator should know of a difference before a node fails.
type dates struct {
	next http.RoundTripper
	log  *slog.Logger
	now  func() time.Time

	mu   sync.Mutex
	said time.Time
}

// RoundTrip implements http.RoundTripper.
func (d *dates) RoundTrip(r *http.Request) (*http.Response, error) {
	before := d.now()
	resp, err := d.next.RoundTrip(r)
	if err == nil {
		if date, parsed := http.ParseTime(resp.Header.Get("Date")); parsed == nil {
			d.compare(date, before, d.now())
		}
	}
	return resp, err
}

// compare logs from time to time that the clocks differ. The date was true at some moment of the request, in whole
// seconds.
func (d *dates) compare(date, before, after time.Time) {
	skew := time.Duration(0)
	switch {
	case before.Sub(date) > mostSkew+time.Second:
		skew = before.Sub(date)
	case date.Sub(after) > mostSkew:
		skew = after.Sub(date)
	default:
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.said.IsZero() && after.Sub(d.said) < skewAgain {
		return
	}
	d.said = after
	d.log.Warn("this machine's clock differs from the API server's: executors on machines with a different clock may refuse their Jobs; run NTP on all machines",
		"aheadBy", skew.Truncate(time.Second), "allowed", mostSkew)
}
