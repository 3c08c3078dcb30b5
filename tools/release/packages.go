package main

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers its format
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers its format
)

// packaging contains the files that only packages need: maintainer scripts and files for the distributions.
//
//go:embed packaging
var packaging embed.FS

const packageName = "fencing-agent"

// staged is a file of a package.
type staged struct {
	dst, kind string
	mode      os.FileMode
	data      []byte
	link      string
}

// packages makes a package for each format and each platform of nodes.
func (r *release) packages(context.Context) error {
	for _, p := range r.nodes {
		for _, format := range []string{"deb", "rpm"} {
			if err := r.pack(format, p); err != nil {
				return fmt.Errorf("%s for %s: %w", format, p, err)
			}
		}
	}
	return nil
}

func (r *release) pack(format string, p platform) error {
	list, err := r.contents(format, p)
	if err != nil {
		return err
	}
	dir := filepath.Join(r.work, format+"-"+p.machine)
	var contents files.Contents
	for i, f := range list {
		c := &files.Content{Destination: f.dst, Type: f.kind, FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: f.mode, MTime: r.time}}
		switch {
		case f.link != "":
			c.Source, c.Type = f.link, files.TypeSymlink
		case f.kind != files.TypeDir:
			c.Source = filepath.Join(dir, fmt.Sprint(i))
			if err := stage(c.Source, f.data); err != nil {
				return err
			}
		}
		contents = append(contents, c)
	}
	scripts := nfpm.Scripts{}
	for name, to := range map[string]*string{"postinst": &scripts.PostInstall, "prerm": &scripts.PreRemove, "postrm": &scripts.PostRemove} {
		text, err := script(format, name)
		if err != nil {
			return err
		}
		*to = filepath.Join(dir, name)
		if err := stage(*to, text); err != nil {
			return err
		}
	}
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: packageName, Arch: p.machine, Platform: p.system, Version: r.plain(), Section: "admin", Priority: "optional", Maintainer: vendor,
		Vendor: vendor, Homepage: homepage, License: license, Description: summary + "\n" + longer, MTime: r.time, DisableGlobbing: true,
		Overridables: nfpm.Overridables{
			Contents: contents, Scripts: scripts, Umask: 0o022, Suggests: []string{"multipath-tools"},
			Deb: nfpm.Deb{Compression: "gzip"},
			RPM: nfpm.RPM{Summary: summary, BuildHost: "reproducible", Compression: "gzip:9"},
		},
	})
	if format == "rpm" {
		info.Suggests = []string{"device-mapper-multipath"}
	}
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := packager.Package(info, &out); err != nil {
		return err
	}
	return r.put(packager.ConventionalFileName(info), out.Bytes())
}

const longer = `The nodes of a group watch each other on several networks and on a shared LUN. A node that has lost
the others is reset by its watchdog, so that these may take over what it had. This package changes
nothing of a node until somebody configures and starts fencing-agent.service.`

func stage(file string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o644)
}

// script puts the commands of both formats before those of one format.
func script(format, name string) ([]byte, error) {
	shared, err := packaging.ReadFile("packaging/scripts/functions.sh")
	if err != nil {
		return nil, err
	}
	own, err := packaging.ReadFile(path.Join("packaging/scripts", format+"-"+name+".sh"))
	return slices.Concat([]byte("#!/bin/sh\nset -e\n"), shared, own), err
}

// contents lists the files of a package.
func (r *release) contents(format string, p platform) ([]staged, error) {
	var list []staged
	add := func(dst string, mode os.FileMode, data []byte) {
		list = append(list, staged{dst: dst, mode: mode, data: data})
	}
	var failed error
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(r.root, name))
		if err != nil && failed == nil {
			failed = err
		}
		return data
	}
	for _, name := range []string{"fencing-agent", "fencectl"} {
		data, err := os.ReadFile(r.programs[p.String()+"/"+name])
		if err != nil {
			return nil, err
		}
		add("/usr/bin/"+name, 0o755, data)
	}
	list = append(list, staged{dst: "/usr/bin/kubectl-fence", mode: 0o777, link: "fencectl"})
	unit := bytes.ReplaceAll(read("deploy/systemd/fencing-agent.service"), []byte("/usr/local/bin/"), []byte("/usr/bin/"))
	add("/usr/lib/systemd/system/fencing-agent.service", 0o644, unit)
	for _, name := range slices.Sorted(maps.Keys(r.pages)) {
		packed, err := zipped(r.pages[name])
		if err != nil {
			return nil, err
		}
		add("/usr/share/man/man"+name[len(name)-1:]+"/"+name+".gz", 0o644, packed)
	}
	zsh := map[string]string{"deb": "vendor-completions", "rpm": "site-functions"}[format]
	add("/usr/share/bash-completion/completions/fencectl", 0o644, r.shells["bash"])
	add("/usr/share/zsh/"+zsh+"/_fencectl", 0o644, r.shells["zsh"])
	add("/usr/share/fish/vendor_completions.d/fencectl.fish", 0o644, r.shells["fish"])
	trees := map[string]string{"deploy/node": "/usr/share/fencing-agent/node", "deploy/examples": "/usr/share/doc/fencing-agent/examples"}
	for _, from := range slices.Sorted(maps.Keys(trees)) {
		err := filepath.WalkDir(filepath.Join(r.root, from), func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			inside, err := filepath.Rel(filepath.Join(r.root, from), file)
			add(trees[from]+"/"+filepath.ToSlash(inside), 0o644, read(filepath.Join(from, inside)))
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	add("/usr/share/doc/fencing-agent/copyright", 0o644, read("LICENSE"))
	add("/usr/share/doc/fencing-agent/CHANGELOG.md", 0o644, read("CHANGELOG.md"))
	more, err := r.ownFiles(format)
	if err != nil {
		return nil, err
	}
	return append(list, more...), failed
}

// ownFiles returns the files below packaging/root and packaging/FORMAT, whose relative path is the path on the node.
// Those below /etc are conffiles. /etc/fencing-agent also contains keys, and only root may read it.
func (r *release) ownFiles(format string) ([]staged, error) {
	list := []staged{{dst: "/etc/fencing-agent", kind: files.TypeDir, mode: 0o750}}
	for _, tree := range []string{"packaging/root", "packaging/" + format} {
		err := fs.WalkDir(packaging, tree, func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := packaging.ReadFile(file)
			f := staged{dst: strings.TrimPrefix(file, tree), mode: 0o644, data: data}
			if strings.HasPrefix(f.dst, "/etc/") {
				f.kind = files.TypeConfigNoReplace
			}
			list = append(list, f)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}
