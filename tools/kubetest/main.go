// Kubetest builds bin/kubetest, the control plane of make test-kube (its source is
// integration/kube/cmd/kubetest), unless that is there and of the present source.
//
//	cd tools && go run ./kubetest ..
//
// With -runtime it builds bin/runtime in the same way, for make cluster: containerd, runc and CNI
// plugins (integration/cluster/cmd/runtime).
//
// It compiles most of Kubernetes: minutes on the first run, and 3 GB in Go's build cache. So the
// program is kept beside a key made from its source and from the version of Go, and only
// they decide whether it is built again: bin/ may be carried from machine to machine without
// the build cache.
//
// It needs nothing but Go, for the runtime a C compiler and libseccomp, too. The exit code is 0 if the program is there, 1 if it could not be
// built and 2 if kubetest was called in a wrong way.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	containers := flag.Bool("runtime", false, "build bin/runtime instead of bin/kubetest")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: kubetest [-runtime] REPOSITORY\n")
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	b := newBuilder(flag.Arg(0), os.Stdout)
	var err error
	if *containers {
		b = newRuntime(flag.Arg(0), os.Stdout)
		if _, absent := os.Stat(b.program); absent != nil {
			err = runtimeNeeds()
		}
	}
	if err == nil {
		err = b.run(ctx)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "kubetest:", err)
		os.Exit(1)
	}
}
