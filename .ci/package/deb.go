package main

import (
	"cmp"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
)

const description = `GENI/Fed4FIRE aggregate manager
Patchbay is the server with which a testbed joins a federation. Experimenters
ask it for machines and links; it reserves and creates them, gives users their
logins, and releases everything. It speaks the AM API in versions 2 and 3. On
one Linux host it can make each node a container with SSH, and each link a
shaped link.`

// lintian overrides those reports of lintian whose causes are intended.
const lintian = `# It runs inside nodes. Their images may have any libraries, or none.
patchbay: statically-linked-binary [usr/bin/patchbay-local]
patchbay: statically-linked-binary [usr/bin/patchbay-lxd]
# It reads the database of a node's image, not the host's.
patchbay: uses-dpkg-database-directly [usr/bin/patchbay-local]
`

// libraries are Debian's packages of the shared libraries that the programs may need.
var libraries = map[string]string{
	"libc.so.6":             "libc6",
	"ld-linux-x86-64.so.2":  "libc6",
	"ld-linux-aarch64.so.1": "libc6",
	"libssl.so.3":           "libssl3 (>= 3.0.0)",
	"libcrypto.so.3":        "libssl3 (>= 3.0.0)",
	"libxml2.so.2":          "libxml2 (>= 2.9.14)",
}

// debian writes the Debian package.
func debian(r release) error {
	entries, err := tree(r, "dynamic", true)
	if err != nil {
		return err
	}
	version := strings.Replace(r.version, "-", "~", 1)
	log := fmt.Sprintf("patchbay (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md in this folder.\n\n -- Patchbay <patchbay@example.org>  %s\n",
		version, r.date.Format("Mon, 02 Jan 2006 15:04:05 -0700"))
	entries = append(entries,
		entry{"/usr/share/doc/patchbay/changelog.gz", zipped([]byte(log)), 0o644},
		entry{"/usr/share/lintian/overrides/patchbay", []byte(lintian), 0o644})
	depends, err := dependencies(filepath.Join(r.built, "dynamic/patchbay"))
	if err != nil {
		return err
	}
	packaging := filepath.Join(r.source, "cmd/patchbay/packaging")
	info := &nfpm.Info{
		Name: "patchbay", Version: version, VersionSchema: "none", Arch: runtime.GOARCH, Platform: "linux",
		Section: "net", Priority: "optional", Maintainer: "Patchbay <patchbay@example.org>", Description: description, MTime: r.date,
	}
	info.Depends = append(depends, "iperf3", "iputils-ping", "systemd | systemd-standalone-sysusers", "systemd | systemd-standalone-tmpfiles")
	info.Recommends = []string{"openssh-client", "e2fsprogs", "logrotate"}
	info.Scripts = nfpm.Scripts{
		PostInstall: filepath.Join(packaging, "postinst"),
		PreRemove:   filepath.Join(packaging, "prerm"),
		PostRemove:  filepath.Join(packaging, "postrm"),
	}
	staging := filepath.Join(r.built, "deb")
	for i, e := range entries {
		// nfpm reads the content of each entry from a file.
		name := filepath.Join(staging, strconv.Itoa(i))
		if err := cmp.Or(os.MkdirAll(staging, 0o755), os.WriteFile(name, e.data, 0o644)); err != nil {
			return err
		}
		c := &files.Content{Source: name, Destination: e.path, FileInfo: &files.ContentFileInfo{Mode: e.mode, MTime: r.date, Owner: "root", Group: "root"}}
		if e.path == configuration {
			c.Type = files.TypeConfig
		}
		info.Contents = append(info.Contents, c)
	}
	info = nfpm.WithDefaults(info)
	if err := nfpm.PrepareForPackager(info, "deb"); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(r.dist, deb.Default.ConventionalFileName(info)))
	if err != nil {
		return err
	}
	return cmp.Or(deb.Default.Package(info, f), f.Close())
}

// dependencies returns the Debian packages of the libraries that a program needs. The
// version of libc6 is the oldest that has all symbols that the program imports.
func dependencies(program string) ([]string, error) {
	f, err := elf.Open(program)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	needed, err := f.ImportedLibraries()
	if err != nil {
		return nil, err
	}
	symbols, err := f.ImportedSymbols()
	if err != nil {
		return nil, err
	}
	glibc := 0
	for _, s := range symbols {
		if minor, ok := strings.CutPrefix(s.Version, "GLIBC_2."); ok {
			n, _ := strconv.Atoi(strings.Split(minor, ".")[0])
			glibc = max(glibc, n)
		}
	}
	var depends []string
	for _, l := range needed {
		p, ok := libraries[l]
		if !ok {
			return nil, fmt.Errorf("%s needs %s; add its package to the table libraries", program, l)
		}
		if p == "libc6" {
			p = fmt.Sprintf("libc6 (>= 2.%d)", glibc)
		}
		depends = append(depends, p)
	}
	slices.Sort(depends)
	return slices.Compact(depends), nil
}
