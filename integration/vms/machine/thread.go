package machine

import "runtime"

// onOwnThread runs f on a thread of its own, which lives until done is closed.
func onOwnThread(f func(), done <-chan struct{}) {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	f()
	<-done
}
