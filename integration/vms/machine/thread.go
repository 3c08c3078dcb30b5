package machine

import "runtime"

// onOwnThread runs f on a separate thread, which lives until done is closed.
func onOwnThread(f func(), done <-chan struct{}) {
	runtime.LockOSThread() // never unlocked, so that the thread ends with the goroutine
	f()
	<-done
}
