// Tool is the one program of the image localhost/tool:1, which is all that the nodes have
// beside the agents: it holds the namespaces of a pod (pause), and is a workload that says
// every second that it runs (work), that fails (fail), and that reads a block of a device
// (read).
package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	what := "pause"
	if len(os.Args) > 1 {
		what = os.Args[1]
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, os.Interrupt, syscall.SIGTERM)
	tick := make(<-chan time.Time)
	switch what {
	case "pause":
	case "work":
		tick = time.Tick(time.Second)
	case "fail":
		fmt.Fprintln(os.Stderr, "tool: fails, as it was asked to")
		os.Exit(1)
	case "read":
		f, err := os.Open(os.Args[len(os.Args)-1])
		if err == nil {
			_, err = io.ReadFull(f, make([]byte, 4096))
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "tool:", err)
			os.Exit(1)
		}
		return
	default:
		fmt.Fprintln(os.Stderr, "usage: tool pause|work|fail|read PATH")
		os.Exit(2)
	}
	for {
		select {
		case <-ended:
			return
		case now := <-tick:
			fmt.Println(now.Format(time.RFC3339Nano), os.Getenv("NODE_NAME"))
		}
	}
}
