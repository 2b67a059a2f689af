package site

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"math"
	"os"
	"os/user"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"go.yaml.in/yaml/v3"

	"patchbay/am/display"
	"patchbay/am/fileowner"
	"patchbay/inventory/suggest"
	"patchbay/inventory/yamlfile"
)

// cannotRead names the users that may read the file, if this user may not.
func cannotRead(file string, err error) error {
	msg := fmt.Sprintf("cannot be read: %v", err)
	if uid, _, err2 := fileowner.Of(filepath.Dir(file)); err2 == nil && errors.Is(err, fs.ErrPermission) {
		name := fmt.Sprintf("the user %d", uid)
		if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
			name = u.Username
		}
		if uid != 0 {
			name += " and root"
		}
		msg += "; only " + name + " may read it: name another site with --config, or put sudo before the command"
	}
	return &ConfigError{Where: file, Msg: msg}
}

// ReadConfig reads a site's configuration from its file and the environment. It adds the defaults
// and validates all values. An error names the place of the mistake, and the remedy.
func ReadConfig(file string) (*Config, error) { return readConfig(file, ParseConfig) }

// ReadConfigFile does what ReadConfig does, without environment variables.
func ReadConfigFile(file string) (*Config, error) {
	return readConfig(file, func(file string, text []byte) (*Config, error) { return parseConfig(file, text, nil) })
}

func readConfig(file string, parse func(file string, text []byte) (*Config, error)) (*Config, error) {
	text, err := readConfigText(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &ConfigError{Where: file, Msg: "there is no such file; name the site's configuration with --config, or create a site with: " + display.Command("init", "DIR")}
	}
	if err != nil {
		return nil, cannotRead(file, err)
	}
	file, err = filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	return parse(file, text)
}

// maxConfig is in bytes.
const maxConfig = 1 << 20

func readConfigText(file string) ([]byte, error) {
	f, err := OpenRegular(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err == nil && len(text) > maxConfig {
		err = fmt.Errorf("it is larger than %d MiB; make it shorter", maxConfig>>20)
	}
	return text, err
}

// ParseConfig does what ReadConfig does, but takes the text of the file. Environment variables take precedence
// over the text.
func ParseConfig(file string, text []byte) (*Config, error) {
	return parseConfig(file, text, os.Environ())
}

// parseConfig takes the environment in the format of os.Environ.
func parseConfig(file string, text []byte, environ []string) (*Config, error) {
	c := DefaultConfig()
	c.Origin = origin{File: file, lines: make(map[string]int), variables: settingVariables(environ), warnings: new([]*ConfigError)}
	if err := c.Origin.checkEnvironment(environ); err != nil {
		return nil, err
	}
	top, err := c.Origin.document(text)
	if err != nil {
		return nil, err
	}
	var errs []error
	if top != nil {
		c.Origin.walk(top, reflect.ValueOf(&c).Elem(), "", &errs)
	}
	for _, s := range settings(&c) {
		if text := c.Origin.variables[s.key]; text != "" {
			if err := setText(s.value, text); err != nil {
				errs = append(errs, c.Origin.errorf(s.key, "%v", err))
			}
		}
	}
	c.resolve(filepath.Dir(file))
	if err := errors.Join(append(errs, withoutRepeats(c.Validate(), errs)...)...); err != nil {
		return nil, err
	}
	return &c, nil
}

// withoutRepeats returns the errors that err joins, except those about the place of an earlier
// error. A value that cannot be parsed needs no second error.
func withoutRepeats(err error, earlier []error) (others []error) {
	at := map[string]bool{}
	for _, e := range earlier {
		if x, ok := errors.AsType[*ConfigError](e); ok {
			at[x.Where] = true
		}
	}
	many, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil
	}
	for _, e := range many.Unwrap() {
		if x, ok := errors.AsType[*ConfigError](e); !ok || !at[x.Where] {
			others = append(others, e)
		}
	}
	return others
}

// setText requires a unit in durations: a bare number would mean nanoseconds. Whole numbers may
// be sizes such as 64K.
func setText(v reflect.Value, text string) (err error) {
	var n int64
	switch p := v.Addr().Interface().(type) {
	case *string:
		*p = text
	case *bool:
		if *p = text == "yes"; *p || text == "no" {
			break
		}
		if *p, err = strconv.ParseBool(text); err != nil {
			return fmt.Errorf("%q is neither yes nor no", text)
		}
	case *time.Duration:
		*p, err = display.ParseDuration(text)
	case *int:
		n, err = parseSize(text)
		*p = int(n)
	case *int64:
		*p, err = parseSize(text)
	}
	return err
}

// parseSize parses a whole number, or a size such as 64K, 16M or 1G.
func parseSize(s string) (int64, error) {
	digits, shift := strings.TrimSpace(s), 0
	if digits != "" {
		if i := strings.IndexByte("KMG", digits[len(digits)-1]); i >= 0 {
			digits, shift = digits[:len(digits)-1], 10*(i+1)
		}
	}
	n, err := strconv.ParseInt(digits, 0, 64) // 0x1000 and 16_777_216 are YAML, too
	if err != nil || n > math.MaxInt64>>shift || n < math.MinInt64>>shift {
		return 0, fmt.Errorf("%q is not a whole number, nor a size like 64K, 16M or 1G", s)
	}
	return n << shift, nil
}

// otherVariables are the PATCHBAY_ variables that set no key.
var otherVariables = []string{"PATCHBAY_CONFIG", "PATCHBAY_URL", "PATCHBAY_CORPUS", "PATCHBAY_REQUIRE", "PATCHBAY_SOAK", "PATCHBAY_LONG"}

// warnedIn is the release that ignores removedKeys and accepts renamedKeys under their old names,
// with warnings. In the next release, delete both lists, so that these keys become errors.
const warnedIn = "0.1"

// removedKeys are keys of earlier versions, each with the value that now always applies.
var removedKeys = map[string]string{
	"limits.max_bodies":                      "64M",
	"limits.max_answers":                     "256M",
	"limits.max_calls":                       "256",
	"limits.max_connections_per_address":     "256",
	"limits.max_connections_per_certificate": "128",
	"limits.max_header":                      "16K",
	"limits.handshake_timeout":               "half of limits.header_timeout",
	"limits.write_timeout":                   "two and a half times limits.read_timeout",
	"limits.call_timeout":                    "1m",
	"limits.rspec.elements":                  "200000",
	"limits.rspec.attributes":                "100",
	"limits.rspec.namespaces":                "250",
	"limits.rspec.namespace_bytes":           "1024",
	"limits.rspec.interfaces":                "50000",
	"limits.rspec.client_id":                 "256",
	"limits.rspec.addresses":                 "64",
	"limits.rspec.services":                  "200",
	"limits.rspec.command":                   "64K",
}

// renamedKeys maps old names to new ones.
var renamedKeys = map[string]string{
	"unpromised":       "orphans",
	"unpromised_after": "orphans_after",
}

// checkEnvironment returns an error for each PATCHBAY_ variable whose key is misspelt, renamed or
// a list. It warns of variables of removed keys. It ignores other PATCHBAY_ variables, because
// other programs may use them.
func (o origin) checkEnvironment(environ []string) error {
	lists := map[string]string{"KEYS": "certificates", "HOOKS": "hooks"}
	known := slices.Sorted(maps.Keys(lists))
	removed, renamed := map[string]string{}, map[string]string{}
	for key, value := range removedKeys {
		removed[envName(key)] = value
	}
	for old, key := range renamedKeys {
		renamed[envName(old)] = envName(key)
	}
	for _, name := range otherVariables {
		known = append(known, strings.TrimPrefix(name, EnvPrefix))
	}
	for _, s := range settings(&Config{}) {
		known = append(known, strings.TrimPrefix(envName(s.key), EnvPrefix))
	}
	var errs []error
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		key, ours := strings.CutPrefix(name, EnvPrefix)
		if !ours {
			continue
		}
		msg := ""
		if what := lists[key]; what != "" {
			msg = what + " can be named in " + ConfigName + " only"
		} else if value := removed[name]; value != "" {
			o.warn("environment "+name, "this is no longer a setting: it is always %s; remove the variable", value)
		} else if now := renamed[name]; now != "" {
			msg = "this variable is now called " + now + "; rename it"
		} else if near := suggest.Word(key, known); near != "" && !slices.Contains(known, key) {
			msg = "this variable sets no key; did you mean " + EnvPrefix + near + "?"
		}
		if msg != "" {
			errs = append(errs, &ConfigError{Where: "environment " + name, Msg: msg})
		}
	}
	return errors.Join(errs...)
}

// document returns the root of the YAML; nil for an empty text.
func (o origin) document(text []byte) (*yaml.Node, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		cause := strings.TrimPrefix(err.Error(), "yaml: ")
		return nil, &ConfigError{Where: o.File, Msg: "this is not YAML: " + cause + "; " + yamlfile.Remedy(cause)}
	}
	switch err := doc.Decode(new(any)); {
	case len(doc.Content) == 0:
		return nil, nil
	case err != nil && strings.Contains(err.Error(), "excessive aliasing"):
		return nil, &ConfigError{Where: o.File, Msg: "its aliases (*NAME) expand to too much text; write the values out"}
	case isProviderFile(&doc):
		return nil, &ConfigError{Where: o.File, Msg: "these are a provider's metadata and settings, not a configuration; name the site's " + ConfigName}
	case IsInventory(&doc):
		return nil, &ConfigError{Where: o.File, Msg: "this is an inventory, not a configuration; name the site's " + ConfigName}
	}
	return doc.Content[0], nil
}

// walk decodes n into v, records the line of each key, and adds mistakes to errs. prefix is the
// full key of n with a dot at the end; "" for the root.
func (o origin) walk(n *yaml.Node, v reflect.Value, prefix string, errs *[]error) {
	wrong := func(n *yaml.Node, format string, args ...any) {
		*errs = append(*errs, &ConfigError{Where: fmt.Sprintf("%s:%d", o.File, n.Line), Msg: fmt.Sprintf(format, args...)})
	}
	name := strings.TrimSuffix(prefix, ".")
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	null := n.Kind == yaml.ScalarNode && n.Tag == "!!null"
	switch list := v.Kind() == reflect.Slice; {
	case list && n.Kind != yaml.SequenceNode && (n.Kind == yaml.MappingNode || v.Type().Elem().Kind() == reflect.Struct):
		wrong(n, "%s is a list; each entry begins with a dash", name)
	case null: // keeps the default
	case list:
		items := n.Content
		if n.Kind == yaml.ScalarNode {
			items = []*yaml.Node{n}
		}
		v.Set(reflect.MakeSlice(v.Type(), len(items), len(items)))
		for i, item := range items {
			o.walk(item, v.Index(i), prefix, errs)
			o.lines[fmt.Sprintf("%s%d", prefix, i)] = item.Line
		}
	case v.Kind() == reflect.Struct:
		o.walkKeys(n, v, prefix, errs, wrong)
	case n.Kind != yaml.ScalarNode:
		wrong(n, "%s: it must be a single value", name)
	case o.variables[name] == "":
		if err := setText(v, n.Value); err != nil {
			wrong(n, "%s: %v", name, err)
		}
	}
}

// walkKeys decodes the keys of a mapping into the fields of v.
func (o origin) walkKeys(n *yaml.Node, v reflect.Value, prefix string, errs *[]error, wrong func(n *yaml.Node, format string, args ...any)) {
	known := maps.Collect(fields(v))
	if n.Kind != yaml.MappingNode {
		var names []string
		for name := range fields(v) {
			names = append(names, name)
		}
		wrong(n, "%s needs keys below it: %s", strings.TrimSuffix(prefix, "."), strings.Join(names, ", "))
		return
	}
	seen := make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		field, ok := known[key.Value]
		switch full := prefix + key.Value; {
		case !ok && removedKeys[full] != "":
			o.warn(fmt.Sprintf("%s:%d", o.File, key.Line), "%s is no longer a setting: it is always %s; remove it", full, removedKeys[full])
		case !ok && renamedKeys[full] != "" && !seen[renamedKeys[full]]:
			o.warn(fmt.Sprintf("%s:%d", o.File, key.Line), "%s is now called %s; rename it", full, renamedKeys[full])
			seen[renamedKeys[full]] = true
			o.lines[renamedKeys[full]] = key.Line
			o.walk(value, known[renamedKeys[full]], renamedKeys[full]+".", errs)
		case !ok:
			names := slices.Sorted(maps.Keys(known))
			hint := "known here: " + strings.Join(names, ", ")
			if near := suggest.Word(key.Value, names); near != "" {
				hint = "did you mean " + prefix + near + "?"
			} else if there := namesake(key.Value); there != "" {
				hint = "did you mean " + there + "?"
			}
			wrong(key, "unknown key %s; %s", full, hint)
		case seen[key.Value]:
			wrong(key, "%s is given twice", full)
		default:
			seen[key.Value] = true
			o.lines[full] = key.Line
			o.walk(value, field, full+".", errs)
		}
	}
}

// namesake returns the full key whose last part is name; "" for none or several.
func namesake(name string) (found string) {
	for _, s := range settings(&Config{}) {
		if !strings.HasSuffix(s.key, "."+name) {
			continue
		}
		if found != "" {
			return ""
		}
		found = s.key
	}
	return found
}

type setting struct {
	key   string
	value reflect.Value
}

// settings returns the keys that a variable can set: those with a single value.
func settings(c *Config) (all []setting) {
	var walk func(v reflect.Value, prefix string)
	walk = func(v reflect.Value, prefix string) {
		for name, field := range fields(v) {
			switch field.Kind() {
			case reflect.Struct:
				walk(field, prefix+name+".")
			case reflect.Slice:
			default:
				all = append(all, setting{prefix + name, field})
			}
		}
	}
	walk(reflect.ValueOf(c).Elem(), "")
	return all
}

// fields skips fields without a key.
func fields(v reflect.Value) iter.Seq2[string, reflect.Value] {
	return func(yield func(string, reflect.Value) bool) {
		for _, f := range reflect.VisibleFields(v.Type()) {
			if key := f.Tag.Get("yaml"); key != "" && !f.Anonymous && !yield(key, v.FieldByIndex(f.Index)) {
				return
			}
		}
	}
}

// isProviderFile reports whether a document is the YAML file of a provider. Inventories also have
// the key provider, but there its value is no mapping.
func isProviderFile(doc *yaml.Node) bool {
	var top struct{ Provider, Instance yaml.Node }
	return doc.Decode(&top) == nil && (top.Provider.Kind == yaml.MappingNode || top.Instance.Kind != 0)
}

// IsInventory reports whether a document has a key of inventories.
func IsInventory(doc *yaml.Node) bool {
	var top struct {
		Components  yaml.Node
		SliverTypes yaml.Node `yaml:"sliver_types"`
	}
	return doc.Decode(&top) == nil && (top.Components.Kind != 0 || top.SliverTypes.Kind != 0)
}

// IsConfig reports whether a document has a key of configurations.
func IsConfig(doc *yaml.Node) bool {
	var top map[string]yaml.Node
	if doc.Decode(&top) != nil {
		return false
	}
	for key := range fields(reflect.ValueOf(&Config{}).Elem()) {
		if _, ok := top[key]; ok {
			return true
		}
	}
	return false
}

//go:embed patchbay.yaml
var configTemplateText string

var configTemplate = template.Must(template.New(ConfigName).Delims("[[", "]]").Parse(configTemplateText))

// ConfigText returns the patchbay.yaml of a new site. serve means that the site serves its trial
// authority.
func ConfigText(authority, listen, publicURL string, serve bool) []byte {
	var b bytes.Buffer
	if err := configTemplate.Execute(&b, map[string]any{
		"Authority": yamlString(authority), "Listen": yamlString(listen), "PublicURL": yamlString(publicURL), "Serve": serve,
	}); err != nil {
		panic(err) // the template is a constant
	}
	return b.Bytes()
}

// yamlString quotes s if YAML needs quotes. s must have no control characters.
func yamlString(s string) string {
	if s == "" || strings.ContainsAny(s, ":#{}[],&*?|<>=!%@`'\" \\") || strings.Trim(s, "0123456789.-_") == "" {
		return fmt.Sprintf("%q", s)
	}
	return s
}
