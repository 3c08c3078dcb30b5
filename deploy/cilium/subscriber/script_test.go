package subscriber

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/cilium/hive/script"
	"github.com/cilium/hive/script/scripttest"
	"github.com/spf13/pflag"

	k8sfake "github.com/cilium/cilium/pkg/k8s/client/testutils"
)

// TestScript runs the stories in testdata on the real tables and reconciler, with the real
// server of the agent's API on the other end. A story's flags are in its first line.
func TestScript(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	scripttest.Test(t, ctx, func(t testing.TB, args []string) *script.Engine {
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		flags.ParseErrorsWhitelist.UnknownFlags = true
		set := map[string]string{}
		for _, name := range []string{"fencing-agent-all-left", "lb-test-fault-probability"} {
			flags.Func(name, "", func(value string) error { set[name] = value; return nil })
		}
		if err := flags.Parse(args); err != nil {
			t.Fatal(err)
		}
		b := newBalancer(t, set)
		cmds, err := b.hive.ScriptCommands(b.log)
		if err != nil {
			t.Fatal(err)
		}
		maps.Insert(cmds, maps.All(k8sfake.FakeClientCommands(b.client)))
		maps.Insert(cmds, maps.All(script.DefaultCmds()))
		return &script.Engine{Cmds: cmds, RetryInterval: 20 * time.Millisecond, MaxRetryInterval: 200 * time.Millisecond}
	}, nil, "testdata/*.txtar")
}
