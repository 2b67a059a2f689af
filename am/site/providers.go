package site

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"

	"patchbay/am"
	"patchbay/am/display"
	"patchbay/am/server"
	"patchbay/am/service/dryrun"
	"patchbay/am/work"
	"patchbay/inventory"
	"patchbay/inventory/provider"
)

// ProviderSet holds the open providers of a site by name. A missing provider is opened when it
// is first used, so an operator can add a provider while the site is served.
type ProviderSet struct {
	dir     string
	log     *slog.Logger
	calls   *server.Durations
	failed  callFailures
	opening sync.Mutex // held while a provider is opened, which may take seconds
	mu      sync.Mutex // guards Found
	Found   map[string]*provider.Provider
}

// loadProviders opens the providers in the folder dir. It fails if a provider that the inventory
// names is missing or broken. It logs the errors of other providers.
func loadProviders(dir string, inv *inventory.Inventory, inventoryFile string, log *slog.Logger) (*ProviderSet, error) {
	found, problems := provider.Load(dir, log)
	missing, broken := MissingProviders(dir, found, inv, inventoryFile)
	if len(missing) > 0 || broken {
		return nil, errors.Join(append(missing, problems...)...)
	}
	for _, p := range problems {
		log.Warn("a provider is ignored, because it cannot be opened", "error", p)
	}
	return newProviderSet(dir, found, log), nil
}

// newProviderSet returns the providers found, which may be nil.
func newProviderSet(dir string, found map[string]*provider.Provider, log *slog.Logger) *ProviderSet {
	if found == nil {
		found = make(map[string]*provider.Provider)
	}
	s := &ProviderSet{dir: dir, log: log, Found: found, calls: server.NewDurations("provider_call_duration_seconds", "Duration of the calls of providers that were not cancelled.", "provider", "action")}
	for _, p := range found {
		s.instrument(p)
	}
	return s
}

func (s *ProviderSet) instrument(p *provider.Provider) {
	p.Log = s.log
	s.failed.count(p.Name, "get", 0)
	s.failed.count(p.Name, "set", 0)
	p.Ended = func(action string, took time.Duration, err error) {
		s.calls.Observe(took, p.Name, action)
		if err != nil {
			s.failed.count(p.Name, action, 1)
		}
	}
}

// require opens the named providers that are not open yet. The error lists those that are missing
// or cannot be opened.
func (s *ProviderSet) require(inv *inventory.Inventory, inventoryFile string) error {
	var broken []error
	for _, name := range slices.Sorted(maps.Keys(providersOf(inv))) {
		if _, err := s.open(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			broken = append(broken, err)
		}
	}
	s.mu.Lock()
	found := maps.Clone(s.Found)
	s.mu.Unlock()
	missing, _ := MissingProviders(s.dir, found, inv, inventoryFile)
	return errors.Join(append(missing, broken...)...)
}

// cleaningTimes returns the cleaning times that open providers declare.
func (s *ProviderSet) cleaningTimes() map[string]time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	times := make(map[string]time.Duration)
	for name, p := range s.Found {
		times[name] = p.Cleaning
	}
	return times
}

// MissingProviders returns an error for each provider that a component names but that has no
// file in the folder dir. found holds the providers that were loaded from dir. broken reports
// whether a named provider has a file there but could not be loaded; provider.Load has returned
// the reason.
func MissingProviders(dir string, found map[string]*provider.Provider, inv *inventory.Inventory, inventoryFile string) (missing []error, broken bool) {
	uses := make(map[string][]string)
	for _, c := range inv.Components {
		if found[c.Provider] == nil {
			uses[c.Provider] = append(uses[c.Provider], c.Name)
		}
	}
	have := slices.Sorted(maps.Keys(found))
	for _, name := range slices.Sorted(maps.Keys(uses)) {
		file := filepath.Join(dir, name+provider.Suffix)
		if _, err := os.Lstat(file); err == nil && name == filepath.Base(name) {
			broken = true
			continue
		}
		hint := "put it there as " + file
		if near := display.Suggest(name, have); near != "" {
			hint = fmt.Sprintf("did you mean %s?", near)
		} else if len(have) > 0 {
			hint = "there are: " + strings.Join(have, ", ") + "; name one of them, or " + hint
		}
		components := "component " + uses[name][0]
		if more := len(uses[name]) - 1; more > 0 {
			components += fmt.Sprintf(" and %d more", more)
		}
		missing = append(missing, fmt.Errorf("%s: the provider %q, for %s, is not in the folder %s; %s", PlaceOf(inventoryFile, "provider", name), name, components, dir, hint))
	}
	return missing, broken
}

// PlaceOf returns FILE:LINE of a key of a YAML file, or, if value is not "", of the value, which may be
// the name of an entry of a list. It returns FILE if the line is unknown.
func PlaceOf(file, key, value string) string {
	var doc yaml.Node
	text, err := ReadRegular(file)
	if err != nil || yaml.Unmarshal(text, &doc) != nil || len(doc.Content) == 0 {
		return file
	}
	return display.Place(file, cmp.Or(lineOf(doc.Content[0], key, value), lineOf(doc.Content[0], key, "")))
}

// lineOf returns the line of a key of the mapping n, or of its value if value is not "". It returns
// 0 if there is none. It searches the nodes below n for values only.
func lineOf(n *yaml.Node, key, value string) int {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Value != key {
			continue
		}
		if value == "" || v.Value == value {
			return k.Line
		}
		for _, item := range v.Content {
			if item.Value == value || lineOf(item, "name", value) > 0 {
				return item.Line
			}
		}
	}
	for _, below := range n.Content {
		if value == "" {
			break
		}
		if line := lineOf(below, key, value); line > 0 {
			return line
		}
	}
	return 0
}

func (s *ProviderSet) get(name string) (work.Provider, error) {
	p, err := s.open(name)
	if err != nil {
		return nil, err
	}
	return work.Executable(p), nil
}

// DryRunProvider returns a provider that wants a dry run before a reservation. ok is false if the
// provider does not want a dry run, or is not open yet.
func (s *ProviderSet) DryRunProvider(name string) (_ dryrun.Provider, ok bool) {
	p := s.openProvider(name)
	if p == nil || !p.Probe || !p.Has(provider.AttrEnsure) {
		return nil, false
	}
	return p, true
}

// HasStages reports whether a provider carries out steps with stages and operations. It returns
// false if the provider is not open yet.
func (s *ProviderSet) HasStages(name string) bool {
	p := s.openProvider(name)
	return p != nil && p.Has(provider.AttrSetupStage)
}

// ChangesNodes reports whether a provider changes interfaces and steps of existing nodes. It returns
// false if the provider is not open yet.
func (s *ProviderSet) ChangesNodes(name string) bool {
	p := s.openProvider(name)
	return p != nil && p.Has(provider.AttrChangeSerial)
}

// openProvider returns nil if the provider is not open.
func (s *ProviderSet) openProvider(name string) *provider.Provider {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Found[name]
}

func (s *ProviderSet) open(name string) (*provider.Provider, error) {
	if p := s.openProvider(name); p != nil {
		return p, nil
	}
	s.opening.Lock()
	defer s.opening.Unlock()
	if p := s.openProvider(name); p != nil {
		return p, nil
	}
	if name == "" || name != filepath.Base(name) {
		return nil, fmt.Errorf("there is no provider %q", name)
	}
	p, err := provider.Open(filepath.Join(s.dir, name+provider.Suffix), s.log)
	if err != nil {
		return nil, err
	}
	s.instrument(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Found[name] = p
	return p, nil
}

// unmanagedSlivers counts the slivers of a provider that is missing or unusable. They can be
// neither watched nor removed.
type unmanagedSlivers struct {
	Provider string
	Slivers  int
	Slice    string // the first in alphabetical order
	Slices   int
	Why      string
}

func (o unmanagedSlivers) String() string {
	of := o.Slice
	if o.Slices > 1 {
		of += " and " + display.Count(o.Slices-1, "more slice")
	}
	return fmt.Sprintf("the provider %s has made %s of %s, which can be neither watched nor removed: %s", o.Provider, display.Count(o.Slivers, "sliver"), of, o.Why)
}

// findUnmanaged counts the slivers of unusable providers, sorted by provider. usable returns an
// error for an unusable provider.
func findUnmanaged(slivers []am.Sliver, usable func(name string) error) (found []unmanagedSlivers) {
	type made struct {
		slivers int
		slices  map[string]bool
	}
	by := make(map[string]*made)
	for i := range slivers {
		x := &slivers[i]
		if x.Provider == "" { // a record of an earlier version
			continue
		}
		if by[x.Provider] == nil {
			by[x.Provider] = &made{slices: make(map[string]bool)}
		}
		by[x.Provider].slivers++
		by[x.Provider].slices[x.Slice.String()] = true
	}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		if err := usable(name); err != nil {
			m := by[name]
			found = append(found, unmanagedSlivers{name, m.slivers, slices.Min(slices.Collect(maps.Keys(m.slices))), len(m.slices), err.Error()})
		}
	}
	return found
}

// checkUsable fails if a provider cannot be used. It also checks the file of an open provider,
// because an operator may have removed it.
func (s *ProviderSet) checkUsable(name string) error {
	p, err := s.open(name)
	if err == nil {
		_, err = os.Stat(p.Path)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s does not exist; restore it, and keep it until its slivers are removed", filepath.Join(s.dir, filepath.Base(name)+provider.Suffix))
	}
	return fmt.Errorf("%w; repair it, because its slivers need it", err)
}
