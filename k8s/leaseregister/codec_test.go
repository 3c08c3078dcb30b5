package leaseregister

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fencing-agent/fencing-agent/k8s/leasequorum"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

func sample() leasequorum.Record {
	return leasequorum.Record{
		Instance: 3, Tag: leasequorum.Tag{Boot: 1<<64 - 1, Process: 2, Sequence: 9},
		Grant: leasequorum.Grant{Roster: roster.Ref{Epoch: 4, Digest: 1<<64 - 2}, Holders: []leasequorum.Holder{
			{Node: "n1", Token: netgossip.Token{Nonce: 1<<64 - 3, Counter: 1<<32 - 1}, Horizon: 80 * time.Second}, {Node: "n2", Token: netgossip.Token{Nonce: 7, Counter: 1}},
		}},
	}
}

const golden = `{"format":1,"instance":3,"rosterEpoch":4,"rosterDigest":"fffffffffffffffe","holders":[{"node":"n1","boot":"fffffffffffffffd","counter":4294967295,"horizonMs":80000},` +
	`{"node":"n2","boot":"7","counter":1}],"writer":{"boot":"ffffffffffffffff","process":"2","sequence":9}}`

func TestCodec(t *testing.T) {
	want := sample()
	text, err := encode(&want)
	if err != nil || text != golden {
		t.Fatalf("%v\n%s", err, text)
	}
	if got, err := decode(text); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v: %+v", err, got)
	}
	nobody := leasequorum.Record{Tag: want.Tag, Horizon: 70 * time.Second}
	if text, err = encode(&nobody); err != nil {
		t.Fatal(err)
	}
	if got, err := decode(text); err != nil || !reflect.DeepEqual(got, nobody) {
		t.Errorf("nobody: %v: %+v", err, got)
	}
}

// Guard: K7. A decoded horizon is never shorter than the encoded one, and a missing one stays missing: versions without
// horizons write the same format.
func TestHorizonsAreRoundedUp(t *testing.T) {
	for in, want := range map[time.Duration]time.Duration{0: 0, 1: time.Millisecond, time.Second: time.Second, time.Second + 1: time.Second + time.Millisecond, 1 << 62: (1<<32 - 1) * time.Millisecond} {
		r := sample()
		r.Horizon, r.Grant.Holders[1].Horizon = in, in
		text, err := encode(&r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decode(text)
		if err != nil || got.Horizon != want || got.Grant.Holders[1].Horizon != want {
			t.Errorf("%v: %v: %+v", in, err, got)
		}
		if (in == 0) == strings.Contains(text, `"counter":1,"horizonMs"`) {
			t.Errorf("%v: %s", in, text)
		}
	}
}

// Content that cannot be decoded is an error, and never a Lease that names nobody.
func TestDecodeRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":             "",
		"null":                "null",
		"another format":      strings.Replace(golden, `"format":1`, `"format":2`, 1),
		"a key of the future": strings.Replace(golden, `"format":1`, `"format":1,"more":1`, 1),
		"no boot":             strings.Replace(golden, `"boot":"7"`, `"boot":""`, 1),
		"a boot of 65 bits":   strings.Replace(golden, `"boot":"7"`, `"boot":"1ffffffffffffffff"`, 1),
		"no name":             strings.Replace(golden, `"n2"`, `""`, 1),
		"a negative counter":  strings.Replace(golden, `"counter":1}`, `"counter":-1}`, 1),
		"a negative horizon":  strings.Replace(golden, `"horizonMs":80000`, `"horizonMs":-1`, 1),
		"a horizon of years":  strings.Replace(golden, `"horizonMs":80000`, `"horizonMs":80000000000`, 1),
		"two values":          golden + golden,
		"cut off":             golden[:len(golden)-1],
	} {
		if got, err := decode(text); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(golden)
	f.Add("null")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := decode(text)
		if err != nil {
			return
		}
		again, err := encode(&got)
		if err != nil {
			t.Fatal(err)
		}
		if same, err := decode(again); err != nil || !reflect.DeepEqual(same, got) {
			t.Errorf("%v: %+v and %+v", err, got, same)
		}
	})
}

func TestName(t *testing.T) {
	for _, c := range []struct{ cluster, group, want string }{
		{"default", "worker", "fencing-agent-default-worker"},
		{"Prod_1", "a.b-c", "fencing-agent-prod-1-a-b-c"},
	} {
		if got := Name(c.cluster, c.group); got != c.want {
			t.Errorf("%s, %s: %s", c.cluster, c.group, got)
		}
	}
	long := strings.Repeat("x", 63) // what a label value can have
	if errs := validation.IsDNS1123Subdomain(Name(long, long)); len(errs) > 0 {
		t.Error(errs)
	}
}
