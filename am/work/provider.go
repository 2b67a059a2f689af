package work

import (
	"context"

	"patchbay/am"
	"patchbay/inventory/provider"
)

// Provider makes nodes real. Its methods may be called at the same time, and
// end soon after their context does. See provider.Provider for Get and Set.
type Provider interface {
	Get(ctx context.Context, names []string) (map[string]provider.Result, error)
	Set(ctx context.Context, u []provider.Update, noop bool) ([]provider.Change, error)
	// Parallel is how many sets may run at once.
	Parallel() int
	// Reports tells whether the attribute can be set and is shown by Get, so
	// that the two can be compared.
	Reports(attribute string) bool
}

// Executable is a loaded provider as the Runner uses it.
func Executable(p *provider.Provider) Provider { return executable{p} }

type executable struct{ *provider.Provider }

func (e executable) Parallel() int { return e.Provider.Parallel }

func (e executable) Reports(attribute string) bool {
	a, ok := e.Attributes[attribute]
	return ok && a.Kind == "rw"
}

// wanted is what the sliver's promise comes to for its provider: only what the
// provider can be asked for and compared by. From a provider that cannot
// remove, going means to be off and closed.
func wanted(p Provider, s *am.Sliver, component string) provider.Resource {
	r := provider.DesiredNode(s, component, s.Hostname)
	if !s.Desired.Present && !p.Reports(provider.AttrEnsure) {
		r[provider.AttrPower], r[provider.AttrUsers] = provider.Off, []string{}
	}
	for name := range r {
		if name != provider.AttrName && !p.Reports(name) {
			delete(r, name)
		}
	}
	return r
}
