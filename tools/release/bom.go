package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// module is a Go module that is linked at least in part, with its sum in go.sum.
type module struct{ path, version, sum string }

func (m module) purl() string { return "pkg:golang/" + m.path + "@" + m.version }

// bill lists what some programs for one platform are made of.
type bill struct {
	name     string // name of the artifact
	platform platform
	programs map[string]string // SHA-256 of each program, by name
	modules  []module
}

// bill reads the programs themselves: what the linker has put into them, and not what go.mod requires.
func (r *release) bill(artifact string, p platform, names ...string) (bill, error) {
	b := bill{name: artifact, platform: p, programs: map[string]string{}}
	seen := map[module]bool{}
	for _, name := range names {
		file := r.programs[p.String()+"/"+name]
		data, err := os.ReadFile(file)
		if err != nil {
			return b, err
		}
		b.programs[filepath.Base(file)] = digest(data)
		info, err := buildinfo.Read(bytes.NewReader(data))
		if err != nil {
			return b, fmt.Errorf("%s for %s: %w", name, p, err)
		}
		for _, d := range info.Deps {
			if d.Replace != nil {
				d = d.Replace
			}
			seen[module{d.Path, d.Version, d.Sum}] = true
		}
	}
	// The standard library is not a module, but also has versions and vulnerabilities.
	seen[module{path: "stdlib", version: strings.TrimPrefix(runtime.Version(), "go")}] = true
	b.modules = slices.SortedFunc(maps.Keys(seen), func(a, c module) int { return cmp.Compare(a.path+a.version, c.path+c.version) })
	return b, nil
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// billOfMaterials writes the bills of the archives.
func (r *release) billOfMaterials(context.Context) error {
	write := func(artifact string, p platform, names ...string) error {
		b, err := r.bill(artifact, p, names...)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("%s_%s_%s_%s", artifact, r.plain(), p.system, p.machine)
		for suffix, make := range r.formats() {
			text, err := make(b)
			if err != nil {
				return err
			}
			if err := r.put(name+suffix, text); err != nil {
				return err
			}
		}
		return nil
	}
	for _, p := range r.nodes {
		if err := write("fencing-agent", p, withoutExecutor(p)...); err != nil {
			return err
		}
		if err := write(executor, p, executor); err != nil {
			return err
		}
	}
	for _, p := range append(append([]platform{}, r.nodes...), r.tools...) {
		if err := write("kubectl-fence", p, "fencectl"); err != nil {
			return err
		}
	}
	return nil
}

// formats returns the two formats that scanners read, by the ending of the file's name.
func (r *release) formats() map[string]func(bill) ([]byte, error) {
	return map[string]func(bill) ([]byte, error){".spdx.json": r.spdx, ".cdx.json": r.cyclone}
}

const created = "2006-01-02T15:04:05Z"

func (r *release) spdx(b bill) ([]byte, error) {
	// The content determines the name of the document: the same bytes have the same name.
	unique := digest(fmt.Append(nil, b.name, b.platform, b.programs, b.modules, r.version))[:32]
	root := common.ElementID("artifact")
	doc := &v2_3.Document{
		SPDXVersion: v2_3.Version, DataLicense: v2_3.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: b.name + " " + r.plain() + " " + b.platform.String(),
		DocumentNamespace: homepage + "/spdx/" + b.name + "-" + unique,
		CreationInfo:      &v2_3.CreationInfo{Created: r.time.Format(created), Creators: []common.Creator{{CreatorType: "Tool", Creator: "fencing-agent-tools-release"}}},
		Packages: []*v2_3.Package{{
			PackageName: b.name, PackageSPDXIdentifier: root, PackageVersion: r.version, PackageDownloadLocation: "git+" + homepage + "@" + r.commit,
			PackageSupplier: &common.Supplier{SupplierType: "Organization", Supplier: vendor}, PackageLicenseDeclared: license,
			PackageLicenseConcluded: license, PackageCopyrightText: "NOASSERTION", PrimaryPackagePurpose: "APPLICATION",
		}},
		Relationships: []*v2_3.Relationship{{RefA: common.MakeDocElementID("", "DOCUMENT"), RefB: common.MakeDocElementID("", string(root)), Relationship: common.TypeRelationshipDescribe}},
	}
	add := func(id common.ElementID, p *v2_3.Package) {
		p.PackageSPDXIdentifier, p.PackageCopyrightText = id, "NOASSERTION"
		doc.Packages = append(doc.Packages, p)
		doc.Relationships = append(doc.Relationships, &v2_3.Relationship{
			RefA: common.MakeDocElementID("", string(root)), RefB: common.MakeDocElementID("", string(id)), Relationship: common.TypeRelationshipContains,
		})
	}
	for _, name := range slices.Sorted(maps.Keys(b.programs)) {
		add(common.ElementID("program-"+name), &v2_3.Package{
			PackageName: name, PackageVersion: r.version, PackageFileName: name, PackageDownloadLocation: "NOASSERTION", PackageLicenseDeclared: license,
			PackageLicenseConcluded: license, PackageChecksums: []common.Checksum{{Algorithm: common.SHA256, Value: b.programs[name]}}, PrimaryPackagePurpose: "APPLICATION",
		})
	}
	for i, m := range b.modules {
		add(common.ElementID(fmt.Sprintf("module-%d", i+1)), &v2_3.Package{
			PackageName: m.path, PackageVersion: m.version, PackageDownloadLocation: "NOASSERTION", PackageLicenseDeclared: "NOASSERTION",
			PackageLicenseConcluded: "NOASSERTION", PackageSourceInfo: m.sum, PrimaryPackagePurpose: "LIBRARY",
			PackageExternalReferences: []*v2_3.PackageExternalReference{{Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: m.purl()}},
		})
	}
	var out bytes.Buffer
	if err := spdxjson.Write(doc, &out, spdxjson.Indent("  "), spdxjson.EscapeHTML(false)); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func (r *release) cyclone(b bill) ([]byte, error) {
	bom := cdx.NewBOM()
	root := "pkg:generic/" + b.name + "@" + r.version
	apache := &cdx.Licenses{{License: &cdx.License{ID: license}}}
	bom.Metadata = &cdx.Metadata{
		Timestamp: r.time.Format(created),
		Component: &cdx.Component{BOMRef: root, Type: cdx.ComponentTypeApplication, Name: b.name, Version: r.version, PackageURL: root, Licenses: apache,
			Description: summary + ", for " + b.platform.String()},
	}
	var components []cdx.Component
	var refs []string
	for _, name := range slices.Sorted(maps.Keys(b.programs)) {
		components = append(components, cdx.Component{
			BOMRef: "program:" + name, Type: cdx.ComponentTypeFile, Name: name, Version: r.version, Licenses: apache,
			Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: b.programs[name]}},
		})
		refs = append(refs, "program:"+name)
	}
	for _, m := range b.modules {
		components = append(components, cdx.Component{
			BOMRef: m.purl(), Type: cdx.ComponentTypeLibrary, Name: m.path, Version: m.version, PackageURL: m.purl(),
			Properties: &[]cdx.Property{{Name: "go:sum", Value: m.sum}},
		})
		refs = append(refs, m.purl())
	}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: root, Dependencies: &refs}}
	var out bytes.Buffer
	if err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false).Encode(bom); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
