// Tool is the only program of the image localhost/tool:1, which is the nodes' only image besides those of the agents.
// It holds the namespaces of a pod (pause). As a workload it reports every second that it runs (work), fails (fail),
// reads a block of a device (read), or writes a line to a volume every 20 ms (write; stubborn does not end when it is
// asked to).
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
	case "write":
		write(ended)
		return
	case "stubborn":
		write(nil)
		return
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
		fmt.Fprintln(os.Stderr, "usage: tool pause|work|fail|read PATH|write FOLDER|stubborn FOLDER")
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

// write writes to a file of the volume who runs and when: time, pod, node, boot. All nodes see the same file and the
// same clock, so that the file reveals two writers at once.
func write(ended <-chan os.Signal) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err == nil {
		var f *os.File
		if f, err = os.OpenFile(os.Args[len(os.Args)-1]+"/writers", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666); err == nil {
			err = lines(f, fmt.Sprintf("%s %s %s", os.Getenv("POD_UID"), os.Getenv("NODE_NAME"), boot[:8]), ended)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tool:", err)
		os.Exit(1)
	}
}

func lines(f *os.File, who string, ended <-chan os.Signal) error {
	tick := time.Tick(20 * time.Millisecond)
	for {
		if _, err := fmt.Fprintln(f, time.Now().UnixNano(), who); err != nil {
			return err
		}
		select {
		case <-tick:
		case <-ended:
			return nil
		}
	}
}
