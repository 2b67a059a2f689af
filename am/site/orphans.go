package site

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"patchbay/am"
	"patchbay/am/display"
	"patchbay/inventory/provider"
)

// orphans are slivers of a provider that is missing or cannot be used: nobody can
// look after them, nor take them away.
type orphans struct {
	Provider string
	Slivers  int
	Slice    string // of the first
	Slices   int
	Why      string // and what to do about it
}

func (o orphans) String() string {
	of := o.Slice
	if o.Slices > 1 {
		of += " and " + display.Count(o.Slices-1, "more slice")
	}
	return fmt.Sprintf("the provider %s has made %s of %s, which can be neither looked after nor removed: %s", o.Provider, display.Count(o.Slivers, "sliver"), of, o.Why)
}

// findOrphans finds them, in the order of their providers' names. usable tells what is
// wrong with a provider.
func findOrphans(slivers []am.Sliver, usable func(name string) error) (found []orphans) {
	type made struct {
		slivers int
		slices  map[string]bool
	}
	by := make(map[string]*made)
	for i := range slivers {
		x := &slivers[i]
		if x.Provider == "" { // as old records have it
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
			found = append(found, orphans{name, m.slivers, slices.Min(slices.Collect(maps.Keys(m.slices))), len(m.slices), err.Error()})
		}
	}
	return found
}

// usable tells what is wrong with a provider: one that is open may have lost its file.
func (s *ProviderSet) usable(name string) error {
	p, err := s.open(name)
	if err == nil {
		_, err = os.Stat(p.Path)
	}
	return Unusable(s.dir, name, err)
}

// Unusable is an error of a provider in the folder dir with what to do about it.
func Unusable(dir, name string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s is not there; put it back until its slivers are gone", filepath.Join(dir, filepath.Base(name)+provider.Suffix))
	}
	return fmt.Errorf("%w; mend it, for its slivers need it", err)
}
