package machine

import "runtime"

// onOwnThread runs f on a separate thread, which lives until done is closed.
func onOwnThread(f func(), done <-chan struct{}) {
	// It is never unlocked, so the thread ends with the goroutine.
	runtime.LockOSThread()
	f()
	<-done
}
