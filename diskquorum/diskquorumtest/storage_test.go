package diskquorumtest

import (
	"bytes"
	"os"
	"os/exec"
	"testing"
)

// If another user of loop devices detaches one by name that was its own a moment ago, the file stays attached.
func TestALoopDeviceThatIsDetachedByNameStays(t *testing.T) {
	file := File(t, 1<<20)
	dev := LoopDevice(t, file, 512)
	if out, err := exec.Command("losetup", "--detach", dev).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := bytes.Repeat([]byte("x"), 4096)
	if err := os.WriteFile(file, want, 0o600); err != nil { // truncates: the device keeps its size
		t.Fatal(err)
	}
	f, err := os.Open(dev)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got := make([]byte, len(want))
	if _, err := f.Read(got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is over another file, or over none: %v", dev, err)
	}
}
