package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Stage describes the cluster for a scene: nodes on their networks, a LUN that fencectl formats, and an agent on each
// node.
type Stage struct {
	Bin   string // folder with fencing-agent and fencectl
	Nodes int    // named n1, n2, ...
	// Launch contains the arguments with which this executable calls ExecInBoot; each node then has a separate boot.
	// Nil: all nodes use the host's boot.
	Launch []string
	// Show returns the path by which the nodes reach the LUN's file; nil: they use the file itself.
	Show func(file string) (path string, err error)
	// Override is merged into the top level of each node's file.
	Override map[string]any
}

// StageNetworks lists the networks of each stage.
var StageNetworks = []string{"mgmt", "data"}

// StageHTTP is the address on which each agent of a stage listens, on the loopback interface of its node.
const StageHTTP = "127.0.0.1:9110"

// StageNode returns the name of a node, counted from 0.
func StageNode(i int) string { return fmt.Sprintf("n%d", i+1) }

// stageLUN is the size of a LUN, with room for more slots than a stage can have nodes.
const stageLUN = 4 << 20

// FormatLUN formats the LUN of the stage in a directory, as a user does.
func (s *Stage) FormatLUN(ctx context.Context, dir string) (lun *LUNFile, err error) {
	if err := HasPrograms(s.Bin); err != nil {
		return nil, err
	}
	if lun, err = NewLUNFile(dir, stageLUN); err != nil {
		return nil, err
	}
	if s.Show != nil {
		if lun.Path, err = s.Show(lun.Path); err != nil {
			return nil, errors.Join(err, lun.Close())
		}
	}
	init := exec.CommandContext(ctx, filepath.Join(s.Bin, "fencectl"), "lun", "init", lun.Path, "--cluster", "demo", "--node-group", "demo", "--slots", strconv.Itoa(s.Nodes))
	if out, err := init.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w: %s", strings.Join(init.Args, " "), err, strings.TrimSpace(string(out))), lun.Close())
	}
	return lun, nil
}

// Names returns the names of all nodes.
func (s *Stage) Names() (names []string) {
	for i := range s.Nodes {
		names = append(names, StageNode(i))
	}
	return names
}

// Build builds the stage in a directory with a short path, because of the sockets, and starts no agent. Close removes
// everything except the directory.
func (s *Stage) Build(ctx context.Context, dir string) (_ *Agents, err error) {
	bin, err := filepath.Abs(s.Bin) // agents have another working directory
	if err != nil {
		return nil, fmt.Errorf("programs: %w", err)
	}
	lun, err := s.FormatLUN(ctx, dir)
	if err != nil {
		return nil, err
	}
	var l *Lab
	defer func() {
		if err != nil {
			err = errors.Join(err, lun.Close())
			if l != nil {
				err = errors.Join(err, l.Close())
			}
		}
	}()
	l, err = New(Config{Nodes: s.Names(), Networks: StageNetworks, Dir: dir})
	if err != nil {
		return nil, err
	}
	conf := AgentConfig{Dir: dir, LUN: func(string) string { return lun.Path }, HTTP: StageHTTP, Override: s.Override}
	a, err := NewAgents(l, filepath.Join(bin, "fencing-agent"), conf)
	if err != nil {
		return nil, err
	}
	if s.Launch != nil {
		if err := a.Boots(append([]string{"/proc/self/exe"}, s.Launch...)...); err != nil {
			return nil, err
		}
	}
	l.undo = append([]func(){func() { _ = lun.Close() }}, l.undo...) // a leftover in a temporary directory does no harm
	return a, nil
}

// HasPrograms returns an error that names the first program missing in a directory.
func HasPrograms(bin string) error {
	for _, program := range []string{"fencing-agent", "fencectl"} {
		if _, err := os.Stat(filepath.Join(bin, program)); err != nil {
			return fmt.Errorf("program %s: %w: build it with make build, or name its folder with --bin", program, err)
		}
	}
	return nil
}

// InFolder calls f with a new directory. It keeps the directory if f fails and has left something there.
func InFolder(name string, out io.Writer, f func(dir string) error) error {
	dir, err := os.MkdirTemp("", name+"-")
	if err != nil {
		return err
	}
	if err := f(dir); err != nil {
		if os.Remove(dir) != nil { // it is not empty
			fmt.Fprintf(out, "\nLogs and configurations are kept in %s\n", dir)
		}
		return err
	}
	return os.RemoveAll(dir)
}
