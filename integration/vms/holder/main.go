// Command holder is a program that works with a shared disk under a lease, for the comparison with sanlock. It reads a
// block of the disk every 100 ms, past the cache, forever. It repeats I/O that fails, like a program that expects its
// storage to come back. While I/O hangs, the kernel does not let it end. It reports reads that took long, and reads
// whose result differs from the one before.
package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	blockSize = 4096
	pause     = 100 * time.Millisecond
	long      = 500 * time.Millisecond
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: holder DEVICE")
		os.Exit(2)
	}
	fd, err := unix.Open(os.Args[1], unix.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		fmt.Fprintf(os.Stderr, "holder: open %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
	block, err := unix.Mmap(-1, 0, blockSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE) // aligned
	if err != nil {
		fmt.Fprintf(os.Stderr, "holder: buffer: %v\n", err)
		os.Exit(1)
	}
	var failed error
	for ; ; time.Sleep(pause) {
		began := time.Now()
		n, err := unix.Pread(fd, block, 0)
		if err == nil && n == 0 {
			err = errors.New("no bytes: the device is gone")
		}
		took := time.Since(began)
		if (err != nil) != (failed != nil) || took > long {
			fmt.Printf("holder: read %s in %.1f s: %v\n", os.Args[1], took.Seconds(), err)
		}
		failed = err
	}
}
