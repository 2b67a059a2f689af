package lxd

import (
	_ "embed"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"patchbay/schemas/yamlfile"
)

//go:embed metadata.yaml
var metadataText string

//go:embed settings.yaml
var settingsText string

// maxSettings is the maximum size of a settings file in bytes.
const maxSettings = 1 << 20

// Kinds of logins.
const (
	loginsProxy   = "proxy"
	loginsNetwork = "network"
)

// settings are the keys of NAME.yaml; settings.yaml explains them.
type settings struct {
	Remotes                                    []string
	Certificate, PrivateKey, ServerCertificate string
	Project, Pool, Network                     string
	Images                                     []image
	SliverTypes                                []sliverType
	IsolatedIDs                                bool
	Logins, Gateway                            string
	FirstPort, LastPort                        int
	Addresses                                  map[string]string // by member
	SharedVLANs                                map[string]string // network by name
	Netem                                      []string          // members
}

type image struct {
	Name, Alias, Fingerprint string
}

type sliverType struct {
	Name         string
	CPUs         int
	Memory, Disk int64 // MiB
}

// sliverType returns the type with the name, or the first one for an empty name.
func (s *settings) sliverType(name string) (sliverType, bool) {
	i := slices.IndexFunc(s.SliverTypes, func(t sliverType) bool { return t.Name == name })
	if name == "" {
		i = 0
	}
	if i < 0 {
		return sliverType{}, false
	}
	return s.SliverTypes[i], true
}

// image returns the image with the name, or the first one for an empty name.
func (s *settings) image(name string) (image, bool) {
	i := slices.IndexFunc(s.Images, func(m image) bool { return m.Name == name })
	if name == "" {
		i = 0
	}
	if i < 0 {
		return image{}, false
	}
	return s.Images[i], true
}

type parser struct {
	yamlfile.Reader
	settings
}

// readSettings reads the file at path. Missing keys have their defaults from settings.yaml. The
// error is one line, with the file and the line of the first mistakes.
func readSettings(path string) (settings, error) {
	p := &parser{yamlfile.Reader{File: filepath.Base(path)}, defaultSettings()}
	text, err := yamlfile.Load(path, maxSettings)
	if err != nil {
		return settings{}, err
	}
	p.read(text)
	return p.settings, p.Err()
}

func defaultSettings() settings {
	p := &parser{}
	p.read([]byte(settingsText))
	return p.settings
}

func (p *parser) read(text []byte) {
	doc := p.Document(text)
	if doc == nil || yamlfile.IsNull(doc.Content[0]) {
		return
	}
	p.Keys(doc.Content[0], "the file",
		yamlfile.With("remote", p.remotes),
		yamlfile.Into("certificate", &p.Certificate, p.file),
		yamlfile.Into("key", &p.PrivateKey, p.file),
		yamlfile.Into("server_certificate", &p.ServerCertificate, p.file),
		yamlfile.Into("project", &p.Project, p.name),
		yamlfile.Into("pool", &p.Pool, p.name),
		yamlfile.Into("network", &p.Network, p.name),
		yamlfile.With("images", p.images),
		yamlfile.With("sliver_types", p.sliverTypes),
		yamlfile.With("isolated_ids", func(n *yaml.Node) {
			p.IsolatedIDs = yamlfile.Choice(&p.Reader, n, "isolated_ids", "yes", "no") == "yes"
		}),
		yamlfile.OneOf(&p.Reader, "logins", &p.Logins, loginsProxy, loginsNetwork),
		yamlfile.With("ports", func(n *yaml.Node) {
			a, b, _ := strings.Cut(n.Value, "-")
			first, err1 := strconv.Atoi(a)
			last, err2 := strconv.Atoi(b)
			if err1 != nil || err2 != nil || first < 1024 || last < first || last > 65535 {
				p.Wrong(n, "ports is %q and must be a range from 1024 to 65535, such as 20000-29999", n.Value)
			}
			p.FirstPort, p.LastPort = first, last
		}),
		yamlfile.Into("gateway", &p.Gateway, p.Text),
		yamlfile.With("addresses", func(n *yaml.Node) { p.Addresses = p.pairs(n, "addresses", "member", "address") }),
		yamlfile.With("shared_vlans", func(n *yaml.Node) { p.SharedVLANs = p.pairs(n, "shared_vlans", "name", "network") }),
		yamlfile.With("netem", func(n *yaml.Node) {
			p.Netem = nil
			for _, item := range p.Texts(n, "netem") {
				p.Netem = append(p.Netem, p.name(item, "netem"))
			}
		}),
		yamlfile.With("provider", func(*yaml.Node) {}), // the metadata
	)
}

func (p *parser) remotes(n *yaml.Node) {
	p.Remotes = nil
	for _, item := range p.Texts(n, "remote") {
		if u, err := url.Parse(item.Value); err != nil || u.Scheme != "https" || u.Port() == "" {
			p.Wrong(item, "remote is %q and must be a URL such as https://192.0.2.11:8444", item.Value)
		}
		p.Remotes = append(p.Remotes, strings.TrimSuffix(item.Value, "/"))
	}
	if len(p.Remotes) == 0 {
		p.Wrong(n, "remote is empty; write the URL of a member's API, such as https://192.0.2.11:8444")
	}
}

// file reads the name of a file in the folder of the settings.
func (p *parser) file(n *yaml.Node, label string) string {
	name := p.Text(n, label)
	if name == "" || name[0] == '.' || strings.ContainsRune(name, '/') {
		p.Wrong(n, "%s is %q and must be the name of a file in this folder", label, name)
	}
	return name
}

// name reads a name that can be a name of the cluster and a part of a path of its API.
func (p *parser) name(n *yaml.Node, label string) string {
	name := p.Text(n, label)
	if !isName(name) {
		p.Wrong(n, "%s is %q and must have letters, digits, hyphens, dots and underscores only", label, name)
	}
	return name
}

func isName(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	return s != "" && len(s) <= 63 && strings.Contains(letters, s[:1]) && strings.Trim(s, letters+"-._") == ""
}

func (p *parser) images(n *yaml.Node) {
	p.Images = nil
	for _, item := range p.Items(n, "images") {
		var m image
		p.Keys(item, "an image",
			yamlfile.Into("name", &m.Name, p.Text),
			yamlfile.Into("alias", &m.Alias, p.Text),
			yamlfile.Into("fingerprint", &m.Fingerprint, p.Text),
		)
		switch {
		case m.Name == "":
			p.Missing(item, "an image", "name")
		case (m.Alias == "") == (m.Fingerprint == ""):
			p.Wrong(item, "the image %s must have either an alias or a fingerprint", m.Name)
		}
		p.Images = append(p.Images, m)
	}
	if len(p.Images) == 0 {
		p.Wrong(n, "images is empty, so no node could be created; add - {name: debian, alias: debian}")
	}
}

func (p *parser) sliverTypes(n *yaml.Node) {
	p.SliverTypes = nil
	for _, item := range p.Items(n, "sliver_types") {
		t := sliverType{CPUs: 1, Memory: 512, Disk: 4 << 10}
		p.Keys(item, "a sliver type",
			yamlfile.Into("name", &t.Name, p.Text),
			yamlfile.With("cpus", func(n *yaml.Node) { t.CPUs = int(p.Whole(n, "cpus")) }),
			yamlfile.Into("memory", &t.Memory, p.Size),
			yamlfile.Into("disk", &t.Disk, p.Size),
		)
		if t.Name == "" {
			p.Missing(item, "a sliver type", "name")
		}
		if t.CPUs < 1 || t.Memory < 16 || t.Disk < 16 {
			p.Wrong(item, "the sliver type %s needs at least 1 cpu, 16M of memory and 16M of disk", t.Name)
		}
		p.SliverTypes = append(p.SliverTypes, t)
	}
	if len(p.SliverTypes) == 0 {
		p.Wrong(n, "sliver_types is empty, so no node could be created; add - name: container")
	}
}

func (p *parser) pairs(n *yaml.Node, label, first, second string) map[string]string {
	all := map[string]string{}
	for _, item := range p.Items(n, label) {
		var a, b string
		p.Keys(item, label, yamlfile.Into(first, &a, p.Text), yamlfile.Into(second, &b, p.Text))
		if a == "" || b == "" {
			p.Wrong(item, "an entry of %s needs %s and %s", label, first, second)
			continue
		}
		if label == "shared_vlans" && !isName(b) {
			p.Wrong(item, "%q cannot be the name of a network", b)
		}
		all[a] = b
	}
	return all
}
