package lunadmin

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The interface of <scsi/sg.h>, version 3, which golang.org/x/sys does not have.
const (
	ioctlSGIO    = 0x2285
	sgInterface  = 'S'
	sgFromDevice = -3
	sgTimeout    = 5000 // ms
	senseLength  = 32
)

type sgHeader struct {
	interfaceID    int32
	direction      int32
	commandLength  uint8
	senseLength    uint8
	iovecCount     uint16
	dataLength     uint32
	data           *byte
	command        *byte
	sense          *byte
	timeout        uint32
	flags          uint32
	packID         int32
	userPointer    uintptr
	status         uint8
	maskedStatus   uint8
	messageStatus  uint8
	senseWritten   uint8
	hostStatus     uint16
	driverStatus   uint16
	residual       int32
	duration, info uint32
}

// driverSense in driverStatus says that there is sense data, which is no fault of the driver.
const driverSense = 0x08

// sgio sends commands to the open device. A path that hangs holds the caller up for sgTimeout.
func sgio(f *os.File) scsiCommand {
	return func(cdb, data []byte) (status, sense byte, err error) {
		senseData := make([]byte, senseLength)
		var pins runtime.Pinner
		defer pins.Unpin()
		for _, b := range [][]byte{cdb, data, senseData} {
			pins.Pin(&b[0])
		}
		h := sgHeader{
			interfaceID: sgInterface, direction: sgFromDevice, timeout: sgTimeout,
			commandLength: uint8(len(cdb)), command: &cdb[0], dataLength: uint32(len(data)), data: &data[0],
			senseLength: senseLength, sense: &senseData[0],
		}
		conn, err := f.SyscallConn()
		if err != nil {
			return 0, 0, err
		}
		var errno unix.Errno
		err = conn.Control(func(fd uintptr) {
			_, _, errno = unix.Syscall(unix.SYS_IOCTL, fd, ioctlSGIO, uintptr(unsafe.Pointer(&h)))
		})
		switch {
		case err != nil:
			return 0, 0, err
		case errno != 0:
			return 0, 0, errno
		case h.hostStatus != 0 || h.driverStatus&^driverSense != 0:
			return 0, 0, fmt.Errorf("the command did not get through: host status 0x%x, driver status 0x%x", h.hostStatus, h.driverStatus)
		}
		return h.status, senseKey(senseData), nil
	}
}

// senseKey reads either format of sense data.
func senseKey(data []byte) byte {
	switch data[0] & 0x7f {
	case 0x72, 0x73: // descriptors
		return data[1] & 0x0f
	default:
		return data[2] & 0x0f
	}
}
