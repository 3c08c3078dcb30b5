package lab

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// SlowFile passes reads and writes on to another file, with a delay for each. The delays of parallel calls run in
// parallel, and not one after the other. It is a FUSE file system of one file that is mounted nowhere. The kernel
// removes it when the last process that has it open closes it or ends.
type SlowFile struct {
	Path   string // for LoopDevices, valid only in this process
	IOs    atomic.Int64
	delay  atomic.Int64
	writes sync.RWMutex // while locked, writes hang
	file   *os.File
	size   uint64
	conn   int
	mount  *os.File
	server sync.WaitGroup
}

// These are the used parts of linux/fuse.h, 7.31.
const (
	fuseGetattr = 3
	fuseSetattr = 4
	fuseForget  = 2
	fuseOpen    = 14
	fuseRead    = 15
	fuseWrite   = 16
	fuseRelease = 18
	fuseFsync   = 20
	fuseFlush   = 25
	fuseInit    = 26
	fuseStop    = 36 // INTERRUPT
	fuseForgets = 42

	fuseAsyncRead = 1 << 0
	fuseAsyncDIO  = 1 << 15
	fuseMaxPages  = 1 << 22

	fuseOpenDirect   = 1 << 0
	fuseOpenParallel = 1 << 6

	fuseMostData = 1 << 20
	fuseInHeader = 40
	fuseIOHeader = 40 // in requests READ and WRITE
)

// NewSlowFile creates a SlowFile over the file at path. It needs root and /dev/fuse.
func NewSlowFile(path string) (_ *SlowFile, err error) {
	s := &SlowFile{}
	if s.file, err = os.OpenFile(path, os.O_RDWR, 0); err != nil {
		return nil, fmt.Errorf("lab: slow file: %w", err)
	}
	info, err := s.file.Stat()
	if err != nil {
		s.file.Close()
		return nil, err
	}
	s.size = uint64(info.Size())
	// The descriptor does not use the runtime's poller, because its last read could not be interrupted then.
	if s.conn, err = unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
		s.file.Close()
		return nil, fmt.Errorf("lab: slow file: open /dev/fuse: %w", err)
	}
	mount, err := mountFUSE(s.conn)
	if err != nil {
		s.file.Close()
		unix.Close(s.conn)
		return nil, fmt.Errorf("lab: slow file: mount: %w", err)
	}
	s.mount = os.NewFile(uintptr(mount), "fuse")
	s.Path = "/proc/self/fd/" + strconv.Itoa(mount)
	s.server.Go(s.serve)
	return s, nil
}

// mountFUSE creates a mount whose root is a regular file.
func mountFUSE(conn int) (mount int, err error) {
	fs, err := unix.Fsopen("fuse", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fs)
	for _, o := range [][2]string{{"source", "slow"}, {"fd", strconv.Itoa(conn)}, {"rootmode", "100600"}, {"user_id", "0"}, {"group_id", "0"}} {
		if err := unix.FsconfigSetString(fs, o[0], o[1]); err != nil {
			return -1, fmt.Errorf("%s: %w", o[0], err)
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, err
	}
	return unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
}

// SetDelay sets the delay of each later read and write, which is added to the real duration.
func (s *SlowFile) SetDelay(d time.Duration) { s.delay.Store(int64(d)) }

// Freeze waits for the writes under way, and makes all later ones hang until Thaw.
func (s *SlowFile) Freeze() { s.writes.Lock() }

// Thaw ends Freeze.
func (s *SlowFile) Thaw() { s.writes.Unlock() }

// Close ends the SlowFile. Close devices over it first, or they end with it.
func (s *SlowFile) Close() error {
	err := s.mount.Close()
	ended := make(chan struct{})
	go func() {
		s.server.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		err = errors.Join(err, errors.New("lab: slow file: a process still has it open: close it first"))
	}
	return err
}

func (s *SlowFile) serve() {
	defer unix.Close(s.conn)
	defer s.file.Close()
	var busy sync.WaitGroup
	defer busy.Wait()
	buffer := make([]byte, fuseMostData+4096)
	for {
		n, err := unix.Read(s.conn, buffer)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ENOENT):
			continue
		case err != nil || n < fuseInHeader: // ENODEV: no process has the file open any more
			return
		}
		request := append([]byte(nil), buffer[:n]...)
		busy.Go(func() { s.handle(request) })
	}
}

func (s *SlowFile) handle(request []byte) {
	order := binary.NativeEndian
	opcode, id, body := order.Uint32(request[4:]), order.Uint64(request[8:]), request[fuseInHeader:]
	switch opcode {
	case fuseForget, fuseForgets, fuseStop:
		return // the kernel expects no answer
	case fuseRead, fuseWrite:
		s.IOs.Add(1)
		time.Sleep(time.Duration(s.delay.Load()))
	}
	out, errno := s.answer(opcode, body)
	reply := order.AppendUint32(nil, uint32(16+len(out)))
	reply = order.AppendUint32(reply, uint32(-int32(errno)))
	reply = append(order.AppendUint64(reply, id), out...)
	_, _ = unix.Write(s.conn, reply) // this fails when no process waits for the reply any more
}

func (s *SlowFile) answer(opcode uint32, body []byte) (out []byte, errno unix.Errno) {
	order := binary.NativeEndian
	switch opcode {
	case fuseInit:
		out = make([]byte, 64)
		order.PutUint32(out, 7)
		order.PutUint32(out[4:], 31)
		// The kernel chooses the read-ahead: direct I/O has none.
		order.PutUint32(out[8:], order.Uint32(body[8:]))
		order.PutUint32(out[12:], fuseAsyncRead|fuseAsyncDIO|fuseMaxPages)
		order.PutUint16(out[16:], 64) // requests that need not wait
		order.PutUint16(out[18:], 64)
		order.PutUint32(out[20:], fuseMostData)
		order.PutUint32(out[24:], 1)
		order.PutUint16(out[28:], fuseMostData/4096)
		return out, 0
	case fuseGetattr, fuseSetattr:
		out = make([]byte, 16+88)
		order.PutUint64(out, 3600) // valid for this many seconds
		order.PutUint64(out[16:], 1)
		order.PutUint64(out[24:], s.size)
		order.PutUint64(out[32:], s.size/512)
		order.PutUint32(out[76:], unix.S_IFREG|0o600)
		order.PutUint32(out[80:], 1)
		order.PutUint32(out[96:], 4096)
		return out, 0
	case fuseOpen:
		out = make([]byte, 16)
		order.PutUint32(out[8:], fuseOpenDirect|fuseOpenParallel)
		return out, 0
	case fuseRead:
		out = make([]byte, order.Uint32(body[16:]))
		n, _ := s.file.ReadAt(out, int64(order.Uint64(body[8:]))) // at the end of the file this is a short read
		return out[:n], 0
	case fuseWrite:
		s.writes.RLock()
		defer s.writes.RUnlock()
		data := body[fuseIOHeader:][:order.Uint32(body[16:])]
		n, err := s.file.WriteAt(data, int64(order.Uint64(body[8:])))
		if err != nil {
			return nil, unix.EIO
		}
		return order.AppendUint32(order.AppendUint32(nil, uint32(n)), 0), 0
	case fuseRelease, fuseFsync, fuseFlush:
		return nil, 0
	}
	return nil, unix.ENOSYS
}
