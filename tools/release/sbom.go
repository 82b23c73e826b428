// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// program is a Go program, as it says itself how it was built.
type program struct {
	name, platform, sum string
	toolchain           string
	modules             []goModule
}

type goModule struct{ path, version, sum string }

func readProgram(name, platform string, content *bytes.Reader) (program, error) {
	info, err := buildinfo.Read(content)
	if err != nil {
		return program{}, fmt.Errorf("reading what %s for %s is built of: %w", name, platform, err)
	}
	data := make([]byte, content.Size())
	if _, err := content.ReadAt(data, 0); err != nil {
		return program{}, err
	}
	p := program{name: name, platform: platform, sum: hash(data), toolchain: info.GoVersion}
	for _, dep := range info.Deps {
		if dep.Replace != nil {
			dep = dep.Replace
		}
		p.modules = append(p.modules, goModule{dep.Path, dep.Version, dep.Sum})
	}
	return p, nil
}

const noAssertion = "NOASSERTION"

// newSBOM returns the bill of materials of a release: each program depends on its modules and on the standard library.
func newSBOM(version, commit string, date time.Time, programs []program) *spdx.Document {
	d := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: "liqo-" + version,
		DocumentNamespace: "https://liqo.io/spdx/" + version + "/" + commit,
		CreationInfo: &spdx.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "liqo.io/liqo/tools/release"}}, Created: date.Format(time.RFC3339),
		},
	}
	relate := func(from common.ElementID, kind string, to common.ElementID) {
		d.Relationships = append(d.Relationships, &spdx.Relationship{
			RefA: common.MakeDocElementID("", string(from)), RefB: common.MakeDocElementID("", string(to)), Relationship: kind,
		})
	}
	modules := map[common.ElementID]goModule{}
	for _, p := range programs {
		id := elementID("program", p.name, p.platform)
		d.Packages = append(d.Packages, &spdx.Package{
			PackageName: p.name, PackageSPDXIdentifier: id, PackageVersion: version, PackageSummary: p.name + " for " + p.platform,
			PackageDownloadLocation: noAssertion, PackageLicenseConcluded: noAssertion, PackageLicenseDeclared: "Apache-2.0", PackageCopyrightText: noAssertion,
			PackageChecksums: []common.Checksum{{Algorithm: common.SHA256, Value: p.sum}}, PrimaryPackagePurpose: "APPLICATION",
		})
		relate("DOCUMENT", common.TypeRelationshipDescribe, id)
		for _, m := range append([]goModule{{path: "stdlib", version: strings.TrimPrefix(p.toolchain, "go")}}, p.modules...) {
			module := elementID("module", m.path, m.version)
			modules[module] = m
			relate(id, common.TypeRelationshipDependsOn, module)
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(modules), func(a, b common.ElementID) int { return cmp.Compare(a, b) }) {
		m := modules[id]
		d.Packages = append(d.Packages, &spdx.Package{
			PackageName: m.path, PackageSPDXIdentifier: id, PackageVersion: m.version, PackageSourceInfo: m.sum,
			PackageDownloadLocation: noAssertion, PackageLicenseConcluded: noAssertion, PackageLicenseDeclared: noAssertion, PackageCopyrightText: noAssertion,
			PackageExternalReferences: []*spdx.PackageExternalReference{{
				Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: "pkg:golang/" + m.path + "@" + m.version,
			}},
			PrimaryPackagePurpose: "LIBRARY",
		})
	}
	return d
}

var notInIDs = regexp.MustCompile(`[^A-Za-z0-9.]+`)

// elementID returns an identifier of SPDX: letters, digits, dots and dashes.
func elementID(parts ...string) common.ElementID {
	return common.ElementID(notInIDs.ReplaceAllString(strings.Join(parts, "-"), "-"))
}
