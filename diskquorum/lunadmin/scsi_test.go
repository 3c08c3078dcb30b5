package lunadmin

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// target answers commands by their first byte, and the second of INQUIRY.
type scsiTarget map[[2]byte]answer

type answer struct {
	data          []byte
	status, sense byte
	err           error
}

func (tg scsiTarget) send(cdb, data []byte) (status, sense byte, err error) {
	a, ok := tg[[2]byte{cdb[0], cdb[1]}]
	if !ok {
		return scsiCheck, illegalRequest, nil
	}
	copy(data, a.data)
	return a.status, a.sense, a.err
}

func inquiryData(vendor, product string) []byte {
	data := make([]byte, 36)
	copy(data[8:], vendor+strings.Repeat(" ", 8-len(vendor)))
	copy(data[16:], product+strings.Repeat(" ", 16-len(product)))
	return data
}

func TestSCSI(t *testing.T) {
	inquiry := [2]byte{opInquiry, 0}
	limits := [2]byte{opInquiry, 1}
	reserve := [2]byte{opReserveIn, reserveInCapability}
	page := func(compare byte) answer { return answer{data: []byte{0, pageBlockLimits, 0, 0x3c, 0, compare}} }
	for _, c := range []struct {
		name, want string
		target     scsiTarget
	}{
		{"all", "LIO-ORG lun; persistent reservations: yes, 6 types; COMPARE AND WRITE: yes, 1 block (agents need neither)", scsiTarget{
			inquiry: {data: inquiryData("LIO-ORG", "lun")}, limits: page(1), reserve: {data: []byte{0, 8, 1, 0x80, 0xea, 0x01}},
		}},
		{"two types", "A b; persistent reservations: yes, 2 types; COMPARE AND WRITE: no (agents need neither)", scsiTarget{
			inquiry: {data: inquiryData("A", "b")}, limits: page(0), reserve: {data: []byte{0, 8, 0, 0x80, 0x0a, 0}},
		}},
		{"types not told", "A b; persistent reservations: yes; COMPARE AND WRITE: no (agents need neither)", scsiTarget{
			inquiry: {data: inquiryData("A", "b")}, limits: page(0), reserve: {data: []byte{0, 8, 0, 0, 0xff, 0xff}},
		}},
		{"neither", "A b; persistent reservations: no; COMPARE AND WRITE: no (agents need neither)", scsiTarget{inquiry: {data: inquiryData("A", "b")}}},
		{"another page", "A b; persistent reservations: no; COMPARE AND WRITE: no (agents need neither)", scsiTarget{
			inquiry: {data: inquiryData("A", "b")}, limits: {data: []byte{0, 0, 0, 0, 0, 9}},
		}},
		{"busy", "A b; persistent reservations: unknown: status 0x08, sense key 0x0; COMPARE AND WRITE: unknown: lost (agents need neither)", scsiTarget{
			inquiry: {data: inquiryData("A", "b")}, reserve: {status: 0x08}, limits: {err: errors.New("lost")},
		}},
		{"for ever attentive", "A b; persistent reservations: unknown: status 0x02, sense key 0x6; COMPARE AND WRITE: no (agents need neither)", scsiTarget{
			inquiry: {data: inquiryData("A", "b")}, reserve: {status: scsiCheck, sense: unitAttention},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := askSCSI(c.target.send)
			if r == nil {
				t.Fatal("no report")
			}
			if got := r.Summary(); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
	if r := askSCSI(scsiTarget{}.send); r != nil {
		t.Errorf("a device that answers no INQUIRY made %v", r)
	}
}

// TestUnitAttention: a target first reports what has happened, and is asked again.
func TestUnitAttention(t *testing.T) {
	attentions := 2
	err := ask(func(_, _ []byte) (status, sense byte, err error) {
		if attentions > 0 {
			attentions--
			return scsiCheck, unitAttention, nil
		}
		return scsiGood, 0, nil
	}, []byte{0}, []byte{0})
	if err != nil || attentions != 0 {
		t.Errorf("%v, %d attentions left", err, attentions)
	}
}

func TestSenseKey(t *testing.T) {
	for _, c := range []struct {
		data []byte
		want byte
	}{
		{[]byte{0x70, 0, 0x05}, 5}, {[]byte{0xf0, 0, 0x26}, 6}, {[]byte{0x72, 0x05, 0}, 5}, {[]byte{0, 0, 0}, 0},
	} {
		if got := senseKey(c.data); got != c.want {
			t.Errorf("%x: %d, want %d", c.data, got, c.want)
		}
	}
}

func TestNoSCSI(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lun")
	if err := os.WriteFile(file, make([]byte, 4096), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, "/dev/null", file + ".absent"} {
		if r := probeSCSI(path); r != nil {
			t.Errorf("%s: %v", path, r)
		}
	}
}
