package gossipsim

import (
	"os"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/fencing-agent/fencing-agent/integration/race"
)

// These are the roles of the test binary when it is started as a child. The first argument selects one.
const (
	roleChild  = "gossipsim-child"  // ChildMain
	roleBroken = "gossipsim-broken" // a child that panics
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case roleChild:
			ChildMain(os.Stdin, os.Stdout)
		case roleBroken:
			panic("the child breaks")
		}
	}
	race.Only("^Test(Crash|Restart|Leave|OneNetworkOfTwo|Chaos|Transport|CutBreaksStreams|RunProcess|RunAllKeepsTheOrder|ProcessesFail|CancelEndsTheChild)$")
	if !race.Detector {
		runtime.GOMAXPROCS(1) // a bubble is mostly serial: a second processor only slows it down
		debug.SetGCPercent(400)
	}
	os.Exit(m.Run())
}
