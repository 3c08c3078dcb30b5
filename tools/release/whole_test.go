package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"path"
	"strings"
	"testing"
)

// Go's reader accepts a tar archive without its end, and other programs do not: an archive ends with two empty blocks.
func wholeTar(t *testing.T, name string, data []byte) {
	t.Helper()
	if end := make([]byte, 1024); len(data)%512 != 0 || !bytes.HasSuffix(data, end) {
		t.Errorf("%s: %d bytes, without the end of a tar archive", name, len(data))
	}
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		switch _, err := r.Next(); err {
		case nil:
		case io.EOF:
			return
		default:
			t.Errorf("%s: %v", name, err)
			return
		}
	}
}

func unzipped(t *testing.T, name string, data []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return nil
	}
	all, err := io.ReadAll(z)
	if err != nil {
		t.Errorf("%s: %v", name, err)
	}
	return all
}

func TestArchivesAreWhole(t *testing.T) {
	r := someRelease(t)
	kinds := map[string]int{}
	for name, data := range everything(t, r.out) {
		switch kind := path.Ext(name); kind {
		case ".gz", ".tgz":
			wholeTar(t, name, unzipped(t, name, data))
			kinds[kind]++
		case ".tar":
			wholeTar(t, name, data)
			kinds[kind]++
		case ".zip":
			z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
			if err != nil || len(z.File) != 2 {
				t.Errorf("%s: %v", name, err)
			}
			kinds[kind]++
		}
	}
	if kinds[".gz"] != 8 || kinds[".tgz"] != 2 || kinds[".tar"] != 4 || kinds[".zip"] != 1 {
		t.Errorf("looked at %v", kinds)
	}
	for _, i := range pictures {
		eachLayer(t, r, i)
	}
}

func eachLayer(t *testing.T, r *release, i image) {
	t.Helper()
	for _, p := range nodes {
		img, err := r.picture(i, p)
		if err != nil {
			t.Fatal(err)
		}
		layers, err := img.Layers()
		if err != nil {
			t.Fatal(err)
		}
		for _, layer := range layers {
			in, err := layer.Uncompressed()
			if err != nil {
				t.Fatal(err)
			}
			data, err := io.ReadAll(in)
			if err != nil {
				t.Error(err)
			}
			wholeTar(t, "a layer of "+i.name, data)
		}
	}
}

// The manual page in a package is identical to the page.
func TestPagesOfThePackageAreWhole(t *testing.T) {
	r := someRelease(t)
	pages := 0
	for name, data := range everything(t, r.out) {
		if !strings.HasSuffix(name, ".deb") {
			continue
		}
		for file, packed := range unpack(t, members(t, data)["data.tar.gz"]) {
			if strings.HasPrefix(file, "/usr/share/man/man") && strings.HasSuffix(file, ".gz") {
				pages++
				if want := r.pages[strings.TrimSuffix(path.Base(file), ".gz")]; !bytes.Equal(unzipped(t, file, packed), want) {
					t.Errorf("%s: %s is not the page", name, file)
				}
			}
		}
	}
	if pages < 30 {
		t.Errorf("only %d pages", pages)
	}
}

// The line by which apropos finds a page is complete. The first line of a help text may be only the first half of a
// sentence.
func TestNamesOfPagesAreWhole(t *testing.T) {
	for name, text := range someRelease(t).pages {
		_, rest, _ := strings.Cut(string(text), ".SH NAME\n")
		line, _, _ := strings.Cut(rest, "\n")
		_, short, ok := strings.Cut(line, ` \- `)
		if !ok || len(short) < 10 || len(short) > 90 || strings.HasSuffix(short, ",") {
			t.Errorf("%s: %s", name, line)
		}
	}
}

// The links in a package do not depend on the folder in which the release is made.
func TestLinksDoNotDependOnTheFolder(t *testing.T) {
	r := someRelease(t)
	dir := t.TempDir()
	if err := stage(dir+"/fencectl", []byte("another one")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	again := *r
	again.out, again.work = t.TempDir(), t.TempDir()
	if err := again.pack("deb", nodes[0]); err != nil {
		t.Fatal(err)
	}
	all := everything(t, r.out)
	for name, data := range everything(t, again.out) {
		if !bytes.Equal(data, all[name]) {
			t.Errorf("%s differs", name)
		}
	}
}
