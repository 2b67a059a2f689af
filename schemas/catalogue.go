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

// Known returns the name of the schema for documents of kind k with all extensions of
// the catalogue.
func Known(k Kind) string { return k.short() + ".xsd" }

// Extension is an extension of RSpecs in its own namespace. An extension with two
// namespaces has two entries in the catalogue.
type Extension struct {
	Namespace   string
	Description string
	// Files are the names of the extension's schemas by kind of document; a kind
	// without a file does not use the extension.
	Files map[Kind]string
}

func allKinds(file string) map[Kind]string {
	return map[Kind]string{Advertisement: file, Request: file, Manifest: file}
}

func advertisementOnly(file string) map[Kind]string {
	return map[Kind]string{Advertisement: file}
}

func manifestOnly(file string) map[Kind]string {
	return map[Kind]string{Manifest: file}
}

func requestAndManifest(file string) map[Kind]string {
	return map[Kind]string{Request: file, Manifest: file}
}

func twoFiles(ad, request string) map[Kind]string {
	return map[Kind]string{Advertisement: ad, Request: request, Manifest: request}
}

// Catalogue returns the extensions, ordered by namespace.
func Catalogue() []Extension {
	return []Extension{
		{SliceInfo, "the slice of a manifest", manifestOnly("ext/sliceinfo.xsd")},
		{SliverInfo, "owner and times of a sliver", manifestOnly("ext/sliverinfo.xsd")},
		{Stitching, "stitching of links across aggregates", allKinds("ext/stitch.xsd")},
		{Proxy, "SSH gateways", requestAndManifest("ext/proxy.xsd")},
		{JFed, "position of a node in jFed's drawing", allKinds("ext/jfed.xsd")},
		{Match, "constraints of nodes, and what satisfies them", twoFiles("ext/match-ad.xsd", "ext/match.xsd")},
		{Net, "wishes about networks, such as DNS names and open ports", requestAndManifest("ext/net.xsd")},
		{Origin, "the source from which a request was compiled", requestAndManifest("ext/origin.xsd")},
		{Setup, "steps of nodes, such as scripts, in stages", requestAndManifest("ext/setup.xsd")},
		{Template, "sources in other languages that the aggregate compiles", requestAndManifest("ext/template.xsd")},
		{Monitoring, "infrastructure monitoring, in the namespace that aggregates write", twoFiles("ext/monitoring-ad-f4f.xsd", "ext/monitoring-request-f4f.xsd")},
		{OldMonitoring, "infrastructure monitoring, in the namespace of the federation's documentation", twoFiles("ext/monitoring-ad-text.xsd", "ext/monitoring-request-text.xsd")},
		{OpState, "operational states and actions", advertisementOnly("ext/opstate.xsd")},
		{SharedVLAN, "shared VLANs", twoFiles("ext/sharedvlan-geni-ad.xsd", "ext/sharedvlan-geni.xsd")},
		{User, "accounts and their keys", requestAndManifest("ext/user-geni.xsd")},
		{Delay, "nodes that shape traffic", requestAndManifest("ext/delay.xsd")},
		{Emulab, "additions of Emulab's aggregates", twoFiles("ext/emulab-ad.xsd", "ext/emulab-request.xsd")},
		{PXE, "network boot images", allKinds("ext/pxe.xsd")},
		{OldSharedVLAN, "shared VLANs, in the namespace that jFed writes", requestAndManifest("ext/sharedvlan-protogeni.xsd")},
		{OldUser, "accounts and their keys, in the namespace of the published schema", requestAndManifest("ext/user-protogeni.xsd")},
	}
}

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
