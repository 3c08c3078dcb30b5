// Package deviceplugin is a device plugin of the kubelet with one device. It gives the watchdog of a node to a
// container without privileges, as a generic plugin would.
//
//	kubelet <--Register-- plugin;  kubelet --ListAndWatch, Allocate--> plugin
//
// It runs in a pod that sees the kubelet's folder. A kubelet that starts removes the plugin's socket. The plugin then
// ends, so that its container is restarted and registers again. It has no state; calls come from the goroutines of
// gRPC.
package deviceplugin
