#!/bin/sh
# memberlist v0.7.0: a broadcast that is one byte longer than a packet has room for is never sent and never given up.
#
# TransmitLimitedQueue takes a broadcast of any length. One that does not fit into the limit of GetBroadcasts is passed
# over in each round, is not counted as sent, and its Finished is not called, so it stays in the queue for as long as the
# process runs. Nothing logs it and no call returns an error. Shorter broadcasts beside it are sent as usual, which is
# why it goes unnoticed. A caller that waits for Finished waits for ever.
#
# Seen: the broadcast of exactly the room is sent and finished after 4 rounds (RetransmitMult 4, one node), the one a
# byte longer is in the queue, unsent and unfinished, after 100000 rounds. Nothing else of the queue suffers.
# Consequence for users: compare with the room before you queue (limit less overhead of the round), and watch NumQueued.
#
# Needs Go. Exits 0 while the behaviour is as described, 1 when it has changed.
set -eu
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cd "$dir"
cat > go.mod <<'MOD'
module finding

go 1.24
MOD
cat > main.go <<'GO'
package main

import (
	"fmt"
	"os"

	"github.com/hashicorp/memberlist"
)

type message struct {
	bytes    []byte
	finished int
}

func (m *message) Invalidates(memberlist.Broadcast) bool { return false }
func (m *message) Message() []byte                       { return m.bytes }
func (m *message) Finished()                             { m.finished++ }

// rounds queues a broadcast of so many bytes and asks for what is to be sent n times.
func rounds(queue *memberlist.TransmitLimitedQueue, size, n int) (*message, int) {
	const overhead, limit = 2, 1400
	m := &message{bytes: make([]byte, size)}
	queue.QueueBroadcast(m)
	sent := 0
	for range n {
		sent += len(queue.GetBroadcasts(overhead, limit))
	}
	return m, sent
}

func main() {
	queue := &memberlist.TransmitLimitedQueue{NumNodes: func() int { return 1 }, RetransmitMult: 4}
	fits, sentFits := rounds(queue, 1398, 10)
	fmt.Printf("1398 bytes: sent %d times, finished %d, left in the queue %d\n", sentFits, fits.finished, queue.NumQueued())
	long, sentLong := rounds(queue, 1399, 100000)
	fmt.Printf("1399 bytes: sent %d times in 100000 rounds, finished %d, left in the queue %d\n", sentLong, long.finished, queue.NumQueued())
	_, sentSmall := rounds(queue, 20, 10)
	fmt.Printf("20 bytes beside it: sent %d times\n", sentSmall)
	if sentFits != 4 || fits.finished != 1 || sentLong != 0 || long.finished != 0 || queue.NumQueued() != 1 || sentSmall != 4 {
		fmt.Println("changed: this is not what v0.7.0 did")
		os.Exit(1)
	}
}
GO
go get github.com/hashicorp/memberlist@v0.7.0 >/dev/null 2>&1 || { echo "cannot get github.com/hashicorp/memberlist@v0.7.0: is the module proxy reachable?" >&2; exit 2; }
go run .
