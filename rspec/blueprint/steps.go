package blueprint

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"patchbay/inventory"
	"patchbay/rspec"
	"patchbay/rspec/generate"
	"patchbay/rspec/hostname"
	"patchbay/rspec/setup"
)

// Files travel in the request in pieces of at most maxInline bytes, and up to maxInPieces bytes.
const (
	maxInline   = 64 << 10
	maxInPieces = 1 << 20
)

// content is the file of a component: in the request, or at a URL with its digest.
type content struct {
	body        []byte
	url, digest string
	isInline    bool
}

const fetch = `set -e
if command -v curl >/dev/null; then curl -fsSL -o content "$url"
elif command -v wget >/dev/null; then wget -q -O content "$url"
else echo 'this node has neither curl nor wget, and cannot fetch' "$url" >&2; exit 1; fi
if [ -n "$sha256" ]; then echo "$sha256  content" | sha256sum -c -; fi
`

const join = `set -e
cat content.* >content
rm content.*
`

const unpack = `set -e
mkdir -p "$target"
tar -xf content -C "$target"
`

const load = `set -e
if [ "$(head -c 2 content)" = '#!' ]; then chmod +x content; exec ./content; fi
if command -v mysqld >/dev/null || command -v mariadbd >/dev/null; then mysql <content
elif ! command -v postgres >/dev/null && ! ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 && command -v sqlite3 >/dev/null; then mkdir -p /var/lib/database; sqlite3 /var/lib/database/main.db <content
else su -s /bin/sh postgres -c 'psql -v ON_ERROR_STOP=1' <content; fi
`

const copyFile = `set -e
mkdir -p "$target"
cp content "$target/$file"
`

// spend counts bytes that the request repeats.
func (c *compiler) spend(at *value, n int) {
	before := c.expanded
	if c.expanded += n; c.expanded > maxExpanded && before <= maxExpanded {
		c.refuse(rspec.TooBig, at, "use smaller files, fewer nodes, or the options --content DIR and --content-url URL of compile", "the texts of the request have more than %d bytes together", maxExpanded)
	}
}

// addStep adds a step to a node.
func (c *compiler) addStep(at *value, node int, s generate.Step) {
	n := &c.request.Nodes[node]
	if len(n.Steps) >= maxSteps && !c.stopped() {
		c.refuse(rspec.TooBig, at, "put several scripts into one", "the node %.80q has more than %d steps", n.ClientID, maxSteps)
	}
	size := len(s.Body) + 100
	for _, f := range s.Files {
		size += len(f.Body)
	}
	for _, p := range s.Parameters {
		size += len(p.Name) + len(p.Value)
		if len(p.Value) > maxInline/2 && !c.stopped() {
			c.refuse(rspec.TooBig, at, "shorten it", "the attribute %.80q has more than %d bytes", p.Name, maxInline/2)
		}
	}
	if c.spend(at, size); !c.stopped() {
		n.Steps = append(n.Steps, s)
	}
}

// nameNodes gives the nodes their DNS names, and finds out by which names others reach them.
func (c *compiler) nameNodes() {
	for _, p := range c.parts {
		for _, n := range p.requirements {
			if n.kind.environment && len(n.targets) == 0 {
				c.dns(p, n)
			}
		}
	}
	var nodes []hostname.Node
	for i := range c.request.Nodes {
		n := hostname.Node{ClientID: c.request.Nodes[i].ClientID}
		for _, x := range c.request.Nodes[i].Interfaces {
			n.DNSNames = append(n.DNSNames, x.DNSNames...)
		}
		nodes = append(nodes, n)
	}
	for _, id := range c.o.Nodes {
		nodes = append(nodes, hostname.Node{ClientID: id})
	}
	hostname.Assign(nodes)
	c.names = hostname.Name(nodes)[:len(c.request.Nodes)]
}

// setUp gives the nodes their steps.
func (c *compiler) setUp() {
	for _, p := range c.parts {
		if p.kind.form != isSoftware {
			c.act(p, p, p.nodes)
		}
		for _, n := range p.requirements {
			c.checkPorts(p, n)
			for _, t := range n.targets {
				switch {
				case c.stopped():
					return
				case n.kind.effect == bySetup && t.kind.form == isSoftware:
					c.act(t, p, p.nodes)
				case n.kind.effect == byRelation && n.kind.host && p.kind.form == isSoftware:
					c.act(p, p, t.nodes)
				case n.kind.effect == byRelation:
					c.relate(p, t, n)
				}
			}
		}
		if c.stopped() {
			return
		}
	}
}

// notVariables are the attributes that describe the node itself.
var notVariables = []string{"content", "nodespec", "sliver_type", "image", "hardware_type"}

// variables returns the attributes of a type as parameters.
func variables(known []attribute, get func(name string) string) (list []generate.Feature) {
	for _, a := range known {
		if !slices.Contains(notVariables, a.name) {
			list = append(list, generate.Feature{Name: a.name, Value: get(a.name)})
		}
	}
	return list
}

// runsContent reports whether the content of software is a script, which gets all attributes as
// variables.
func (p *part) runsContent() bool {
	return slices.ContainsFunc(p.kind.actions, func(a action) bool { return a.content == "run" || a.content == "load" })
}

// checkVariable fails if an attribute that its type does not know cannot be a variable.
func checkVariable(name string) error {
	if strings.HasSuffix(name, "_nodes") { // of a relation
		return errors.New("names that end in _nodes are those of relations")
	}
	_, err := (&setup.Requested{Parameters: []setup.Parameter{{Name: name}}}).CheckNames(nil, nil)
	return err
}

// ownVariables returns the attributes of a script that its type does not know.
func (p *part) ownVariables() (list []generate.Feature) {
	seen := map[string]bool{}
	for _, a := range p.kind.attributes {
		seen[setup.Variable(a.name)] = true
	}
	for _, f := range p.attributes {
		if v := setup.Variable(f.name); !seen[v] && f.name != "description" && checkVariable(f.name) == nil {
			seen[v] = true
			list = append(list, generate.Feature{Name: f.name, Value: flat(f.value)})
		}
	}
	return list
}

// stepName returns a name such as "install database db". It does not repeat the name of the component.
func stepName(a action, p *part) string {
	if a.name == p.label || strings.HasSuffix(a.name, " "+p.label) {
		return a.name
	}
	return a.name + " " + p.label
}

// act puts the actions of p on nodes, in the stage of by.
func (c *compiler) act(p, by *part, nodes []int) {
	if len(nodes) == 0 {
		return
	}
	for _, a := range p.kind.actions {
		s := generate.Step{Kind: generate.Script, Name: stepName(a, p), Stage: by.stage, Language: "sh", Operation: a.operation, Body: []byte(a.script)}
		s.Parameters = variables(p.kind.attributes, p.attribute)
		if p.kind.form == isSoftware {
			s.AsUser = slices.Contains([]string{"false", "no", "off"}, strings.ToLower(p.attribute("sudo")))
		}
		if a.content == "run" || a.content == "load" {
			s.Parameters = append(s.Parameters, p.ownVariables()...)
		}
		if a.content != "" && !c.addContent(p, a, &s) {
			continue
		}
		for _, n := range nodes {
			c.addStep(p.at, n, s)
		}
	}
}

// variable returns an attribute of a relation of p, and where it is: in the requirement, in the component,
// or the default.
func (n *need) variable(p *part, name string) (text string, at *value) {
	if v := n.get(name); v != nil {
		return flat(v), v
	}
	if slices.Contains(names(p.kind.attributes), name) {
		return p.attribute(name), cmp.Or(p.value(name), n.at)
	}
	i := slices.IndexFunc(n.kind.attributes, func(a attribute) bool { return a.name == name })
	return n.kind.attributes[i].value, n.at
}

// checkPorts refuses ports that the load balancer could not use.
func (c *compiler) checkPorts(p *part, n *need) {
	if !n.kind.hasPorts {
		return
	}
	for _, name := range []string{"publicPort", "membersPort"} {
		text, at := n.variable(p, name)
		if port, err := strconv.Atoi(text); err != nil || port < 1 || port > 65535 || strconv.Itoa(port) != text {
			c.wrong(at, "write a number from 1 to 65535", "the %s of the requirement %s is %.80q", name, n.kind.name, text)
		}
	}
}

// relate puts the actions of a relation on its nodes.
func (c *compiler) relate(p, t *part, n *need) {
	if len(p.nodes) == 0 || len(t.nodes) == 0 {
		return
	}
	var members []string
	for _, i := range p.nodes {
		members = append(members, c.names[i])
	}
	var targets []string
	for _, i := range t.nodes {
		targets = append(targets, c.names[i])
	}
	for _, i := range p.nodes {
		c.introduce(n, i, strings.Join(targets, " "))
	}
	for _, a := range n.kind.actions {
		s := generate.Step{Kind: generate.Script, Name: stepName(a, p), Stage: p.stage, Language: "sh", Operation: a.operation, Body: []byte(a.script), OnTarget: a.onTarget}
		s.Parameters = append(variables(n.kind.attributes, func(name string) string {
			text, _ := n.variable(p, name)
			return text
		}), generate.Feature{Name: "members", Value: strings.Join(members, " ")})
		sources := p.nodes
		if a.onTarget {
			sources = sources[:1]
		}
		for _, target := range t.nodes {
			for _, source := range sources {
				if s.Relation = c.request.Nodes[target].ClientID; source != target {
					c.addStep(n.at, source, s)
				}
			}
			if c.stopped() {
				return
			}
		}
	}
}

// introduce gives the scripts of a node the names of the nodes to which a requirement refers.
func (c *compiler) introduce(n *need, node int, names string) {
	name, list := n.kind.name+"_nodes", &c.request.Nodes[node].Parameters
	i := slices.IndexFunc(*list, func(f generate.Feature) bool { return f.Name == name })
	if i < 0 {
		*list = append(*list, generate.Feature{Name: name, Value: names})
	} else {
		(*list)[i].Value += " " + names
	}
	if c.spend(n.at, len(names)); len(names) > maxInline/2 && !c.stopped() {
		c.refuse(rspec.TooBig, n.at, "make the tier smaller", "the names of the nodes of a tier have more than %d bytes", maxInline/2)
	}
}

// dns gives nodes the names of a requirement.
func (c *compiler) dns(p *part, n *need) {
	v := n.get("hostname")
	if v == nil || !rspec.IsDNSName(flat(v)) {
		if v == nil {
			v = &value{}
		}
		c.wrong(n.at, "give hostname a name such as www.example.org", "the requirement %.80q: %.80q is not a DNS name", n.kind.name, flat(v))
		return
	}
	for _, i := range p.nodes {
		node := &c.request.Nodes[i]
		if len(node.Interfaces) == 0 {
			node.Interfaces = []generate.Interface{{ClientID: node.ClientID + ":0"}}
		}
		node.Interfaces[0].DNSNames = append(node.Interfaces[0].DNSNames, flat(v))
		c.spend(n.at, len(flat(v)))
	}
}

// addContent makes a step of the component's file. It returns false if there is none.
func (c *compiler) addContent(p *part, a action, s *generate.Step) bool {
	f := c.contentOf(p)
	if f == nil {
		return false
	}
	if f.isInline && a.content != "run" && a.content != "load" {
		c.wrong(p.at, "name a file beside the blueprint", "the content of %.80q is a text in place of the name of a file", p.label)
		return false
	}
	script := "chmod +x content\n./content\n"
	switch a.content {
	case "unpack":
		script = unpack
	case "load":
		script = load
	case "copy":
		script = copyFile
		s.Parameters = append(s.Parameters, generate.Feature{Name: "file", Value: path.Base(p.attribute("content"))})
	}
	if f.url != "" {
		s.Parameters = append(s.Parameters, generate.Feature{Name: "url", Value: f.url}, generate.Feature{Name: "sha256", Value: f.digest})
		s.Body = []byte(fetch + script)
		return true
	}
	if len(f.body) > maxInline {
		s.Body, s.Files = []byte(join+script), pieces(f.body)
		return true
	}
	if a.content != "run" {
		s.Body, s.Files = []byte(script), []generate.File{{Path: "content", Body: f.body}}
		return true
	}
	if s.Body = f.body; bytes.HasPrefix(f.body, []byte("#!")) {
		s.Language = ""
	}
	if !utf8.Valid(f.body) || bytes.ContainsFunc(f.body, func(r rune) bool { return r < ' ' && !strings.ContainsRune("\t\n\v\f\r", r) || r >= 0x7f && r < 0xa0 }) {
		c.wrong(p.at, "give a script", "the content of %.80q is no text", p.label)
		return false
	}
	return true
}

// pieces returns files of which the script join makes the file content.
func pieces(body []byte) (list []generate.File) {
	for piece := range slices.Chunk(body, maxInline) {
		list = append(list, generate.File{Path: fmt.Sprintf("content.%02d", len(list)), Body: piece})
	}
	return list
}

// contentOf reads the file of a component once.
func (c *compiler) contentOf(p *part) *content {
	name, at := p.attribute("content"), p.at
	if v := p.value("content"); v != nil {
		at = v
		if v.kind == yaml.ScalarNode {
			name = v.text
		}
	}
	if f, known := c.contents[name]; known {
		return f
	}
	c.contents[name] = nil
	switch {
	case name == "":
		c.wrong(at, "add content: with a file or URL", "the component %.80q has no content", p.label)
		return nil
	case strings.HasPrefix(name, "http://"), strings.HasPrefix(name, "https://"):
		if c.o.Site != nil && c.o.Site.OutsideAccess == inventory.No {
			c.warn(at, "put the file beside the blueprint, and name it", "the content %.80q cannot be fetched, unless a node of the slice serves it: nodes here do not reach the Internet", name)
		}
		c.contents[name] = &content{url: name}
		return c.contents[name]
	case strings.HasPrefix(name, "#!"), strings.Contains(name, "\n"):
		if len(name) > maxInline {
			c.refuse(rspec.TooBig, at, "put it into a file", "the content of %.80q has more than %d bytes", p.label, maxInline)
		} else {
			c.contents[name] = &content{body: []byte(name), isInline: true}
		}
		return c.contents[name]
	case !fs.ValidPath(name) || name == ".":
		c.wrong(at, "name a file beside the blueprint or in its package, without ..", "the content %.80q is neither a relative path nor a URL", name)
		return nil
	case c.o.Files == nil:
		c.wrong(at, "send a ZIP package with heat.yaml, or give a URL", "the file %.80q is not available here", name)
		return nil
	}
	c.contents[name] = c.fileContent(at, name)
	return c.contents[name]
}

// fileContent reads a file beside the blueprint. It returns nil if it refuses or leaves out the file.
func (c *compiler) fileContent(at *value, name string) (found *content) {
	limit := int64(maxInPieces) // a package may contain more than the memory holds
	if c.o.ContentDir != "" {
		limit = maxUnpacked
	}
	body, err := readFile(c.o.Files, name, limit)
	switch {
	case errors.Is(err, errTooLarge) && c.o.ContentDir == "":
		c.refuse(rspec.TooBig, at, "use the options --content DIR and --content-url URL of compile", "the file %.80q has %d bytes, more than the %d that travel in a request", name, sizeOf(c.o.Files, name), maxInPieces)
	case errors.Is(err, errTooLarge):
		c.refuse(rspec.TooBig, at, "put it on a web server", "the file %.80q has more than %d bytes", name, maxUnpacked)
	case errors.Is(err, fs.ErrNotExist):
		remedy := "correct the name, which is relative to the blueprint"
		if strings.Contains(name, " ") {
			remedy += "; a script itself begins with #!/bin/sh"
		}
		c.wrong(at, remedy, "there is no file %.80q", name)
	case err != nil:
		c.wrong(at, "name a file that is beside the blueprint or in a folder below", "the file %.80q cannot be read: %.200v", name, err)
	case bytes.Contains(body, []byte("PRIVATE KEY-----")):
		c.warn(at, "give nodes their secrets after they were created", "the file %.80q has a private key, so it is left out", name)
	case len(body) == 0:
		c.wrong(at, "fill it", "the file %.80q is empty", name)
	case len(body) <= maxInline || c.o.ContentDir == "":
		found = &content{body: body}
	default:
		found = c.publish(at, name, body)
	}
	if found != nil && c.d.files == nil {
		c.request.Files = append(c.request.Files, generate.SourceFile{Name: name, Size: len(body)})
	}
	return found
}

// sizeOf returns the size that a file states, or 0 if it states none.
func sizeOf(files fs.FS, name string) int64 {
	i, err := fs.Stat(files, name)
	if err != nil {
		return 0
	}
	return i.Size()
}

// publish writes a large file into the folder of the content URL.
func (c *compiler) publish(at *value, name string, body []byte) *content {
	sum := sha256.Sum256(body)
	digest := hex.EncodeToString(sum[:])
	if err := createFile(filepath.Join(c.o.ContentDir, digest), body); err != nil {
		c.wrong(at, "name an existing folder that only you can write to", "the file %.80q cannot be published: %v", name, err)
		return nil
	}
	return &content{url: strings.TrimSuffix(c.o.ContentURL, "/") + "/" + digest, digest: digest}
}

// createFile creates a file, and follows no link. If the path exists already, it must be a file with the
// same content.
func createFile(path string, body []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
			return fmt.Errorf("%s is no regular file; remove it", path)
		}
		if old, err := os.ReadFile(path); err != nil || !bytes.Equal(old, body) {
			return fmt.Errorf("%s has another content than its name says; remove it", path)
		}
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.Write(body)
	return errors.Join(err, f.Close())
}

// finish removes links without ends, and counts the variables of all steps.
func (c *compiler) finish() {
	for i := range c.request.Nodes {
		n := &c.request.Nodes[i]
		for _, p := range n.Parameters {
			// a relation gives a step the variables of two nodes
			if c.spend(nil, 2*len(n.Steps)*len(p.Value)); len(p.Value) > maxInline/2 && !c.stopped() {
				c.refuse(rspec.TooBig, nil, "make tiers smaller", "the node %.80q refers to too many others", n.ClientID)
			}
		}
	}
	if len(c.request.Nodes) == 0 && len(c.d.components) > 0 {
		c.request.Comments = append(c.request.Comments, "no component has a node")
	}
	c.request.Links = slices.DeleteFunc(c.request.Links, func(l generate.Link) bool { return len(l.Interfaces) == 0 })
}
