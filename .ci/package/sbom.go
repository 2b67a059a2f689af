package main

import (
	"cmp"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
)

// linked are Debian's packages of the C libraries that the static programs contain.
var linked = []string{"libc6-dev", "libssl-dev", "libxml2-dev", "libicu-dev", "liblzma-dev", "zlib1g-dev"}

// sbom writes a list of the third-party parts in the programs, in the format CycloneDX: Go,
// the Go modules that are recorded in the programs, and the C libraries in the static
// programs.
func sbom(r release) error {
	found := make(map[string]cdx.Component)
	add := func(kind, name, version string) {
		url := fmt.Sprintf("pkg:%s/%s@%s", kind, name, version)
		found[url] = cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: name, Version: version, PackageURL: url}
	}
	programs, err := filepath.Glob(filepath.Join(r.built, "static/*"))
	if err != nil {
		return err
	}
	for _, p := range programs {
		info, err := buildinfo.ReadFile(p)
		if err != nil {
			return err
		}
		add("golang", "std", strings.TrimPrefix(info.GoVersion, "go"))
		for _, m := range info.Deps {
			add("golang", m.Path, m.Version)
		}
	}
	for _, p := range linked {
		version, err := exec.Command("dpkg-query", "-W", "-f", "${Version}", p).Output()
		if err != nil {
			return fmt.Errorf("cannot find the version of %s: %w", p, err)
		}
		add("deb/debian", p, string(version))
	}
	var components []cdx.Component
	for _, c := range found {
		components = append(components, c)
	}
	slices.SortFunc(components, func(a, b cdx.Component) int { return strings.Compare(a.BOMRef, b.BOMRef) })
	bom := cdx.NewBOM()
	bom.SerialNumber = uuid.NewSHA1(uuid.NameSpaceURL, []byte("patchbay "+r.version)).URN()
	bom.Metadata = &cdx.Metadata{
		Timestamp: r.date.Format("2006-01-02T15:04:05Z"),
		Component: &cdx.Component{BOMRef: "patchbay", Type: cdx.ComponentTypeApplication, Name: "patchbay", Version: r.version},
	}
	bom.Components = &components
	f, err := os.Create(r.file(".cdx.json"))
	if err != nil {
		return err
	}
	return cmp.Or(cdx.NewBOMEncoder(f, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom), f.Close())
}
