package main

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"
)

type answers func(*http.Request) (*http.Response, error)

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

func TestClockOfTheAPIServer(t *testing.T) {
	for ahead, told := range map[time.Duration]string{
		0: "", 4 * time.Second: "", -4 * time.Second: "", 20 * time.Second: "aheadBy=20s", -20 * time.Second: "aheadBy=-20s",
	} {
		var log bytes.Buffer
		server := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		date := server.Format(http.TimeFormat)
		now := server.Add(ahead)
		d := &dates{log: slog.New(slog.NewTextHandler(&log, nil)), now: func() time.Time { return now }}
		d.next = answers(func(*http.Request) (*http.Response, error) {
			return &http.Response{Header: http.Header{"Date": {date}}}, nil
		})
		for range 3 {
			if _, err := d.RoundTrip(nil); err != nil {
				t.Fatal(err)
			}
		}
		if n := strings.Count(log.String(), "differs"); (told == "") != (n == 0) || n > 1 || !strings.Contains(log.String(), told) {
			t.Errorf("%v ahead: %s", ahead, log.String())
		}
		date = "yesterday" // a date that cannot be parsed is ignored
		if _, err := d.RoundTrip(nil); err != nil {
			t.Error(err)
		}
	}
}

// A slow answer does not mean that a clock is wrong.
func TestASlowAnswer(t *testing.T) {
	var log bytes.Buffer
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	d := &dates{log: slog.New(slog.NewTextHandler(&log, nil)), now: func() time.Time { return at }}
	d.next = answers(func(*http.Request) (*http.Response, error) {
		at = at.Add(30 * time.Second)
		return &http.Response{Header: http.Header{"Date": {at.Add(-10 * time.Second).Format(http.TimeFormat)}}}, nil
	})
	if _, err := d.RoundTrip(nil); err != nil || log.Len() > 0 {
		t.Errorf("%v %s", err, log.String())
	}
}
