package local

import (
	"cmp"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"patchbay/am/display"
	"patchbay/inventory/provider"
)

// Script returns the text of the executable file NAME.prov for the provider called name. The
// file runs the patchbay-local at the path bin.
func Script(bin, name string) []byte {
	return fmt.Appendf(nil, "#!/bin/sh\nexec %s local --name %s \"$@\"\n", display.ShellWord(bin), display.ShellWord(name))
}

// UpCommand returns the command with which root starts the testbed of a settings file. The
// parameter bin is the path of patchbay-local.
func UpCommand(bin, settings string) string {
	return fmt.Sprintf("%s up %s", display.ShellWord(bin), display.ShellWord(settings))
}

//go:embed metadata.yaml
var metadataText string

// metadata returns the metadata of the provider called name. The parameter bin is the path of
// patchbay-local.
func metadata(bin, name string) string {
	return strings.Replace(metadataText, "[patchbay-local, up, local.yaml]", fmt.Sprintf("[%q, up, %q]", bin, name+".yaml"), 1)
}

// MissingMetadata is as that of package provider, for the metadata of this version.
func MissingMetadata(path string) string {
	return provider.MissingMetadata(path, metadata(ownPath(), strings.TrimSuffix(filepath.Base(path), ".yaml")))
}

// ownPath returns the path of this program.
func ownPath() string {
	bin, err := os.Executable()
	if err != nil {
		return "patchbay-local"
	}
	return bin
}

//go:embed settings.yaml
var settingsText string

// Site holds the settings that differ between two sites.
type Site struct {
	Program    string // the path of patchbay-local; empty: this program
	Name       string // of the provider; empty: local
	Instance   string // empty: local
	PublicHost string // empty: localhost
	Component  string // empty: localhost
	Listen     string // an address of this host; empty: all
	Outbound   bool   // nodes reach the Internet
}

// SettingsFor returns the text of NAME.yaml: the metadata, and every setting with its
// default and an explanation.
func SettingsFor(s Site) []byte {
	text := settingsText
	for _, key := range []struct{ name, is, value string }{
		{"instance", DefaultInstance, s.Instance}, {"component", defaultHost, s.Component}, {"public_host", defaultHost, s.PublicHost},
		{"listen", `""`, s.Listen},
	} {
		if key.value != "" {
			text = strings.Replace(text, "\n"+key.name+": "+key.is+"\n", fmt.Sprintf("\n%s: %q\n", key.name, key.value), 1)
		}
	}
	if s.Outbound {
		text = strings.Replace(text, "\noutbound: no\n", "\noutbound: yes\n", 1)
	}
	return []byte(metadata(cmp.Or(s.Program, ownPath()), cmp.Or(s.Name, DefaultInstance)) + "\n" + text)
}
