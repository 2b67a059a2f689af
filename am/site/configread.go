package site

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/viper"
	"go.yaml.in/yaml/v3"

	"patchbay/am/display"
	"patchbay/inventory/suggest"
)

// ReadConfig reads a site's configuration from file and environment, puts in
// the defaults and validates it. Errors name file and line, or the variable,
// and say what to do.
func ReadConfig(file string) (*Config, error) {
	text, err := readConfigFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &ConfigError{Where: file, Msg: "there is no such file; name the site's with --config, or make a site with: " + display.Command("init", "DIR")}
	}
	if err != nil {
		return nil, &ConfigError{Where: file, Msg: fmt.Sprintf("cannot be read: %v", err)}
	}
	file, err = filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	return ParseConfig(file, text)
}

// maxConfig is the length of a configuration in bytes, at most.
const maxConfig = 1 << 20

func readConfigFile(file string) ([]byte, error) {
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

func ParseConfig(file string, text []byte) (*Config, error) {
	o := origin{File: file, lines: make(map[string]int)}
	if err := checkEnvironment(os.Environ()); err != nil {
		return nil, err
	}
	if err := o.checkKeys(text); err != nil {
		return nil, err
	}
	v := viper.New() // folds case and splits at dots: our keys have neither
	v.SetConfigType("yaml")
	if err := v.ReadConfig(bytes.NewReader(text)); err != nil {
		return nil, &ConfigError{Where: file, Msg: err.Error()}
	}
	for _, key := range leaves(reflect.TypeFor[Config](), "") {
		if err := v.BindEnv(key, envName(key)); err != nil { // Unmarshal sees no variable that is not bound
			return nil, err
		}
	}
	c := DefaultConfig()
	c.Origin = o
	err := v.UnmarshalExact(&c, viper.DecodeHook(decodeText))
	if err != nil {
		return nil, o.explain(err)
	}
	c.resolve(filepath.Dir(file))
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &c, nil
}

// decodeText reads times, with a unit only, for a bare number would be
// nanoseconds, and whole numbers, also as sizes.
func decodeText(from, to reflect.Type, data any) (any, error) {
	switch {
	case to == reflect.TypeFor[time.Duration]():
		return display.ParseDuration(fmt.Sprint(data))
	case from.Kind() == reflect.String && (to.Kind() == reflect.Int || to.Kind() == reflect.Int64):
		return parseSize(fmt.Sprint(data))
	}
	return data, nil
}

// parseSize reads a whole number, and 64K, 16M and 1G.
func parseSize(s string) (int64, error) {
	digits, shift := strings.TrimSpace(s), 0
	if digits != "" {
		if i := strings.IndexByte("KMG", digits[len(digits)-1]); i >= 0 {
			digits, shift = digits[:len(digits)-1], 10*(i+1)
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > math.MaxInt64>>shift || n < math.MinInt64>>shift {
		return 0, fmt.Errorf("%q is not a whole number, nor a size like 64K, 16M or 1G", s)
	}
	return n << shift, nil
}

// otherVariables are those that stand for no key.
var otherVariables = []string{"PATCHBAY_CONFIG", "PATCHBAY_URL", "PATCHBAY_CORPUS", "PATCHBAY_REQUIRE", "PATCHBAY_SOAK", "PATCHBAY_LONG"}

// removedKeys are the keys that earlier versions had, with what holds now.
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

// checkEnvironment names the variables that look like a misspelt key. Others
// with our prefix may be somebody else's, and are left alone.
func checkEnvironment(environ []string) error {
	lists := map[string]string{"KEYS": "certificates", "HOOKS": "hooks"}
	known := slices.Sorted(maps.Keys(lists))
	removed := map[string]string{}
	for key, value := range removedKeys {
		removed[envName(key)] = value
	}
	for _, name := range otherVariables {
		known = append(known, strings.TrimPrefix(name, EnvPrefix))
	}
	for _, key := range leaves(reflect.TypeFor[Config](), "") {
		known = append(known, strings.TrimPrefix(envName(key), EnvPrefix))
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
			msg = "this is no longer a setting: it is always " + value + "; take the variable out"
		} else if near := suggest.Word(key, known); near != "" && !slices.Contains(known, key) {
			msg = "this variable stands for no key; did you mean " + EnvPrefix + near + "?"
		}
		if msg != "" {
			errs = append(errs, &ConfigError{Where: "environment " + name, Msg: msg})
		}
	}
	return errors.Join(errs...)
}

// inLists spells the keys of list entries as origin does: hooks.0 for hooks[0].
var inLists = strings.NewReplacer("[", ".", "]", "")

// explain turns the decoder's error into ours.
func (o origin) explain(err error) error {
	var all []error
	var walk func(error)
	walk = func(err error) {
		if many, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range many.Unwrap() {
				walk(e)
			}
			return
		}
		if d, ok := errors.AsType[*mapstructure.DecodeError](err); ok {
			all = append(all, o.wrong(inLists.Replace(d.Name()), "%v", d.Unwrap()))
			return
		}
		if e := errors.Unwrap(err); e != nil {
			walk(e)
			return
		}
		all = append(all, &ConfigError{Where: o.File, Msg: err.Error()})
	}
	walk(err)
	return errors.Join(all...)
}

// checkKeys notes the line of every key and names those that mean nothing. An
// empty file has no keys.
func (o origin) checkKeys(text []byte) error {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return &ConfigError{Where: o.File, Msg: "this is not YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")}
	}
	if len(doc.Content) == 0 {
		return nil
	}
	if isProviderFile(&doc) {
		return &ConfigError{Where: o.File, Msg: "these are a provider's metadata and settings, not a configuration; name the site's " + ConfigName}
	}
	if IsInventory(&doc) {
		return &ConfigError{Where: o.File, Msg: "this is an inventory, not a configuration; name the site's " + ConfigName}
	}
	var errs []error
	o.walk(doc.Content[0], reflect.TypeFor[Config](), "", &errs)
	return errors.Join(errs...)
}

func (o origin) walk(n *yaml.Node, t reflect.Type, prefix string, errs *[]error) {
	wrong := func(n *yaml.Node, format string, args ...any) {
		*errs = append(*errs, &ConfigError{Where: fmt.Sprintf("%s:%d", o.File, n.Line), Msg: fmt.Sprintf(format, args...)})
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch {
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		if n.Kind != yaml.SequenceNode {
			wrong(n, "%s is a list; each entry begins with a dash", strings.TrimSuffix(prefix, "."))
			return
		}
		for i, item := range n.Content {
			o.walk(item, t.Elem(), prefix, errs)
			o.lines[fmt.Sprintf("%s%d", prefix, i)] = item.Line
		}
		return
	case t.Kind() != reflect.Struct:
		return
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return
	}
	if n.Kind != yaml.MappingNode {
		wrong(n, "%s needs keys below it: %s", strings.TrimSuffix(prefix, "."), strings.Join(fieldNames(t), ", "))
		return
	}
	seen := make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		f, ok := fieldNamed(t, key.Value)
		switch {
		case !ok && removedKeys[prefix+key.Value] != "":
			wrong(key, "%s is no longer a setting: it is always %s; take it out", prefix+key.Value, removedKeys[prefix+key.Value])
			continue
		case !ok:
			names := slices.Sorted(slices.Values(fieldNames(t)))
			hint := "known here: " + strings.Join(names, ", ")
			if near := suggest.Word(key.Value, names); near != "" {
				hint = "did you mean " + prefix + near + "?"
			} else if there := namesake(key.Value); there != "" {
				hint = "did you mean " + there + "?"
			}
			wrong(key, "unknown key %s%s; %s", prefix, key.Value, hint)
			continue
		case seen[key.Value]:
			wrong(key, "%s%s is given twice", prefix, key.Value)
		}
		seen[key.Value] = true
		o.lines[prefix+key.Value] = key.Line
		o.walk(value, f.Type, prefix+key.Value+".", errs)
	}
}

// namesake is the key of another section that is called so; "" if there is none, or
// more than one.
func namesake(name string) (found string) {
	for _, key := range leaves(reflect.TypeFor[Config](), "") {
		if !strings.HasSuffix(key, "."+name) {
			continue
		}
		if found != "" {
			return ""
		}
		found = key
	}
	return found
}

// leaves are the keys that hold a single value.
func leaves(t reflect.Type, prefix string) []string {
	var list []string
	for f := range fields(t) {
		key := prefix + f.Tag.Get("mapstructure")
		switch f.Type.Kind() {
		case reflect.Struct:
			list = append(list, leaves(f.Type, key+".")...)
		case reflect.Slice: // of pairs: one variable cannot hold it
		default:
			list = append(list, key)
		}
	}
	return list
}

func fields(t reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for _, f := range reflect.VisibleFields(t) {
			if f.Tag.Get("mapstructure") != "" && !f.Anonymous && !yield(f) {
				return
			}
		}
	}
}

func fieldNamed(t reflect.Type, key string) (reflect.StructField, bool) {
	for f := range fields(t) {
		if f.Tag.Get("mapstructure") == key {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

func fieldNames(t reflect.Type) []string {
	var names []string
	for f := range fields(t) {
		names = append(names, f.Tag.Get("mapstructure"))
	}
	return names
}

// isProviderFile tells the file beside a provider by its metadata; in an
// inventory, provider is a name.
func isProviderFile(doc *yaml.Node) bool {
	var top struct{ Provider, Instance yaml.Node }
	return doc.Decode(&top) == nil && (top.Provider.Kind == yaml.MappingNode || top.Instance.Kind != 0)
}

// IsInventory tells an inventory from a configuration, which has other keys.
func IsInventory(doc *yaml.Node) bool {
	var top struct {
		Components  yaml.Node
		SliverTypes yaml.Node `yaml:"sliver_types"`
	}
	return doc.Decode(&top) == nil && (top.Components.Kind != 0 || top.SliverTypes.Kind != 0)
}
