package site

import (
	"bytes"
	"cmp"
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

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/viper"
	"go.yaml.in/yaml/v3"

	"patchbay/am/display"
	"patchbay/am/file"
	"patchbay/schemas/yamlfile"
)

// cannotRead names the users that may read the file, if this user may not.
func cannotRead(path string, err error) error {
	msg := fmt.Sprintf("cannot be read: %v", err)
	if uid, _, err2 := file.OwnerOf(filepath.Dir(path)); err2 == nil && errors.Is(err, fs.ErrPermission) {
		name := fmt.Sprintf("the user %d", uid)
		if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
			name = u.Username
		}
		if uid != 0 {
			name += " and root"
		}
		msg += "; only " + name + " may read it: name another site with --config, or put sudo before the command"
	}
	return &ConfigError{Where: path, Msg: msg}
}

// ReadConfig reads a site's configuration from its file and the environment. It adds the defaults
// and validates all values. An error names the place of the mistake, and the remedy.
func ReadConfig(file string) (*Config, error) { return readConfig(file, ParseConfig) }

// ReadConfigFile does what ReadConfig does, without environment variables.
func ReadConfigFile(file string) (*Config, error) {
	return readConfig(file, func(file string, text []byte) (*Config, error) { return parseConfig(file, text, false) })
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
	return parseConfig(file, text, true)
}

// parseConfig reads the configuration from, in order of precedence, the environment if
// useEnvironment is true, the text, and the defaults. It returns at most maxMistakes mistakes of
// form and content.
func parseConfig(file string, text []byte, useEnvironment bool) (*Config, error) {
	c := DefaultConfig()
	c.Origin = origin{File: file, lines: make(map[string]int), variables: make(map[string]bool)}
	v := viper.New()
	v.SetConfigType("yaml")
	if useEnvironment {
		if err := c.Origin.checkEnvironment(os.Environ()); err != nil {
			return nil, err
		}
		v.SetEnvPrefix(strings.TrimSuffix(EnvPrefix, "_"))
		v.SetEnvKeyReplacer(strings.NewReplacer(".", "_"))
		v.AutomaticEnv()
	}
	for _, s := range settings(&c) {
		if s.isSingle() {
			v.SetDefault(s.key, s.value.Interface())
			c.Origin.variables[s.key] = useEnvironment && os.Getenv(envName(s.key)) != ""
		}
	}
	formErr := c.Origin.merge(v, text)
	if n := len(c.Origin.lines); formErr != nil && (n == 0 || n > maxValues) {
		return nil, formErr // there is nothing to read, or too much
	}
	errs := unjoined(formErr)
	for _, err := range unjoined(v.Unmarshal(&c, func(d *mapstructure.DecoderConfig) {
		d.TagName, d.Squash, d.WeaklyTypedInput, d.DecodeHook = "yaml", true, false, decodeText
	})) {
		if e, ok := errors.AsType[*mapstructure.DecodeError](err); ok {
			err = c.Origin.errorf(e.Name(), "%v", e.Unwrap())
		}
		errs = append(errs, err)
	}
	c.resolve(filepath.Dir(file))
	errs = append(errs, withoutRepeats(c.Validate(), errs)...)
	if err := errors.Join(errs[:min(len(errs), maxMistakes)]...); err != nil {
		return nil, err
	}
	return &c, nil
}

// unjoined returns the errors that errors.Join has joined to err.
func unjoined(err error) (list []error) {
	many, ok := err.(interface{ Unwrap() []error })
	if err == nil || !ok {
		return slices.DeleteFunc([]error{err}, func(err error) bool { return err == nil })
	}
	for _, e := range many.Unwrap() {
		list = append(list, unjoined(e)...)
	}
	return list
}

// withoutRepeats returns the errors that err joins, except those about the place of an earlier
// error. A value that cannot be parsed needs no second error.
func withoutRepeats(err error, earlier []error) []error {
	at := map[string]bool{}
	for _, e := range earlier {
		if x, ok := errors.AsType[*ConfigError](e); ok {
			at[x.Where] = true
		}
	}
	return slices.DeleteFunc(unjoined(err), func(e error) bool {
		x, ok := errors.AsType[*ConfigError](e)
		return ok && at[x.Where]
	})
}

// decodeText is a decode hook that reads values as operators write them. A list of texts may be a
// single text. Durations other than 0 need a unit, because a bare number would mean nanoseconds. Whole numbers may
// be sizes such as 64K. A text that YAML reads as a number is refused, because 1.10 would become 1.1.
func decodeText(from, to reflect.Type, data any) (any, error) {
	if from == to || from.Kind() == reflect.Map || from.Kind() == reflect.Slice {
		return data, nil
	}
	text := fmt.Sprint(data)
	switch {
	case to.Kind() == reflect.Slice:
		return []any{data}, nil
	case to.Kind() == reflect.String:
		return nil, fmt.Errorf("%s is not a text in YAML; write it in quotes", text)
	case to == reflect.TypeFor[time.Duration]() && text == "0":
		return time.Duration(0), nil
	case to == reflect.TypeFor[time.Duration]():
		return display.ParseDuration(text)
	case to.Kind() != reflect.Bool:
		return parseSize(text)
	case text == "yes" || text == "no":
		return text == "yes", nil
	}
	is, err := strconv.ParseBool(text)
	if err != nil {
		return nil, fmt.Errorf("%q is neither yes nor no", text)
	}
	return is, nil
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

// checkEnvironment returns an error for each PATCHBAY_ variable whose key is misspelt, a list or a
// section. It ignores other PATCHBAY_ variables, because other programs may use them.
func (o origin) checkEnvironment(environ []string) error {
	var known []string
	inFile := map[string]string{} // the keys that no variable sets
	for _, name := range otherVariables {
		known = append(known, strings.TrimPrefix(name, EnvPrefix))
	}
	for _, s := range settings(&Config{}) {
		if name := envName(s.key); s.isSingle() {
			known = append(known, strings.TrimPrefix(name, EnvPrefix))
		} else {
			inFile[name] = s.key
		}
	}
	var errs []error
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if key, ours := strings.CutPrefix(name, EnvPrefix); !ours || slices.Contains(known, key) {
			continue
		} else if i := slices.IndexFunc(known, func(k string) bool { return strings.HasPrefix(k, key+"_") }); inFile[name] != "" && i >= 0 {
			errs = append(errs, &ConfigError{Where: "environment " + name, Msg: inFile[name] + " is a section; set a key of it, such as " + EnvPrefix + known[i] + ", or write it in " + cmp.Or(o.File, ConfigName)})
		} else if inFile[name] != "" {
			errs = append(errs, &ConfigError{Where: "environment " + name, Msg: "the values of " + inFile[name] + " can be set in " + cmp.Or(o.File, ConfigName) + " only; write them there, and remove the variable"})
		} else if near := display.Suggest(key, known); near != "" {
			errs = append(errs, &ConfigError{Where: "environment " + name, Msg: "this variable sets no key; did you mean " + EnvPrefix + near + "?"})
		}
	}
	return errors.Join(errs...)
}

// maxValues and maxMistakes limit the work for one file. Aliases can make a small file large, and
// the libraries need time in the square of the number of keys.
const (
	maxValues   = 100_000
	maxMistakes = 100
)

// merge adds the text of the file to v, and records the line of each key. It returns all mistakes
// in the form of the text, without reading the values. Only a text with known keys reaches viper,
// which would ignore the others, and case, and the dots in keys.
func (o origin) merge(v *viper.Viper, text []byte) error {
	r := &yamlfile.Reader{File: o.File}
	doc := r.Document(text)
	switch {
	case doc == nil:
		return configError(r.Err())
	case isProviderFile(doc):
		return &ConfigError{Where: o.File, Msg: "these are a provider's metadata and settings, not a configuration; name the site's " + ConfigName}
	case HasKey(doc, "components", "sliver_types"):
		return &ConfigError{Where: o.File, Msg: "this is an inventory, not a configuration; name the site's " + ConfigName}
	}
	if o.walk(doc.Content[0], reflect.ValueOf(&Config{}).Elem(), "", r); len(o.lines) > maxValues {
		return &ConfigError{Where: o.File, Msg: fmt.Sprintf("it has more than %d values, or its aliases (*NAME) expand to so many; leave some out", maxValues)}
	}
	mistakes := r.Mistakes()
	if mistakes > 0 { // the values of the other keys are read nevertheless
		text, _ = yaml.Marshal(doc)
	}
	if err := v.MergeConfig(bytes.NewReader(text)); err != nil {
		clear(o.lines) // no value is read
		r.Wrong(nil, "this cannot be read: %v", errors.Unwrap(err))
	}
	return configError(r.Err())
}

// configError returns the mistakes of a yamlfile.Reader as errors of this package.
func configError(err error) error {
	e, ok := errors.AsType[*yamlfile.Error](err)
	if !ok {
		return err
	}
	var errs []error
	for _, p := range e.Problems {
		where := p.File
		if p.Line > 0 {
			where = fmt.Sprintf("%s:%d", p.File, p.Line)
		}
		errs = append(errs, &ConfigError{Where: where, Msg: p.Msg})
	}
	return errors.Join(errs...)
}

// walk records the lines of the keys below n, reports mistakes in their form, and removes keys
// with mistakes. v has the type of the value of n, and key is its full key; "" for the root. It
// returns false if the key of n must be removed: n has a mistake, or is a list with one.
func (o origin) walk(n *yaml.Node, v reflect.Value, key string, r *yamlfile.Reader) bool {
	n = yamlfile.Deref(n)
	mistakes := r.Mistakes()
	if n.Kind == yaml.ScalarNode {
		var value any
		if n.Decode(&value) != nil {
			r.Wrong(n, "%s: the value does not fit its tag %s; leave the tag out", withoutIndexes(key), n.ShortTag())
			return false
		}
	}
	switch isList := v.Kind() == reflect.Slice; {
	case isList && n.Kind != yaml.SequenceNode && (n.Kind == yaml.MappingNode || v.Type().Elem().Kind() == reflect.Struct):
		r.Wrong(n, "%s is a list; each entry begins with a dash", withoutIndexes(key))
	case yamlfile.IsNull(n): // keeps the default
	case isList:
		for i, item := range n.Content {
			if o.isTooMuch(r) {
				return true
			}
			at := fmt.Sprintf("%s[%d]", key, i)
			o.lines[at] = item.Line
			o.walk(item, reflect.Zero(v.Type().Elem()), at, r)
		}
	case v.Kind() == reflect.Struct && n.Kind == yaml.MappingNode:
		o.walkKeys(n, v, key, r)
		return true
	case v.Kind() == reflect.Struct:
		var names []string
		for name := range fields(v) {
			names = append(names, name)
		}
		r.Wrong(n, "%s needs keys below it: %s", cmp.Or(withoutIndexes(key), "the file"), strings.Join(names, ", "))
	case n.Kind != yaml.ScalarNode:
		r.Wrong(n, "%s: it must be a single value", withoutIndexes(key))
	}
	return r.Mistakes() == mistakes
}

func (o origin) isTooMuch(r *yamlfile.Reader) bool {
	return len(o.lines) > maxValues || r.Mistakes() >= maxMistakes
}

func (o origin) walkKeys(n *yaml.Node, v reflect.Value, prefix string, r *yamlfile.Reader) {
	known := maps.Collect(fields(v))
	var kept []*yaml.Node
	if prefix != "" {
		prefix += "."
	}
	for i := 0; i+1 < len(n.Content) && !o.isTooMuch(r); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		full := prefix + key.Value
		if !r.Key(key, cmp.Or(withoutIndexes(strings.TrimSuffix(prefix, ".")), "the file")) {
			continue
		}
		if field, ok := known[key.Value]; !ok {
			names := slices.Sorted(maps.Keys(known))
			hint := "known here: " + strings.Join(names, ", ")
			if near := display.Suggest(key.Value, names); near != "" {
				hint = "did you mean " + withoutIndexes(prefix) + near + "?"
			} else if there := namesake(key.Value); there != "" {
				hint = "did you mean " + there + "?"
			}
			r.Wrong(key, "unknown key %.100s; %s", withoutIndexes(full), hint)
		} else if o.lines[full] > 0 {
			r.Wrong(key, "%s is given twice, first in line %d", withoutIndexes(full), o.lines[full])
		} else if key.ShortTag() != "!!str" {
			r.Wrong(key, "the key %s has the tag %s; leave the tag out", withoutIndexes(full), key.ShortTag())
		} else if o.lines[full] = key.Line; o.walk(value, field, full, r) {
			kept = append(kept, key, value)
		}
	}
	n.Content = kept
}

// namesake returns the full key of a single value whose last part is name; "" for none or several.
func namesake(name string) (found string) {
	for _, s := range settings(&Config{}) {
		if !s.isSingle() || !strings.HasSuffix(s.key, "."+name) {
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

// isSingle reports whether the setting is a single value, which a variable can set. Others are
// lists and sections.
func (s setting) isSingle() bool {
	return s.value.Kind() != reflect.Slice && s.value.Kind() != reflect.Struct
}

// settings returns all keys, except those in the entries of lists.
func settings(c *Config) (all []setting) {
	var walk func(v reflect.Value, prefix string)
	walk = func(v reflect.Value, prefix string) {
		for name, field := range fields(v) {
			all = append(all, setting{prefix + name, field})
			if field.Kind() == reflect.Struct {
				walk(field, prefix+name+".")
			}
		}
	}
	walk(reflect.ValueOf(c).Elem(), "")
	return all
}

// fields returns the fields of a struct by their keys. It skips fields without a key.
func fields(v reflect.Value) iter.Seq2[string, reflect.Value] {
	return func(yield func(string, reflect.Value) bool) {
		for _, f := range reflect.VisibleFields(v.Type()) {
			if key := f.Tag.Get("yaml"); key != "" && !f.Anonymous && !yield(key, v.FieldByIndex(f.Index)) {
				return
			}
		}
	}
}

// topLevel returns the kinds of the values of a document's keys. It does not use Node.Decode, which
// needs time in the square of the number of keys.
func topLevel(doc *yaml.Node) map[string]yaml.Kind {
	kinds := map[string]yaml.Kind{}
	for _, top := range doc.Content {
		for i := 0; top.Kind == yaml.MappingNode && i+1 < len(top.Content); i += 2 {
			kinds[top.Content[i].Value] = yamlfile.Deref(top.Content[i+1]).Kind
		}
	}
	return kinds
}

// isProviderFile reports whether a document is the YAML file of a provider. Inventories also have
// the key provider, but there its value is no mapping.
func isProviderFile(doc *yaml.Node) bool {
	top := topLevel(doc)
	return top["provider"] == yaml.MappingNode || top["instance"] != 0
}

// HasKey reports whether a document has one of the keys.
func HasKey(doc *yaml.Node, keys ...string) bool {
	top := topLevel(doc)
	return slices.ContainsFunc(keys, func(key string) bool { return top[key] != 0 })
}

// IsConfig reports whether a document has a key of configurations.
func IsConfig(doc *yaml.Node) bool {
	top := topLevel(doc)
	for key := range fields(reflect.ValueOf(&Config{}).Elem()) {
		if top[key] != 0 {
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
	var v any
	if strings.ContainsAny(s, ":#{}[],&*?|<>=!%@`'\" \\") || yaml.Unmarshal([]byte(s), &v) != nil || v != any(s) {
		return fmt.Sprintf("%q", s)
	}
	return s
}
