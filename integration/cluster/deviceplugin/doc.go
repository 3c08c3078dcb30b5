// Package deviceplugin is a device plugin of the kubelet with one device, as a generic one would hand out the watchdog of
// a node to a container without privileges.
//
//	kubelet <--Register-- plugin;  kubelet --ListAndWatch, Allocate--> plugin
//
// It runs in a pod that sees the kubelet's folder. It ends when the kubelet has removed its socket, as a kubelet that
// starts does, so that its container is started again and registers again. It has no state; calls come from the goroutines of gRPC.
package deviceplugin
