package lunadmin

import (
	"context"
	"errors"
	"fmt"

	"github.com/fencing-agent/fencing-agent/diskquorum/rawdev"
)

// Find returns the path of the device that an operator names as in lun.devices: by a path, or as wwn:NAME. The other
// functions of this package take only paths: from the path they also find out whether a device is in use.
func Find(spec string) (string, error) { return rawdev.Find(spec) }

// Paths lists what is wrong with the way to the device that spec names, on the machine whose file system is below root.
// The device is not opened.
func Paths(root, spec string) ([]rawdev.Advice, error) { return rawdev.AdviceFor(root, spec) }

// DeviceReport is what the path names.
type DeviceReport struct {
	Path        string `json:"path"`
	Kind        string `json:"kind"`
	Bytes       int64  `json:"bytes"`
	SectorBytes int    `json:"sectorBytes"`
	ReadOnly    bool   `json:"readOnly,omitempty"` // no agent can use it here
}

// Opened is the part of each report that describes the device.
type Opened struct {
	Device   *DeviceReport `json:"device,omitempty"`
	Warnings []string      `json:"warnings"`
}

func (o *Opened) add(device Opened) {
	o.Device, o.Warnings = device.Device, append(o.Warnings, device.Warnings...)
}

// onDevice opens a device, does op with it and closes it.
func onDevice(ctx context.Context, op, path string, o rawdev.Options, do func(*rawdev.Device, Opened) error) error {
	dev, err := await(ctx, func() (*rawdev.Device, error) { return rawdev.Open(path, o) })
	if errors.As(err, new(interruption)) {
		return fmt.Errorf("open %s: %w", path, err)
	} else if err != nil {
		return err
	}
	opened := Opened{Device: &DeviceReport{Path: path, Kind: dev.Kind().String(), Bytes: dev.Size(), SectorBytes: dev.SectorSize(), ReadOnly: dev.ReadOnly()}}
	if w := dev.Warning(); w != "" {
		opened.Warnings = []string{w}
	}
	err = do(dev, opened)
	if cerr := dev.Close(); err == nil {
		err = cerr
	}
	refused, stopped := new(RefusedError), new(InterruptedError)
	if err == nil || errors.As(err, &refused) || errors.As(err, &stopped) { // these errors already name the device
		return err
	}
	return fmt.Errorf("%s %s: %w", op, path, err)
}
