package work

import (
	"context"
	"fmt"

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
func wanted(p Provider, i *item) provider.Resource {
	r := provider.DesiredNode(&i.sliver, i.component, i.sliver.Hostname, i.port)
	if !i.sliver.Desired.Present && !p.Reports(provider.AttrEnsure) {
		r[provider.AttrPower], r[provider.AttrUsers] = provider.Off, []string{}
	}
	for name := range r {
		if name != provider.AttrName && !p.Reports(name) {
			delete(r, name)
		}
	}
	return r
}

// unheard says what the sliver was promised that its provider cannot be asked
// for, and that does not show in what it reports; nothing if there is none.
func unheard(p Provider, s *am.Sliver) string {
	if s.Desired.Present && s.PublicAddress.IsValid() && !p.Reports(provider.AttrInterfaces) {
		return fmt.Sprintf("its provider cannot be told of public addresses, so it is not reached at %s", s.PublicAddress)
	}
	return ""
}

// observed is what r says of the sliver's node. Of interfaces that the sliver
// has not, nothing is kept.
func observed(s *am.Sliver, r provider.Resource) am.Observed {
	o := provider.ObservedNode(r)
	told := o.MACs
	o.MACs = nil
	for _, i := range s.Interfaces {
		if mac, ok := told[i.ClientID]; ok {
			if o.MACs == nil {
				o.MACs = map[string]string{}
			}
			o.MACs[i.ClientID] = mac
		}
	}
	return o
}
