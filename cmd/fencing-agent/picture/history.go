package picture

import (
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fencing-agent/fencing-agent/api/publish"
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/history"
)

// PreviousBoot is how the boot before this one ended, for the API; nil if that is not known.
func PreviousBoot(e *history.Ending) *fencingv1.PreviousBoot {
	if e == nil {
		return nil
	}
	out := &fencingv1.PreviousBoot{
		BootNonce: hex64(e.Boot), Text: e.Text, LastRecord: timestamppb.New(e.Last),
		End: fencingv1.BootEnd(fencingv1.BootEnd_value["BOOT_END_"+strings.ToUpper(strings.ReplaceAll(string(e.End), "-", "_"))]),
	}
	if e.Reason != "" {
		out.Reason = publish.ReasonOf(e.Reason)
	}
	if e.Slack != 0 {
		out.Slack = durationpb.New(e.Slack)
	}
	return out
}

// Latency is the longest of the latest writes and reads of the LUN's devices.
func (f *Facts) Latency() (write, read time.Duration) {
	for i := range f.Devices {
		write, read = max(write, f.Devices[i].Write), max(read, f.Devices[i].Read)
	}
	return write, read
}
