package storagewatch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
)

// Guard (two writers): this process waits by its own looks for the time for which an operator vouches. By its clock,
// which is ahead of the clock of the controller that wrote the NodeFence, that time is over at once.
func TestTheTimeThatIsVouchedForByAnotherClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fenced(t)
		w.pod("db-0", yes, "data")
		w.during(func() {
			pass(time.Minute) // its Lease has run out
			w.fence(func(s *nodefence.Status) {
				s.Storages = []nodefence.Severed{{Driver: driver, From: time.Now().Add(25*time.Second - time.Hour), Barrier: "25s"}}
			})
			pass(20 * time.Second)
			w.want()
			pass(15 * time.Second)
			w.want("node n1", "pod db-0", "attachment va-data")
		})
	})
}
