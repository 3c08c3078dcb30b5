//go:build !linux

package main

import "errors"

func formattedFor(string) (cluster, group string, err error) {
	return "", "", errors.New("LUNs are read on Linux only")
}
