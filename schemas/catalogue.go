package schemas

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
)

//go:embed *.xsd rspec/*.xsd ext/*.xsd
var files embed.FS

// Kind is a kind of RSpec. Its text is the type attribute of the root.
type Kind string

// The kinds.
const (
	Advertisement Kind = "advertisement"
	Request       Kind = "request"
	Manifest      Kind = "manifest"
)

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{Advertisement, Request, Manifest} }

func (k Kind) short() string {
	if k == Advertisement {
		return "ad"
	}
	return string(k)
}

// Core returns the name of the schema for documents of kind k without extensions.
func Core(k Kind) string { return "rspec/" + k.short() + ".xsd" }

// Known returns the name of the schema for documents of kind k with all known extensions, which it
// imports.
func Known(k Kind) string { return k.short() + ".xsd" }

// Read returns the text of an embedded schema file. Core, Known and Extension.Files give
// the names of files. Read fails for a name that is not among Names.
func Read(name string) ([]byte, error) {
	b, err := files.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("there is no schema %q; Names lists them", name)
	}
	return b, nil
}

// Names returns the sorted names of all files.
func Names() []string {
	var names []string
	_ = fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, path)
		}
		return err
	})
	slices.Sort(names)
	return names
}
