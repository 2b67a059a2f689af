package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// entry is a file of a package.
type entry struct {
	path string // where it is installed
	data []byte
	mode fs.FileMode
}

// configuration is the only installed file that operators edit. An upgrade keeps their edits.
const configuration = "/etc/logrotate.d/patchbay"

// installedLinks replaces links to files of the source by links to the installed ones.
var installedLinks = strings.NewReplacer(
	"](cmd/patchbay/guide/", "](guide/",
	"](inventory/provider/PROVIDER.md", "](PROVIDER.md",
	"[ARCHITECTURE.md](ARCHITECTURE.md)", "ARCHITECTURE.md of the source",
)

// tree returns the files to install. programs is the folder in r.built that has the
// programs. With compress, the manual pages are compressed, as Debian's policy requires.
func tree(r release, programs string, compress bool) ([]entry, error) {
	source := filepath.Join(r.source, "cmd/patchbay")
	share := "/usr/share/doc/patchbay/"
	var all []entry
	for _, from := range []struct {
		pattern string // of the files to install
		to      string // the installed file, or a folder, which ends with a slash
		mode    fs.FileMode
		zip     bool // compress the file if compress is set
	}{
		{filepath.Join(r.built, programs, "*"), "/usr/bin/", 0o755, false},
		{filepath.Join(r.built, "man/*.1"), "/usr/share/man/man1/", 0o644, true},
		{filepath.Join(r.built, "completion/patchbay"), "/usr/share/bash-completion/completions/", 0o644, false},
		{filepath.Join(r.built, "completion/_patchbay"), "/usr/share/zsh/vendor-completions/", 0o644, false},
		{filepath.Join(r.built, "completion/patchbay.fish"), "/usr/share/fish/vendor_completions.d/", 0o644, false},
		{filepath.Join(source, "packaging/*.service"), "/usr/lib/systemd/system/", 0o644, false},
		{filepath.Join(source, "packaging/sysusers.conf"), "/usr/lib/sysusers.d/patchbay.conf", 0o644, false},
		{filepath.Join(source, "packaging/tmpfiles.conf"), "/usr/lib/tmpfiles.d/patchbay.conf", 0o644, false},
		{filepath.Join(source, "logrotate"), configuration, 0o644, false},
		{filepath.Join(source, "packaging/copyright"), share, 0o644, false},
		{filepath.Join(source, "guide/*"), share + "guide/", 0o644, false},
		{filepath.Join(r.source, "am/client/experiment/*.xml"), share + "examples/", 0o644, false},
		{filepath.Join(source, "monitoring/alerts.yaml"), share + "monitoring/", 0o644, false},
		{filepath.Join(source, "monitoring/dashboard.json"), share + "monitoring/", 0o644, false},
		{filepath.Join(r.source, "inventory/provider/PROVIDER.md"), share, 0o644, false},
		{filepath.Join(r.source, "README.md"), share, 0o644, false},
		{filepath.Join(r.source, "CHANGELOG.md"), share, 0o644, false},
		{r.file(".cdx.json"), share + "sbom.cdx.json", 0o644, false},
	} {
		files, err := filepath.Glob(from.pattern)
		if err != nil || len(files) == 0 {
			return nil, fmt.Errorf("there is no file %s (%v)", from.pattern, err)
		}
		for _, name := range files {
			data, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			if filepath.Ext(name) == ".md" {
				data = []byte(installedLinks.Replace(string(data)))
			}
			e := entry{from.to, data, from.mode}
			if strings.HasSuffix(from.to, "/") {
				e.path = path.Join(from.to, filepath.Base(name))
			}
			if from.zip && compress {
				e.path += ".gz"
				e.data = zipped(data)
			}
			all = append(all, e)
		}
	}
	return all, nil
}

// zipped returns data compressed by gzip, without a name or a time.
func zipped(data []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	_, _ = w.Write(data) // writing to memory cannot fail
	_ = w.Close()
	return b.Bytes()
}
