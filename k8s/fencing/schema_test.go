package fencing

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
)

// An API server with the schema of an older version drops unknown fields.
func TestNothingIsStoredWithoutAFieldThatTheSchemaLacks(t *testing.T) {
	for _, field := range []string{"sawNotReady", "jobs"} { // of the first write, and of a later one
		s := newStage(t)
		s.lacks = field
		s.rounds(40)
		if f := s.fence(); len(s.ran) > 0 || field == "sawNotReady" && f != nil || field == "jobs" && (f == nil || f.Status.Phase != nodefence.Running) {
			t.Errorf("%s: %v ran, %+v", field, s.ran, f)
		}
		told := func() (n int) {
			for _, reason := range s.events.reasons {
				if reason == notStoredReason {
					n++
				}
			}
			return n
		}
		if n, old := told(), testutil.ToFloat64(s.r.Metrics.schemaOld); n != 1 || old != 1 {
			t.Errorf("%s: told %d times, metric %v, want once, 1", field, n, old)
		}
		s.lacks = "" // it was applied
		s.now = s.now.Add(schemaAgain)
		s.rounds(40)
		if !slices.Contains(s.ran, "bmc-on") || testutil.ToFloat64(s.r.Metrics.schemaOld) != 0 {
			t.Errorf("%s: after it was applied %v ran", field, s.ran)
		}
	}
}

// An old schema is known before a node fails, and so is a new one.
func TestAnOldSchemaIsKnownBefore(t *testing.T) {
	s := newStage(t)
	s.node("n4", true, "0", s.now)
	s.lacks = "storages"
	s.round()
	if testutil.ToFloat64(s.r.Metrics.schemaOld) != 1 || len(s.events.reasons) > 0 {
		t.Errorf("after the first round: %v, %v", testutil.ToFloat64(s.r.Metrics.schemaOld), s.events.reasons)
	}
	s.lacks, s.now = "", s.now.Add(schemaAgain)
	s.round()
	if testutil.ToFloat64(s.r.Metrics.schemaOld) != 0 {
		t.Error("it was applied, and is called old")
	}
	if len(s.log) > 0 {
		t.Errorf("wrote %v", s.log)
	}
}

// Guard: a field that is missing in the request is not checked.
func TestTheQuestionHasEachField(t *testing.T) {
	f := whole()
	each(t, "spec", reflect.ValueOf(f.Spec))
	each(t, "status", reflect.ValueOf(f.Status))
}

func each(t *testing.T, path string, v reflect.Value) {
	t.Helper()
	if v.IsZero() {
		t.Errorf("%s is empty", path)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		each(t, path, v.Elem())
	case reflect.Slice:
		each(t, path+"[0]", v.Index(0))
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			each(t, path+"."+v.Type().Field(i).Name, v.Field(i))
		}
	}
}
