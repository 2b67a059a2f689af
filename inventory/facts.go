package inventory

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"patchbay/rspec/match"
	"patchbay/schemas/yamlfile"
)

// FactsSuffix is the suffix of the file in which a provider states facts.
const FactsSuffix = ".facts.yaml"

// maxFacts is in bytes.
const maxFacts = 1 << 20

// Facts are what a provider has found out about its images and components: items such as
// "cpu.arch=x86_64", by the name of the image or component.
type Facts struct {
	Images     map[string][]string `yaml:"images,omitempty"`
	Components map[string][]string `yaml:"components,omitempty"`
}

// FactsText returns the text of a file of facts.
func FactsText(f Facts) []byte {
	text, err := yaml.Marshal(f)
	if err != nil {
		panic(err) // cannot happen: maps of strings
	}
	return append([]byte("# The provider has found this out, and writes this file again when it changes. Do not edit\n# it: state other values in inventory.yaml, under capabilities, which comes first.\n"), text...)
}

// ReadFacts reads the facts of all providers in the folder dir, by the provider's name. A file that
// cannot be read has no facts, and malformed items do not count. The errors name the file.
func ReadFacts(dir string) (map[string]Facts, error) {
	all := map[string]Facts{}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	errs := []error{err}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), FactsSuffix)
		if !ok {
			continue
		}
		file := filepath.Join(dir, e.Name())
		text, err := yamlfile.Load(file, maxFacts)
		var f Facts
		if err == nil {
			if err = yaml.Unmarshal(text, &f); err != nil {
				err = fmt.Errorf("%s: it is not a file of facts: %w; remove it: the provider writes it again", file, err)
			}
		}
		for _, part := range []map[string][]string{f.Images, f.Components} {
			for _, of := range slices.Sorted(maps.Keys(part)) {
				if _, _, wrong := match.ParseItems(part[of]); wrong != nil && err == nil {
					err = fmt.Errorf("%s: %.80q: %w; this fact is ignored", file, of, wrong)
				}
			}
		}
		errs = append(errs, err)
		all[name] = f
	}
	return all, errors.Join(errs...)
}

// HasFacts reports whether v was made with these facts.
func (v *Inventory) HasFacts(facts map[string]Facts) bool {
	return len(v.facts) == 0 && len(facts) == 0 || reflect.DeepEqual(v.facts, facts)
}

// ContradictedFacts returns the facts that the inventory file overrides with other values, as
// sentences. v has the facts.
func (v *Inventory) ContradictedFacts() (all []string) {
	compare := func(kind, name string, stated map[string]match.Capability, items []string) {
		found, _, _ := match.ParseItems(items)
		for _, feature := range slices.Sorted(maps.Keys(found)) {
			if is, ok := stated[feature]; ok && is.String() != found[feature].String() {
				all = append(all, fmt.Sprintf("%s %s has %s %s in the inventory, but its provider has found %s", kind, name, feature, is, found[feature]))
			}
		}
	}
	for _, provider := range slices.Sorted(maps.Keys(v.facts)) {
		for _, i := range v.Images {
			compare("image", i.Name, i.Capabilities, v.facts[provider].Images[i.Name])
		}
		for _, c := range v.Components {
			if c.Provider == provider {
				compare("component", c.Name, c.Capabilities, v.facts[provider].Components[c.Name])
			}
		}
	}
	return all
}

// addFacts adds the facts of providers that components name. What the inventory file states comes
// first. A feature of an image about which providers differ is left out. The components and images
// of v must be its own.
func (v *Inventory) addFacts(facts map[string]Facts) {
	used := map[string]bool{}
	for _, c := range v.Components {
		used[c.Provider] = true
		if items := facts[c.Provider].Components[c.Name]; len(items) > 0 {
			c.Capabilities = withItems(c.Capabilities, items)
		}
	}
	for _, i := range v.Images {
		var common []string
		first := true
		for _, name := range slices.Sorted(maps.Keys(used)) {
			items, ok := facts[name].Images[i.Name]
			switch {
			case !ok:
			case first:
				common, first = items, false
			default:
				common = slices.DeleteFunc(slices.Clone(common), func(s string) bool { return !slices.Contains(items, s) })
			}
		}
		common = slices.DeleteFunc(slices.Clone(common), func(s string) bool {
			feature, _, _ := strings.Cut(s, "=")
			return IsConsumable(feature) // counted on components
		})
		if len(common) > 0 {
			i.Capabilities = withItems(i.Capabilities, common)
		}
	}
}

// withItems returns the capabilities with those items whose feature they do not have.
func withItems(capabilities map[string]match.Capability, items []string) map[string]match.Capability {
	all, _, _ := match.ParseItems(items) // malformed items are left out
	maps.Copy(all, capabilities)
	return all
}
