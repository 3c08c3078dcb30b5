package main

import (
	"fmt"
	"strings"
	"testing"
)

func TestTheSlowestAreNamed(t *testing.T) {
	var out, events strings.Builder
	for i, took := range []float64{9.9, 12, 300.04, 11, 40, 20, 15} {
		fmt.Fprintf(&events, `{"Action":"pass","Package":"example.com/m/p","Test":"Test%d/sub","Elapsed":%v}`+"\n", i, took+1000)
		fmt.Fprintf(&events, `{"Action":"%s","Package":"example.com/m/p","Test":"Test%d","Elapsed":%v}`+"\n", []string{"pass", "fail"}[i%2], i, took)
	}
	r := newReport(&out)
	if err := r.read(strings.NewReader(events.String())); err != nil {
		t.Fatal(err)
	}
	r.summary(0)
	var slow []string
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "slow") {
			slow = append(slow, strings.TrimSpace(line))
		}
	}
	want := "slow  example.com/m/p Test2  300.0s;slow  example.com/m/p Test4  40.0s;slow  example.com/m/p Test5  20.0s;slow  example.com/m/p Test6  15.0s;slow  example.com/m/p Test1  12.0s"
	if got := strings.Join(slow, ";"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
