package lunadmin

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// SCSIReport is what a SCSI target says it can do. Agents need none of it; other programs on the same storage may, and
// a target that offers it says something about how seriously it takes many initiators.
type SCSIReport struct {
	Vendor  string `json:"vendor"`
	Product string `json:"product"`
	// PersistentReservations is "yes", "no", or why it is not known.
	PersistentReservations string   `json:"persistentReservations"`
	ReservationTypes       []string `json:"reservationTypes,omitempty"`
	ThroughPowerLoss       bool     `json:"reservationsThroughPowerLoss,omitempty"`
	// CompareAndWrite is "yes", "no", or why it is not known.
	CompareAndWrite string `json:"compareAndWrite"`
	CompareBlocks   int    `json:"compareAndWriteBlocks,omitempty"`
}

// What the target answered: the status byte of SAM-5 and the sense key of SPC-4.
const (
	scsiGood       = 0x00
	scsiCheck      = 0x02
	illegalRequest = 0x05
)

// Commands that only ask, so that they may be sent to a LUN that is in use.
const (
	opInquiry            = 0x12
	opReserveIn          = 0x5e
	reserveInCapability  = 0x02
	pageBlockLimits      = 0xb0
	inquiryLength        = 96
	blockLimitsLength    = 64
	reserveInLength      = 8
	compareLengthAt      = 5 // in the page of block limits
	capabilityMaskValid  = 0x80
	capabilityPowerLoss  = 0x01
	unitAttentionRetries = 3 // a target reports what has happened since, one at a time, before it answers
	unitAttention        = 0x06
)

var errUnsupported = errors.New("the target does not support the command")

// scsiCommand sends a command that reads into data, and returns status and sense key. An error says that none was sent.
type scsiCommand func(cdb, data []byte) (status, sense byte, err error)

// probeSCSI asks the device at path; nil: it is no SCSI device, or not one that can be asked.
func probeSCSI(path string) *SCSIReport {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Mode()&os.ModeDevice == 0 {
		return nil
	}
	return askSCSI(sgio(f))
}

func askSCSI(send scsiCommand) *SCSIReport {
	inquiry := make([]byte, inquiryLength)
	if err := ask(send, []byte{opInquiry, 0, 0, 0, inquiryLength, 0}, inquiry); err != nil {
		return nil // the ioctl is not for this kind of device
	}
	text := func(from, to int) string { return strings.TrimSpace(strings.Trim(string(inquiry[from:to]), "\x00")) }
	r := &SCSIReport{Vendor: text(8, 16), Product: text(16, 32)}
	r.askReservations(send)
	r.askCompare(send)
	return r
}

// reservationTypes are the bits of the mask in REPORT CAPABILITIES, first byte in the high half.
var reservationTypes = []struct {
	bit  uint16
	name string
}{
	{1 << 9, "write exclusive"},
	{1 << 11, "exclusive access"},
	{1 << 13, "write exclusive, registrants only"},
	{1 << 14, "exclusive access, registrants only"},
	{1 << 15, "write exclusive, all registrants"},
	{1 << 0, "exclusive access, all registrants"},
}

func (r *SCSIReport) askReservations(send scsiCommand) {
	data := make([]byte, reserveInLength)
	err := ask(send, []byte{opReserveIn, reserveInCapability, 0, 0, 0, 0, 0, 0, reserveInLength, 0}, data)
	r.PersistentReservations = answerText(err)
	if err != nil {
		return
	}
	r.ThroughPowerLoss = data[2]&capabilityPowerLoss != 0
	if data[3]&capabilityMaskValid == 0 {
		return
	}
	mask := binary.BigEndian.Uint16(data[4:])
	for _, t := range reservationTypes {
		if mask&t.bit != 0 {
			r.ReservationTypes = append(r.ReservationTypes, t.name)
		}
	}
}

func (r *SCSIReport) askCompare(send scsiCommand) {
	page := make([]byte, blockLimitsLength)
	err := ask(send, []byte{opInquiry, 1, pageBlockLimits, 0, blockLimitsLength, 0}, page)
	if err == nil && page[1] != pageBlockLimits {
		err = errUnsupported // another page than the one asked for
	}
	r.CompareAndWrite = answerText(err)
	if err != nil {
		return
	}
	if r.CompareBlocks = int(page[compareLengthAt]); r.CompareBlocks == 0 {
		r.CompareAndWrite = "no"
	}
}

func answerText(err error) string {
	switch {
	case err == nil:
		return "yes"
	case errors.Is(err, errUnsupported):
		return "no"
	default:
		return "unknown: " + err.Error()
	}
}

func ask(send scsiCommand, cdb, data []byte) error {
	for attempt := 0; ; attempt++ {
		status, sense, err := send(cdb, data)
		switch {
		case err != nil:
			return err
		case status == scsiGood:
			return nil
		case status == scsiCheck && sense == illegalRequest:
			return errUnsupported
		case status == scsiCheck && sense == unitAttention && attempt < unitAttentionRetries:
		default:
			return fmt.Errorf("status 0x%02x, sense key 0x%x", status, sense)
		}
	}
}

// Summary is one line for people.
func (r *SCSIReport) Summary() string {
	reservations := r.PersistentReservations
	if len(r.ReservationTypes) > 0 {
		reservations = fmt.Sprintf("%s, %d types", reservations, len(r.ReservationTypes))
	}
	compare := r.CompareAndWrite
	switch {
	case r.CompareBlocks == 1:
		compare += ", 1 block"
	case r.CompareBlocks > 1:
		compare = fmt.Sprintf("%s, up to %d blocks", compare, r.CompareBlocks)
	}
	return fmt.Sprintf("%s %s; persistent reservations: %s; COMPARE AND WRITE: %s (agents need neither)", r.Vendor, r.Product, reservations, compare)
}
