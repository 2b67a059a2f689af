package work

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/inventory/provider"
)

// Provider creates and removes resources. Its methods may be called concurrently, and
// return soon after their context ends. See provider.Provider for Get and Set.
type Provider interface {
	Get(ctx context.Context, names []string) (map[string]provider.Result, error)
	Set(ctx context.Context, u []provider.Update, noop bool) ([]provider.Change, error)
	// Parallel returns the number of sets that may run at the same time.
	Parallel() int
	// Reports reports whether Set accepts the attribute and Get returns it. Only then can the
	// desired and the observed value be compared.
	Reports(attribute string) bool
	// Accepts reports whether Set accepts the attribute, even if Get does not return it.
	Accepts(attribute string) bool
}

// Executable converts a loaded provider to a Provider.
func Executable(p *provider.Provider) Provider { return executable{p} }

type executable struct{ *provider.Provider }

// timed is a provider whose metadata have time limits for its calls.
type timed interface {
	Timeout(action string) time.Duration
}

// timeLimit returns the parameter limit, or the limit in the metadata of p if that is longer.
func timeLimit(p Provider, action string, limit time.Duration) time.Duration {
	if t, ok := p.(timed); ok {
		return max(limit, t.Timeout(action))
	}
	return limit
}

func (e executable) Parallel() int { return e.Provider.Parallel }

func (e executable) Reports(attribute string) bool {
	a, ok := e.Attributes[attribute]
	return ok && a.Kind == "rw"
}

func (e executable) Accepts(attribute string) bool {
	a, ok := e.Attributes[attribute]
	return ok && a.Kind != "r"
}

// wanted returns the desired state of a sliver, with only those attributes that the
// provider accepts and reports. If the provider cannot remove resources, the desired state
// of a removed sliver is a node that is switched off and has no users.
func wanted(p Provider, i *item) provider.Resource {
	r := provider.DesiredNode(&i.sliver, i.component, cmp.Or(i.sliver.DNSName, i.sliver.Hostname), i.port)
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

// toSet returns the attributes to send in a set: those that differ from the desired state and,
// for a node that does not exist, those that are sent only at creation. A changed node gets its
// steps again.
func toSet(p Provider, i *item) provider.Resource {
	should := provider.Diff(i.is, wanted(p, i))
	if provider.Gone(i.is) {
		maps.Copy(should, provider.NewNode(&i.sliver))
	} else if should[provider.AttrChangeSerial] != nil {
		should[provider.AttrSetup] = provider.NewNode(&i.sliver).List(provider.AttrSetup)
	}
	return should
}

// missingParts returns a text about the parts of the desired state that a ready sliver lacks:
// features that the sliver's provider does not support, failed services, and problems that the
// provider reports. It returns "" if nothing is missing.
func missingParts(p Provider, s *am.Sliver) string {
	if !s.Desired.Present {
		return ""
	}
	var all []string
	if s.PublicAddress.IsValid() && !p.Reports(provider.AttrInterfaces) {
		all = append(all, fmt.Sprintf("its provider does not support public addresses, so it cannot be reached at %s", s.PublicAddress))
	}
	if n := len(s.Setup); n > 0 && !p.Accepts(provider.AttrSetup) {
		all = append(all, fmt.Sprintf("its provider does not support install and execute, so %d services of the request were not carried out; log in and carry them out by hand", n))
	}
	if failed := s.StepFailure(); failed != "" {
		all = append(all, failed)
	}
	if s.SetupStopped != "" {
		all = append(all, s.SetupStopped)
	}
	if o := s.Observed; o.State == provider.StateReady && o.Message != "" {
		all = append(all, o.Message)
	}
	return strings.Join(all, "; ")
}

// observed returns the state of the sliver's node in r, without interfaces and services that the
// sliver does not have.
func observed(s *am.Sliver, r provider.Resource) am.Observed {
	o := provider.ObservedNode(r)
	o.MACs, o.Emulators = keepInterfaces(s, o.MACs), keepInterfaces(s, o.Emulators)
	o.Services = o.Services[:min(len(o.Services), len(s.Setup))]
	if o.ChangeSerial != s.Desired.ChangeSerial && o.State != "" { // its reports are about earlier steps
		o.Services = s.Observed.Services
	}
	if len(o.Services) == 0 {
		o.Services = nil
	}
	return o
}

// keepInterfaces returns the texts about the sliver's own interfaces. The key of a text is
// the client_id of its interface.
func keepInterfaces(s *am.Sliver, texts map[string]string) (kept map[string]string) {
	for _, i := range s.Interfaces {
		if text, ok := texts[i.ClientID]; ok {
			if kept == nil {
				kept = map[string]string{}
			}
			kept[i.ClientID] = text
		}
	}
	return kept
}
