package oci

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// epoch is the modification time of all files, so that the same root gives the same image.
var epoch = time.Unix(0, 0)

// Image is an image of one layer for this machine's architecture.
type Image struct {
	Name       string            // including its tag
	Files      map[string]string // paths of files on the host, by their paths in the image
	Entrypoint []string
	User       string // as UID:GID; "": root
	Public     bool   // every user may run the files, whatever the umask was when they were created
}

// Tree returns the files of an image whose root is a directory.
func Tree(root string) (map[string]string, error) {
	files := map[string]string{}
	err := filepath.WalkDir(root, func(file string, _ fs.DirEntry, err error) error {
		if err != nil || file == root {
			return err
		}
		inside, err := filepath.Rel(root, file)
		files[filepath.ToSlash(inside)] = file
		return err
	})
	return files, err
}

// Write writes the complete archive or nothing.
func (i *Image) Write(path string) (err error) {
	work, err := os.MkdirTemp(filepath.Dir(path), ".ociimage-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	layer := filepath.Join(work, "layer")
	digest, err := i.layer(layer)
	if err != nil {
		return err
	}
	whole := filepath.Join(work, "archive")
	if err := i.pack(layer, digest, whole); err != nil {
		return err
	}
	return os.Rename(whole, path)
}

// layer packs the files and returns the layer's digest.
func (i *Image) layer(path string) (digest string, err error) {
	f, err := os.Create(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	h := sha256.New()
	w := tar.NewWriter(io.MultiWriter(f, h))
	for _, inside := range slices.Sorted(maps.Keys(i.Files)) { // so that the same files give the same layer
		if err := i.add(w, i.Files[inside], inside); err != nil {
			return "", err
		}
	}
	if err := w.Close(); err != nil { // before the digest is computed: Close writes the end
		return "", err
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}

// add packs one file, owned by root. Devices and sockets are left out, and setuid bits are dropped.
func (i *Image) add(w *tar.Writer, file, inside string) error {
	info, err := os.Lstat(file)
	if err != nil {
		return err
	}
	h := &tar.Header{Name: inside, Mode: int64(info.Mode().Perm()), ModTime: epoch, Format: tar.FormatPAX}
	if info.Mode()&fs.ModeSticky != 0 {
		h.Mode |= 0o1000
	}
	switch kind := info.Mode().Type(); {
	case kind == fs.ModeDir:
		h.Typeflag, h.Name = tar.TypeDir, inside+"/"
	case kind == fs.ModeSymlink:
		h.Typeflag = tar.TypeSymlink
		if h.Linkname, err = os.Readlink(file); err != nil {
			return err
		}
	case kind.IsRegular():
		if h.Typeflag, h.Size = tar.TypeReg, info.Size(); i.Public {
			h.Mode = 0o755
		}
	default:
		return nil
	}
	if err := w.WriteHeader(h); err != nil {
		return fmt.Errorf("%s: %w", inside, err)
	}
	if h.Typeflag != tar.TypeReg {
		return nil
	}
	return copyFile(w, file)
}

func copyFile(w io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}

// pack writes the archive around a layer.
func (i *Image) pack(layer, digest, path string) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := os.Stat(layer)
	if err != nil {
		return err
	}
	w := tar.NewWriter(f)
	head := func(name string, size int64) error {
		return w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: size, ModTime: epoch, Typeflag: tar.TypeReg})
	}
	const blobs, vnd = "blobs/sha256/", "application/vnd.oci.image."
	if err := errors.Join(head(blobs+digest, info.Size()), copyFile(w, layer)); err != nil {
		return err
	}
	put := func(name string, v any) (map[string]any, error) {
		text, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		sum := fmt.Sprintf("%x", sha256.Sum256(text))
		if name == "" {
			name = blobs + sum
		}
		if err := head(name, int64(len(text))); err != nil {
			return nil, err
		}
		_, err = w.Write(text)
		return map[string]any{"digest": "sha256:" + sum, "size": len(text)}, err
	}
	config, err := put("", map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "created": epoch.UTC().Format(time.RFC3339),
		"config": map[string]any{"Entrypoint": i.Entrypoint, "User": i.User, "Env": []string{"PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + digest}},
	})
	if err != nil {
		return err
	}
	config["mediaType"] = vnd + "config.v1+json"
	manifest, err := put("", map[string]any{
		"schemaVersion": 2, "mediaType": vnd + "manifest.v1+json", "config": config,
		"layers": []any{map[string]any{"mediaType": vnd + "layer.v1.tar", "digest": "sha256:" + digest, "size": info.Size()}},
	})
	if err != nil {
		return err
	}
	manifest["mediaType"] = vnd + "manifest.v1+json"
	manifest["annotations"] = map[string]string{"io.containerd.image.name": i.Name, "org.opencontainers.image.ref.name": i.Name[strings.LastIndex(i.Name, ":")+1:]}
	if _, err := put("index.json", map[string]any{"schemaVersion": 2, "manifests": []any{manifest}}); err != nil {
		return err
	}
	if _, err := put("oci-layout", map[string]string{"imageLayoutVersion": "1.0.0"}); err != nil {
		return err
	}
	return w.Close()
}
