package blueprint

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"patchbay/rspec"
	"patchbay/rspec/generate"
	"patchbay/schemas/yamlfile"
)

const (
	mainFile     = "heat.yaml"
	maxText      = 1 << 20
	maxUnpacked  = 64 << 20 // of all files of a package
	maxFiles     = 1000
	zipSignature = "PK\x03\x04"
)

// Document is a blueprint as written.
type Document struct {
	name       *value
	components []*component
	requires   []*requirement
	features   []field
	files      fs.FS // of a package; nil for a text
	isPartial  bool  // it has mistakes, and lacks what they concern
}

// component is a component as written.
type component struct {
	at         *value
	id         string
	typeName   *value // nil if it has none
	requires   []*requirement
	attributes []field
}

// requirement is a requirement as written. A bare value has no type, or stands for the default
// attribute of the type.
type requirement struct {
	at       *value
	typeName string
	value    *value
	isItem   bool // of a list, where the key type names the requirement
}

// isID accepts what a client_id may be.
var isID = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$`).MatchString

var isBlueprintText = regexp.MustCompile(`(?m)^[ \t]*(\{[ \t\r\n]*)?["']?components["']?[ \t]*:|[{,][ \t\r\n]*["']?components["']?[ \t]*:`).Match

// IsPackage reports whether the data are a ZIP file.
func IsPackage(data []byte) bool { return bytes.HasPrefix(data, []byte(zipSignature)) }

// IsBlueprint reports whether the text is a ZIP package, or has the key components.
func IsBlueprint(text []byte) bool {
	return IsPackage(text) || isBlueprintText(text)
}

// Parse reads a blueprint in YAML or JSON, or a ZIP package. It returns nil if nothing can be said
// about the rest because of the mistakes. Compile finds further ones in any other document.
func Parse(text []byte) (*Document, []rspec.Problem) {
	p := &parser{d: &Document{}}
	if IsPackage(text) {
		text = p.unpack(text)
	}
	if len(text) > maxText {
		p.refuse(rspec.TooBig, nil, "divide it", "the blueprint has more than %d bytes", maxText)
	}
	if p.Failed() || !p.parse(text) {
		p.d = nil
	} else {
		p.d.isPartial = p.Failed()
	}
	return p.d, p.Problems()
}

type parser struct {
	reader
	d *Document
}

// unpack returns the text of a package, whose files the document keeps.
func (p *parser) unpack(archive []byte) []byte {
	z, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		p.wrong(nil, "pack it again", "the package is no valid ZIP file: %v", err)
		return nil
	}
	if len(z.File) > maxFiles {
		p.refuse(rspec.TooBig, nil, "pack fewer files", "the package has more than %d files", maxFiles)
		return nil
	}
	var size uint64
	var text []byte
	found := false
	for _, f := range z.File {
		if name := strings.TrimSuffix(f.Name, "/"); !fs.ValidPath(name) {
			p.wrong(nil, "pack names below the top of the package, without ..", "the package has a file with the name %.80q", f.Name)
			return nil
		}
		if size += f.UncompressedSize64; size > maxUnpacked || f.UncompressedSize64 > maxUnpacked {
			p.refuse(rspec.TooBig, nil, "put large files on a web server", "the files of the package have more than %d bytes", maxUnpacked)
			return nil
		}
		if f.Name == mainFile && !found {
			found = true
			if text, err = readFile(z, mainFile, maxText); err != nil {
				p.wrong(nil, "pack it again", "%s cannot be read: %v", mainFile, err)
			}
		}
	}
	if !found {
		p.wrong(nil, "put the blueprint into it under this name, not in a folder", "the package has no %s at its top", mainFile)
	}
	p.d.files = z
	return text
}

var errTooLarge = errors.New("it is too large")

// readFile reads at most limit bytes, whatever the size is said to be.
func readFile(files fs.FS, name string, limit int64) ([]byte, error) {
	f, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%w: more than %d bytes", errTooLarge, limit)
	}
	return text, err
}

// parse reads the text into the document. It returns false if there are no components that can be compiled.
func (p *parser) parse(text []byte) bool {
	y := &yamlfile.Reader{}
	document := y.Document(text)
	if err, ok := errors.AsType[*yamlfile.Error](y.Err()); ok {
		for _, w := range err.Problems {
			p.wrong(&value{line: w.Line}, "", "%s", w.Msg)
		}
		return false
	}
	root := p.read(document.Content[0], 0)
	if root == nil || p.stopped() {
		return false
	}
	if root.kind != yaml.MappingNode {
		p.wrong(root, "write components: and below it the components", "a blueprint is a list of keys and values")
		return false
	}
	hasComponents := false
	for _, f := range root.fields {
		switch f.name {
		case "name":
			p.d.name = f.value
		case "requires":
			p.d.requires = p.requirements(f.value)
		case "components":
			hasComponents = true
			p.components(f.value)
		default:
			p.d.features = append(p.d.features, f)
		}
	}
	if !hasComponents {
		p.wrong(root, "add components: []", "the blueprint has no components")
	}
	return hasComponents
}

func (p *parser) components(v *value) {
	lines := map[string]int{}
	add := func(c *component) {
		if c == nil {
			return
		}
		if c.id != "" {
			if line := lines[c.id]; line > 0 {
				p.wrong(c.at, "rename one", "the component %.80q is also in line %d", c.id, line)
			}
			lines[c.id] = c.at.line
		}
		p.d.components = append(p.d.components, c)
	}
	switch v.kind {
	case yaml.SequenceNode:
		for _, item := range v.items {
			add(p.component(item, item, ""))
		}
	case yaml.MappingNode:
		for _, f := range v.fields {
			add(p.component(f.key, f.value, f.name))
		}
	default:
		p.wrong(v, "write [] for none", "components is neither a list nor a map")
	}
}

// component reads a component; id is its key in a map.
func (p *parser) component(at, v *value, id string) *component {
	c := &component{at: at, id: id}
	if v.kind != yaml.MappingNode && (v.kind != 0 || id == "") {
		p.wrong(v, "write keys and values, such as type: server", "a component is no map")
		return nil
	}
	for _, f := range v.fields {
		switch f.name {
		case "id":
			if id != "" && f.text != id {
				p.wrong(f.value, "drop one of both", "the component %.80q has the id %.80q", id, f.text)
			}
			c.id = f.text
		case "type":
			if c.typeName = f.value; f.kind != yaml.ScalarNode {
				p.wrong(f.value, "write one word", "a type is no text")
			}
		case "requires":
			c.requires = p.requirements(f.value)
		case "require", "required", "requirements":
			p.wrong(f.key, "write requires", "the key %q of a component is unknown", f.name)
		default:
			c.attributes = append(c.attributes, f)
		}
	}
	if c.id != "" && !isID(c.id) {
		p.wrong(c.at, "use letters, digits, - and _, at most 100", "%.80q is no id", c.id)
	}
	return c
}

func (p *parser) requirements(v *value) (list []*requirement) {
	switch v.kind {
	case yaml.ScalarNode:
		return []*requirement{{at: v, value: v}}
	case yaml.MappingNode:
		for _, f := range v.fields {
			list = append(list, &requirement{at: f.key, typeName: f.name, value: f.value})
		}
	case yaml.SequenceNode:
		for _, item := range v.items {
			r := &requirement{at: item, value: item}
			switch kind := item.get("type"); {
			case item.kind == yaml.ScalarNode:
			case item.kind != yaml.MappingNode:
				p.wrong(item, "write type: and its attributes", "a requirement is no map")
				continue
			case kind != nil:
				if r.typeName, r.isItem = kind.text, true; kind.kind != yaml.ScalarNode {
					p.wrong(kind, "write one word", "a type is no text")
					continue
				}
			case len(item.fields) == 1:
				r.at, r.typeName, r.value = item.fields[0].key, item.fields[0].name, item.fields[0].value
			default:
				p.wrong(item, "add type:", "a requirement with several keys has no type")
				continue
			}
			list = append(list, r)
		}
	}
	return list
}

// Pack returns a package of a blueprint and the files that it names.
func Pack(text []byte, from fs.FS, files []generate.SourceFile) ([]byte, error) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	add := func(name string, text []byte) error {
		w, err := z.Create(name)
		if err == nil {
			_, err = w.Write(text)
		}
		return err
	}
	if err := add(mainFile, text); err != nil {
		return nil, err
	}
	for _, f := range files {
		body, err := readFile(from, f.Name, int64(f.Size))
		if err == nil {
			err = add(f.Name, body)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	err := z.Close()
	return b.Bytes(), err
}
