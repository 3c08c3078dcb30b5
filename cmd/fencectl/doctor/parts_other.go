//go:build !linux

package doctor

// parts looks at nothing: the agent runs on Linux.
func (m *Machine) parts() []Finding { return nil }
