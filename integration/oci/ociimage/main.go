// Ociimage makes a container image from a folder with a root file system.
//
//	go run ./integration/oci/ociimage -name REGISTRY/NAME:TAG -entrypoint /usr/local/bin/PROGRAM -user 65532:65532 ROOT ARCHIVE
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/fencing-agent/fencing-agent/integration/oci"
)

func main() {
	name := flag.String("name", "", "name of the image, with its tag")
	entrypoint := flag.String("entrypoint", "", "program that the image runs")
	user := flag.String("user", "0:0", "user that runs it, as UID:GID")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: ociimage -name NAME -entrypoint PROGRAM [-user UID:GID] ROOT ARCHIVE")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 2 || *name == "" || *entrypoint == "" {
		flag.Usage()
		os.Exit(2)
	}
	files, err := oci.Tree(flag.Arg(0))
	if err == nil {
		err = (&oci.Image{Name: *name, Files: files, Entrypoint: []string{*entrypoint}, User: *user}).Write(flag.Arg(1))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "ociimage:", err)
		os.Exit(1)
	}
}
