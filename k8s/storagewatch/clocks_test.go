package storagewatch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
)

// Guard (two writers): the time that an operator vouches for is waited for by this process's own looks. By its clock, which is
// ahead of that of the controller which has written the NodeFence, it is over at once.
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
