package main

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"patchbay/am/work"
	"patchbay/inventory"
	"patchbay/inventory/provider"
)

// providerSet is the providers of a site by name. One that is missing is
// looked for again whenever it is asked for.
type providerSet struct {
	dir   string
	log   *slog.Logger
	mu    sync.Mutex // guards found
	found map[string]*provider.Provider
}

// loadProviders opens the folder's providers. Every provider that the inventory
// names must be there; others may be broken, which is logged.
func loadProviders(dir string, inv *inventory.Inventory, log *slog.Logger) (*providerSet, error) {
	found, problems := provider.Load(dir)
	missing := missingProviders(found, inv)
	if len(missing) > 0 {
		return nil, errors.Join(append(missing, problems...)...)
	}
	for _, p := range problems {
		log.Warn("a provider is passed over", "error", p)
	}
	for _, p := range found {
		p.Log = log
	}
	return &providerSet{dir: dir, log: log, found: found}, nil
}

// missingProviders has an error for each provider that components name but
// nobody found.
func missingProviders(found map[string]*provider.Provider, inv *inventory.Inventory) []error {
	uses := make(map[string][]string)
	for _, c := range inv.Components {
		if found[c.Provider] == nil {
			uses[c.Provider] = append(uses[c.Provider], c.Name)
		}
	}
	var missing []error
	for _, name := range slices.Sorted(maps.Keys(uses)) {
		have := "there is none in the folder"
		if len(found) > 0 {
			have = "there are: " + strings.Join(slices.Sorted(maps.Keys(found)), ", ")
		}
		missing = append(missing, fmt.Errorf("the inventory names a provider %q, for component %s and %d more, that is not to be had; %s",
			name, uses[name][0], len(uses[name])-1, have))
	}
	return missing
}

func (s *providerSet) get(name string) (work.Provider, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.found[name]; p != nil {
		return work.Executable(p), nil
	}
	if name == "" || name != filepath.Base(name) {
		return nil, fmt.Errorf("there is no provider %q", name)
	}
	p, err := provider.Open(filepath.Join(s.dir, name+provider.Suffix), s.log)
	if err != nil {
		return nil, err
	}
	s.found[name] = p
	return work.Executable(p), nil
}
