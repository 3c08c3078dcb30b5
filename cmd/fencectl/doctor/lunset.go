package doctor

import "strings"

// Set checks whether the devices of the LUN were formatted as one set, as far as they can be read; if so, there is no
// finding.
func (m *Machine) Set() (out []Finding) {
	devices := m.Config.LUN.Devices
	known := map[int]Format{}
	for i, d := range devices {
		if f, err := m.FormattedFor(d); err == nil {
			known[i] = f
		}
	}
	// fit reports whether the known devices, except for one, belong to one set, each once.
	fit := func(without int) bool {
		set, slots, seen := "", 0, map[int]bool{}
		for i, f := range known {
			if i == without {
				continue
			}
			if f.Of != len(devices) || set != "" && f.Set != set || slots != 0 && f.Slots != slots || len(devices) > 1 && seen[f.Place] {
				return false
			}
			set, slots, seen[f.Place] = f.Set, f.Slots, true
		}
		return true
	}
	if fit(-1) {
		return nil
	}
	var odd []string
	for i, d := range devices {
		if f, ok := known[i]; ok && (len(known) > 1 || len(devices) > 1 && f.Of != len(devices)) && fit(i) {
			odd = append(odd, d)
		}
	}
	const mend = "correct lun.devices, or format all devices of the set together, once, with fencectl lun init"
	if len(odd) == 1 {
		return []Finding{{Wrong, "LUN", odd[0] + " does not belong to the same set as the others", "the agent leaves it out until it is restarted; " + mend}}
	}
	return []Finding{{Wrong, "LUN", strings.Join(devices, ", ") + ": the devices do not belong together", noStart + ": " + mend}}
}
