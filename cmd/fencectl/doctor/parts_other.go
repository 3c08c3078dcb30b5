//go:build !linux

package doctor

// Parts looks at nothing: the agent runs on Linux.
func (m *Machine) Parts() []Finding { return nil }
