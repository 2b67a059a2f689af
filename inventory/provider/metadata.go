package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.yaml.in/yaml/v3"

	"patchbay/am/executable"
)

const (
	maxMetadata   = 1 << 20
	maxDescribe   = 1 << 20
	maxAttributes = 256
	maxNameLength = 64
	maxParallel   = 1024
	maxCleaning   = 24 * time.Hour
)

// errNoMetadata means that the text has no top-level key "provider".
var errNoMetadata = errors.New("no key provider")

// metadata is the value of the key "provider" in the YAML text, before apply checks it.
type metadata struct {
	Name       string               `yaml:"name"`
	Type       string               `yaml:"type"`
	Desc       string               `yaml:"desc"`
	Invoke     string               `yaml:"invoke"`
	Actions    []string             `yaml:"actions"`
	Suitable   *suitable            `yaml:"suitable"`
	Parallel   *int                 `yaml:"parallel"`
	Probe      bool                 `yaml:"probe"`
	Timeouts   map[string]string    `yaml:"timeouts"`
	Cleaning   *string              `yaml:"cleaning"`
	Service    []string             `yaml:"service"`
	Attributes map[string]attribute `yaml:"attributes"`

	unknown []string // keys that are not listed above
}

type attribute struct {
	Desc string `yaml:"desc"`
	Type string `yaml:"type"`
	Kind string `yaml:"kind"`
}

// suitable is true, false, or a list of commands. The host must have each command, or must
// not have it if the entry begins with "not".
type suitable struct {
	yes      bool
	commands []string
}

// UnmarshalYAML reads true, false or a mapping with the key "commands".
func (s *suitable) UnmarshalYAML(n *yaml.Node) error {
	if n.Decode(&s.yes) == nil {
		return nil
	}
	var m struct {
		Commands []string `yaml:"commands"`
	}
	if err := n.Decode(&m); err != nil || len(m.Commands) == 0 {
		return fmt.Errorf("line %d: suitable is neither true, false nor commands: [name, not name]", n.Line)
	}
	s.yes, s.commands = true, m.Commands
	return nil
}

// parseMetadata reads the value of the top-level key "provider". It returns errNoMetadata if that key is
// missing.
func parseMetadata(text []byte) (*metadata, error) {
	var top map[string]yaml.Node
	if err := yaml.Unmarshal(text, &top); err != nil {
		return nil, fmt.Errorf("is not a YAML mapping: %s", plainYAML(err))
	}
	node, ok := top["provider"]
	if !ok {
		return nil, errNoMetadata
	}
	var m metadata
	if err := node.Decode(&m); err != nil {
		return nil, errors.New(plainYAML(err))
	}
	var keys map[string]yaml.Node
	if err := node.Decode(&keys); err != nil || keys == nil {
		return nil, fmt.Errorf("line %d: provider is not a mapping", node.Line)
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		switch k {
		case "name", "type", "desc", "invoke", "actions", "suitable", "parallel", "probe", "timeouts", "cleaning", "service", "attributes":
		default:
			m.unknown = append(m.unknown, k)
		}
	}
	return &m, nil
}

// yamlLine matches the line number at the start of a YAML syntax error.
var yamlLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^line (\d+): `) })

// plainYAML returns the first message of a YAML error as one line. The line number of a syntax
// error is the start of the element; the mistake may be further down.
func plainYAML(err error) string {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if mistakes, ok := errors.AsType[*yaml.TypeError](err); ok && len(mistakes.Errors) > 0 {
		text = mistakes.Errors[0]
	} else {
		text = yamlLine().ReplaceAllString(text, "at or after line $1: ")
	}
	return clean(text, 300)
}

// readMetadataFile reads a file NAME.yaml. It returns nil if there is none. It refuses a file that every user can
// change, and one that is no regular file.
func readMetadataFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // O_NONBLOCK: opening a pipe does not wait for a writer
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: is not a regular file; put one in its place", path)
	}
	if err := checkNotWorldWritable(path); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxMetadata+1))
	if err == nil && len(text) > maxMetadata {
		err = fmt.Errorf("%s: is larger than %d bytes", path, maxMetadata)
	}
	return text, err
}

func (p *Provider) runDescribe() (*metadata, error) {
	out, err := p.run(context.Background(), call{action: "describe", limit: p.describe, answer: maxDescribe})
	if err != nil {
		return nil, fmt.Errorf("%w; run the provider by hand to see why, or write its metadata to a .yaml file beside it", err)
	}
	return parseMetadata(out)
}

// apply checks the metadata, and sets the fields of p that follow from it. Its error continues the text that begins with
// the file's name.
func (p *Provider) apply(m *metadata) error {
	if m.Name != "" {
		p.Name = m.Name
	}
	switch {
	case !isName(p.Name):
		return fmt.Errorf("name %q must consist of letters, digits, dots, hyphens and underscores", clean(p.Name, 80))
	case m.Type == "":
		return errors.New("type is missing; add type: node")
	case !isName(m.Type):
		return fmt.Errorf("type %q must be one word", clean(m.Type, 80))
	case m.Invoke != "json":
		return fmt.Errorf("invoke is %q; only invoke: json is known", clean(m.Invoke, 80))
	case m.Suitable == nil:
		return errors.New("suitable is missing; add suitable: true, or the commands it needs")
	}
	p.Type, p.Desc, p.Probe = m.Type, clean(m.Desc, 4*maxMessage), m.Probe
	for _, f := range []func(*metadata) error{p.applySuitable, p.applyActions, p.applyLimits, p.applyService, p.applyAttributes} {
		if err := f(m); err != nil {
			return err
		}
	}
	return nil
}

// applySuitable returns an error unless the provider works on this host.
func (p *Provider) applySuitable(m *metadata) error {
	if !m.Suitable.yes {
		return errors.New("says suitable: false, so it does not work on this host; remove the provider from the folder")
	}
	for _, c := range m.Suitable.commands {
		name, absent := strings.CutPrefix(c, "not ")
		name = strings.TrimSpace(name)
		switch there := onPath(name); {
		case absent && there:
			return fmt.Errorf("does not work on a host with the command %q; remove the provider from the folder", clean(name, 80))
		case !absent && !there:
			return fmt.Errorf("needs the command %q, which is not in PATH; install it", clean(name, 80))
		}
	}
	return nil
}

func onPath(command string) bool {
	if command == "" || strings.ContainsAny(command, "/\x00") {
		return false
	}
	for _, dir := range filepath.SplitList(executable.SearchPath()) {
		if st, err := os.Stat(filepath.Join(dir, command)); err == nil && st.Mode().IsRegular() && st.Mode().Perm()&0o111 != 0 {
			return true
		}
	}
	return false
}

// applyActions stores the offered actions; the default is get and set.
func (p *Provider) applyActions(m *metadata) error {
	p.actions = m.Actions
	if m.Actions == nil {
		p.actions = []string{"get", "set"}
	}
	for _, a := range p.actions {
		if a != "get" && a != "set" {
			return fmt.Errorf("action %q is neither get nor set", clean(a, 80))
		}
	}
	return nil
}

// applyLimits sets the limits of calls: their number at a time, their durations, and the time for cleaning.
func (p *Provider) applyLimits(m *metadata) error {
	p.Parallel = 1
	if m.Parallel != nil {
		if p.Parallel = *m.Parallel; p.Parallel < 1 || p.Parallel > maxParallel {
			return fmt.Errorf("parallel is %d; it must be from 1 to %d", p.Parallel, maxParallel)
		}
	}
	p.places, p.dryRunPlace = make(chan struct{}, p.Parallel), make(chan struct{}, 1)
	p.get, p.set = GetTimeout, SetTimeout
	for name, text := range m.Timeouts {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 || d > maxTimeout {
			return fmt.Errorf("timeouts: %s must be a duration of at most %v, such as 30s", clean(name, 80), maxTimeout)
		}
		switch name {
		case "get":
			p.get = d
		case "set":
			p.set = d
		default:
			return fmt.Errorf("timeouts: %q is neither get nor set", clean(name, 80))
		}
	}
	if m.Cleaning != nil {
		d, err := time.ParseDuration(*m.Cleaning)
		if err != nil || d <= 0 || d > maxCleaning {
			return fmt.Errorf("cleaning is %q; it must be a duration of at most 24h, such as 2m", clean(*m.Cleaning, 80))
		}
		p.Cleaning = d
	}
	return nil
}

// applyAttributes sets the declared attributes. It requires the attribute "name" of every provider.
func (p *Provider) applyAttributes(m *metadata) error {
	if len(m.Attributes) > maxAttributes {
		return fmt.Errorf("has more than %d attributes", maxAttributes)
	}
	p.Attributes = make(map[string]Attribute, len(m.Attributes))
	for _, name := range slices.Sorted(maps.Keys(m.Attributes)) {
		a := m.Attributes[name]
		t, err := ParseType(a.Type)
		if err != nil {
			return fmt.Errorf("attribute %s: %w", clean(name, 80), err)
		}
		if a.Kind == "" {
			a.Kind = "rw"
		}
		switch {
		case name == "ral" || strings.HasPrefix(name, "ral_") || strings.HasPrefix(name, "__"):
			return fmt.Errorf("attribute %s: ral, ral_… and __… are reserved; rename it", clean(name, 80))
		case name == "error" || name == "derive" || !isName(name):
			return fmt.Errorf("attribute %q has a name that is not allowed; rename it", clean(name, 80))
		case a.Kind != "r" && a.Kind != "w" && a.Kind != "rw":
			return fmt.Errorf("attribute %s: kind is %q; it must be r, w or rw", name, clean(a.Kind, 80))
		}
		p.Attributes[name] = Attribute{Desc: clean(a.Desc, 4*maxMessage), Type: t, Kind: a.Kind}
	}
	if a, ok := p.Attributes[AttrName]; !ok || a.Type.Base != "string" || a.Kind == "w" {
		return errors.New("attributes: name must be declared as a string that get reports; add name: {type: string}")
	}
	if a, ok := p.Attributes[AttrEnsure]; ok && (a.Type.Base != "enum" || !slices.Contains(a.Type.Options, Present) || !slices.Contains(a.Type.Options, Absent)) {
		return errors.New("attribute ensure: type must be enum[present,absent]")
	}
	return nil
}

// isName reports whether s is a valid name of at most maxNameLength bytes: letters, digits
// and underscores, and after the first character also dots and hyphens.
func isName(s string) bool {
	if s == "" || len(s) > maxNameLength {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !isAlnum(c) && c != '_' && (i == 0 || c != '-' && c != '.') {
			return false
		}
	}
	return true
}
