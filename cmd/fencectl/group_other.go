//go:build !unix

package main

import "io/fs"

// groupOf names the group of a file, on systems where files have one.
func groupOf(fs.FileInfo) string { return "its group" }
