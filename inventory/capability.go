package inventory

import (
	"maps"
	"math"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"patchbay/am"
	"patchbay/rspec/match"
	"patchbay/schemas/yamlfile"
)

// maxCapabilities is the maximum number of features of a component, sliver type or image.
const maxCapabilities = 64

const (
	country  = "location.country"
	freeSize = "disk.0.free_size"
)

// consumable is a feature that slivers take from the capacity of a shared component.
type consumable struct {
	// amount returns the field of an Amount that counts the feature.
	amount func(*am.Amount) *int64
	// unit is the value of the feature for an amount of 1: MiB have 1<<20 bytes.
	unit float64
}

var consumables = map[string]consumable{
	"cpu.count":   {func(a *am.Amount) *int64 { return &a.Cores }, 1},
	"gpu.count":   {func(a *am.Amount) *int64 { return &a.GPUs }, 1},
	"memory.size": {func(a *am.Amount) *int64 { return &a.Memory }, 1 << 20},
	"disk.size":   {func(a *am.Amount) *int64 { return &a.Disk }, 1 << 20},
}

// amountOf returns the amount for a value of the feature, rounded up.
func (f consumable) amountOf(value float64) int64 { return int64(math.Ceil(value / f.unit)) }

// IsConsumable reports whether slivers of some components take the feature from their capacity.
func IsConsumable(feature string) bool {
	_, ok := consumables[feature]
	return ok
}

// IsConsumable reports whether slivers take the feature from the capacity of c: c is shared,
// and a sliver may get more or less of the feature.
func (c *Component) IsConsumable(feature string, offer match.Capability) bool {
	return IsConsumable(feature) && !c.Exclusive && offer.Min < offer.Max
}

// CapabilitiesOf returns what a sliver of type t with the image i gets on c; i may be nil. The
// first of these that has the feature determines it:
//
//  1. the sliver type, since it defines what its slivers are, not the machine below them;
//  2. on a shared component the type's needs, since a sliver gets exactly these;
//  3. the image, since it determines the software;
//  4. the component;
//  5. for location.country, the component's location; for disk.0.free_size, the least that the
//     sliver gets of disk.size.
func CapabilitiesOf(c *Component, t *SliverType, i *Image) match.Capabilities {
	return func(feature string) (match.Capability, bool) {
		if offer, ok := t.Capabilities[feature]; ok {
			return offer, true
		}
		if f, ok := consumables[feature]; ok && !c.Exclusive {
			needs := t.Needs
			if n := *f.amount(&needs); n > 0 {
				value := float64(n) * f.unit
				kind := match.Count
				if f.unit > 1 {
					kind = match.Size
				}
				return match.Capability{Kind: kind, Min: value, Max: value}, true
			}
		}
		if i != nil {
			if offer, ok := i.Capabilities[feature]; ok {
				return offer, true
			}
		}
		if offer, ok := c.Capabilities[feature]; ok {
			return offer, true
		}
		if feature == country && c.country != nil {
			return *c.country, true
		}
		if feature == freeSize {
			offer, ok := CapabilitiesOf(c, t, i)("disk.size")
			offer.Max = offer.Min
			return offer, ok
		}
		return match.Capability{}, false
	}
}

// Verdicts has a letter for each constraint: y if the image i alone decides that a sliver of type t
// satisfies it on every component, n if it decides that none does, and else a question mark.
func (t *SliverType) Verdicts(i *Image, list []match.Constraint) string {
	verdicts := make([]byte, len(list))
	for k, x := range list {
		verdicts[k] = '?'
		if _, isOfType := t.Capabilities[x.Feature]; isOfType || i == nil {
			continue
		}
		offer, isOfImage := i.Capabilities[x.Feature]
		if !isOfImage {
			continue
		}
		if r, err := match.New([]match.Constraint{x}, nil); err == nil {
			verdicts[k] = 'n'
			if _, ok := r.Match(func(string) (match.Capability, bool) { return offer, true }); ok {
				verdicts[k] = 'y'
			}
		}
	}
	return string(verdicts)
}

// Features returns the features that a component, sliver type or image has, sorted.
func (v *Inventory) Features() []string {
	all := map[string]bool{}
	add := func(capabilities map[string]match.Capability) {
		for feature := range capabilities {
			all[feature] = true
		}
	}
	for _, c := range v.Components {
		add(c.Capabilities)
		if c.country != nil {
			all[country] = true
		}
	}
	for _, t := range v.SliverTypes {
		add(t.Capabilities)
		for feature, f := range consumables {
			if needs := t.Needs; *f.amount(&needs) > 0 {
				all[feature] = true
			}
		}
	}
	for _, i := range v.Images {
		add(i.Capabilities)
	}
	if all["disk.size"] {
		all[freeSize] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// CapabilitiesWithin returns the capabilities of CapabilitiesOf while left is free on c. Ranges
// of consumable features that the capacity of c limits end at what is left. A feature of
// which too little is left is not offered.
func CapabilitiesWithin(c *Component, t *SliverType, i *Image, left am.Amount) match.Capabilities {
	all := CapabilitiesOf(c, t, i)
	return func(feature string) (match.Capability, bool) {
		offer, ok := all(feature)
		if ok && c.IsConsumable(feature, offer) {
			f, capacity := consumables[feature], c.Capacity
			if *f.amount(&capacity) > 0 {
				offer.Max = min(offer.Max, float64(*f.amount(&left))*f.unit)
				ok = offer.Min <= offer.Max
			}
		}
		return offer, ok
	}
}

// AmountFor returns the part of the capacity of c that a sliver of type t with the grant g uses.
// On a shared component, granted values of consumable features replace what the type
// needs. A feature with a single value is not counted.
func (t *SliverType) AmountFor(c *Component, g match.Grant) am.Amount {
	amount := t.Needs
	all := CapabilitiesOf(c, t, nil) // images have no consumable features
	for _, v := range g.Values {
		if offer, ok := all(v.Feature); ok && c.IsConsumable(v.Feature, offer) {
			f := consumables[v.Feature]
			*f.amount(&amount) = f.amountOf(v.Number)
		}
	}
	return amount
}

// limitConsumables sets each missing limit of a shared component's capacity to the maximum of
// its range of the feature.
func (c *Component) limitConsumables() {
	for feature, f := range consumables {
		offer, ok := c.Capabilities[feature]
		if limit := f.amount(&c.Capacity); ok && *limit == 0 && c.IsConsumable(feature, offer) {
			*limit = f.amountOf(offer.Max)
		}
	}
}

// imageCapabilities reads the capabilities of an image. It refuses consumable features, which are counted on
// components.
func (s *site) imageCapabilities(n *yaml.Node) map[string]match.Capability {
	all := s.capabilities(n)
	for _, feature := range slices.Sorted(maps.Keys(all)) {
		if IsConsumable(feature) {
			s.Wrong(n, "an image has no %s; write it in a sliver type or a component", feature)
		}
	}
	return all
}

// capabilities reads a map of features and values. After a mistake it leaves out the feature.
func (s *site) capabilities(n *yaml.Node) map[string]match.Capability {
	if n.Kind != yaml.MappingNode {
		s.Wrong(n, "capabilities must be a list of features and values, such as {cpu.count: 8, memory.size: 64G}")
		return nil
	}
	if count := len(n.Content) / 2; count > maxCapabilities {
		s.Wrong(n, "capabilities has %d features; list at most %d", count, maxCapabilities)
		return nil
	}
	all := make(map[string]match.Capability, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, value := n.Content[i], yamlfile.Deref(n.Content[i+1])
		if !s.Key(k, "capabilities") {
			continue
		}
		bad := s.Mistakes()
		texts := textsOf(s.Texts(value, k.Value))
		if s.Mistakes() > bad {
			continue
		}
		offer, err := match.ParseCapability(k.Value, texts...)
		_, twice := all[k.Value]
		switch {
		case err != nil:
			s.Wrong(k, "capabilities: %v", err)
		case twice:
			s.Wrong(k, "capabilities has the feature %q twice; drop one, or write a list of values", k.Value)
		case offer.Kind == match.Size && offer.Max > 0 && !strings.ContainsAny(texts[0][len(texts[0])-1:], "BKMGTPEbkmgtpei"):
			s.Wrong(value, "capabilities: %s has no unit; write a size such as 512M or 64G", k.Value)
		default:
			all[k.Value] = offer
		}
	}
	return all
}
