package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/integration/agentsim"
	"github.com/fencing-agent/fencing-agent/integration/race"
)

var record = flag.Bool("record", false, "let agents live through the scenes again and rewrite testdata/scenes; then use -update")

// recording is a scene as testdata/scenes keeps it.
type recording struct {
	Asked  time.Time       `json:"asked"`
	Status json.RawMessage `json:"status"`
}

func sceneFile(name string) string { return filepath.Join("testdata", "scenes", name+".json") }

// play runs the agents through a scene. It repeats the scene if the wanted state has passed between two requests.
func (s *situation) play(t *testing.T) agentsim.Picture {
	t.Helper()
	const plays = 5
	var r *agentsim.Result
	for range plays {
		var p *agentsim.Picture
		if p, r = s.playOnce(t); p != nil {
			return *p
		}
	}
	t.Fatalf("of %d answers none is the scene, in %d plays\n%s", len(r.Looks), plays, strings.Join(r.Timeline, "\n"))
	return agentsim.Picture{}
}

func (s *situation) playOnce(t *testing.T) (*agentsim.Picture, *agentsim.Result) {
	t.Helper()
	schedule := s.s
	schedule.Events = slices.Clone(s.s.Events)
	asked := s.of
	if asked == nil {
		asked = []int{0}
	}
	for d := s.during[0]; d <= s.during[1]; d += each {
		schedule.Events = append(schedule.Events, agentsim.Event{At: settled + d, Kind: agentsim.Look, Nodes: asked})
	}
	slices.SortStableFunc(schedule.Events, func(a, b agentsim.Event) int { return int(a.At - b.At) })
	schedule.End = settled + s.during[1]
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // a bubble runs fastest on one processor, and varies least
	dir := t.TempDir()
	var r *agentsim.Result
	synctest.Test(t, func(*testing.T) { r = agentsim.Run(schedule, dir) })
	for _, p := range r.Looks {
		if p.Status != nil && (s.is == nil || s.is(p.Status)) {
			v := p.Status.GetVerdict()
			placed := strings.NewReplacer(filepath.Join(dir, p.Node+".disable"), config.Default().Watchdog.DisableFile)
			v.Text = placed.Replace(v.Text)
			for i, by := range v.DisarmedBy {
				v.DisarmedBy[i] = placed.Replace(by)
			}
			return &p, r
		}
	}
	return nil, r
}

func writeScene(t *testing.T, s *situation, p agentsim.Picture) {
	t.Helper()
	status, err := protojson.Marshal(p.Status)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(recording{Asked: p.At.UTC(), Status: status})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer // protojson varies its spaces from build to build
	if err := json.Indent(&b, data, "", " "); err != nil {
		t.Fatal(err)
	}
	b.WriteByte('\n')
	if err := os.WriteFile(sceneFile(s.name), b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// readScene returns the recorded status, moved to noon.
func readScene(t testing.TB, s *situation) *fencingv1.Status {
	t.Helper()
	data, err := os.ReadFile(sceneFile(s.name))
	if err != nil {
		t.Fatal(err)
	}
	var f recording
	if err := json.Unmarshal(data, &f); err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	st := new(fencingv1.Status)
	if err := protojson.Unmarshal(f.Status, st); err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	shift(st, noon.Sub(f.Asked))
	return st
}

// TestScenesAreWhatAgentsSay runs the agents through the scenes again: their statuses must still equal the recordings,
// except for figures. With -record the recordings are replaced.
func TestScenesAreWhatAgentsSay(t *testing.T) {
	known := map[string]bool{} // a field that no recording has was added after them
	for i := range scenes {
		if _, err := os.Stat(sceneFile(scenes[i].name)); err == nil {
			for _, l := range scenes[i].shape(readScene(t, &scenes[i])) {
				known[pathOf(l)] = true
			}
		}
	}
	for i := range scenes {
		s := &scenes[i]
		t.Run(s.name, func(t *testing.T) {
			switch {
			case *record:
				writeScene(t, s, s.play(t))
				return
			case race.Detector:
				t.Skip("its runtime breaks in long bubbles (go.dev/issue/78156)")
			case testing.Short() && i%4 != 0, testing.Short() && s.slow:
				t.Skip("takes seconds")
			}
			want, got := s.shape(readScene(t, s)), s.shape(s.play(t).Status)
			got = slices.DeleteFunc(got, func(l string) bool { return !known[pathOf(l)] })
			if diff := difference(want, got); diff != "" {
				t.Errorf("agents do not say that any more; if they should not, run go test -run %s -record, then -update, and read the difference:\n%s", t.Name(), diff)
			}
		})
	}
}

// figures lists the fields that differ from run to run, and the ones that repeat them as text.
var figures = []protoreflect.Name{
	"alive", "health_score", "in_flight_age", "revision", "boot_nonce", "counter", "sequence", "feeds", "digest", "text", "error", "slot", "tuning", "holders",
	"valid_for", "granted_for", "instance", "suspect",
}

// shape returns a status without its figures, one line for each field: which fields are there at all, and the values
// that a program could branch on. The winner of a tie is drawn at random, so names are left out.
func (s *situation) shape(st *fencingv1.Status) []string {
	var lines []string
	var walk func(path string, m protoreflect.Message)
	walk = func(path string, m protoreflect.Message) {
		if _, ok := m.Interface().(interface{ GetSeconds() int64 }); ok {
			return // a time or duration: only its presence matters
		}
		m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			at := path + "." + string(f.Name())
			switch {
			case slices.Contains(figures, f.Name()), f.IsMap():
			case f.IsList() && f.Message() != nil:
				for i := range v.List().Len() {
					walk(at, v.List().Get(i).Message())
				}
			case f.Message() != nil:
				lines = append(lines, at)
				walk(at, v.Message())
			case f.Enum() != nil:
				lines = append(lines, fmt.Sprintf("%s = %v", at, f.Enum().Values().ByNumber(v.Enum()).Name()))
			case f.Kind() == protoreflect.StringKind, f.IsList():
				lines = append(lines, at)
			default:
				lines = append(lines, fmt.Sprintf("%s = %v", at, v))
			}
			return true
		})
	}
	walk("", st.ProtoReflect())
	slices.Sort(lines)
	return slices.DeleteFunc(lines, func(l string) bool {
		return slices.ContainsFunc(s.varies, func(v string) bool { return strings.HasPrefix(l, v) })
	})
}

// pathOf is the field of a line of a shape.
func pathOf(line string) string {
	path, _, _ := strings.Cut(line, " = ")
	return path
}

// difference lists the lines that only one of two sorted lists has.
func difference(want, got []string) string {
	var b strings.Builder
	count := map[string]int{}
	for _, l := range want {
		count[l]++
	}
	for _, l := range got {
		count[l]--
	}
	for _, l := range slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(want), got...)))) {
		switch n := count[l]; {
		case n > 0:
			fmt.Fprintf(&b, "  recorded, not said now (%d): %s\n", n, l)
		case n < 0:
			fmt.Fprintf(&b, "  said now, not recorded (%d): %s\n", -n, l)
		}
	}
	return b.String()
}

// TestSceneFilesAreOfScenes: no file remains of a scene that was removed.
func TestSceneFilesAreOfScenes(t *testing.T) {
	files, err := filepath.Glob(sceneFile("*"))
	if err != nil || len(files) != len(scenes) {
		t.Errorf("%d files for %d scenes, error %v", len(files), len(scenes), err)
	}
	for _, s := range scenes {
		if st := readScene(t, &s); len(st.GetNodes()) == 0 || st.GetVerdict().GetReason() == 0 {
			t.Errorf("%s: not a whole status", s.name)
		}
	}
}
