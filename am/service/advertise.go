package service

import (
	"maps"
	"slices"
	"time"

	"patchbay/am"
	"patchbay/am/service/binder"
	"patchbay/am/service/maintenance"
	"patchbay/am/store"
	"patchbay/inventory"
	"patchbay/rspec"
	"patchbay/rspec/match"
)

// advertiser writes the advertisement. It prepares the text about the inventory once.
type advertiser struct {
	inventory *inventory.Inventory
	site      *rspec.Advertiser
	requests  []string // namespaces of the extensions understood in requests
	providers []string // of the components, sorted
}

func newAdvertiser(v *inventory.Inventory, c *Config) *advertiser {
	site := rspec.Site{
		Manager: v.Manager, GeneratedBy: c.GeneratedBy, SliverInfo: slices.Contains(c.ManifestExtensions, SliverInfo), Templates: c.Compile != nil, Leases: c.Leases.AheadMax > 0, AdLeases: slices.Contains(c.AdExtensions, NITOS), Machines: []rspec.Machine{stateMachine(v)},
		Nodes: make([]rspec.AdNode, len(v.Components)), PublicAddresses: len(v.PublicAddresses),
	}
	types, providers := map[typeOnComponent]rspec.AdSliverType{}, map[string]bool{}
	for i, n := range v.Components {
		for _, t := range n.SliverTypes {
			key := typeOnComponent{t, n.Exclusive}
			if _, done := types[key]; !done {
				types[key] = adSliverType(n, t)
			}
		}
		site.Nodes[i] = adNode(n, types)
		providers[n.Provider] = true
	}
	for _, l := range v.Links {
		site.Links = append(site.Links, adLink(l))
	}
	for _, n := range v.SharedVLANs {
		site.SharedVLANs = append(site.SharedVLANs, rspec.AdSharedVLAN(*n))
	}
	if m := v.Monitoring; m != nil {
		site.Monitoring = &rspec.AdMonitoring{Type: m.Type, Doc: m.Doc}
		for _, x := range m.Metrics {
			site.Monitoring.Metrics = append(site.Monitoring.Metrics, rspec.AdMetric(x))
		}
	}
	return &advertiser{v, rspec.NewAdvertiser(site), site.RequestExtensions(), slices.Sorted(maps.Keys(providers))}
}

// typeOnComponent selects the text of a sliver type, which depends on whether the component is
// exclusive.
type typeOnComponent struct {
	t         *inventory.SliverType
	exclusive bool
}

// adSliverType puts the default image first, because clients use the first image when a user
// copies an advertised node into a request.
func adSliverType(n *inventory.Component, t *inventory.SliverType) rspec.AdSliverType {
	ad := rspec.AdSliverType{Name: t.Name, Capabilities: adCapabilities(n, t.Capabilities)}
	for _, i := range t.Images {
		image := rspec.AdImage{Name: i.URN.String(), OS: i.OS, Version: i.Version, Description: i.Description, Capabilities: adCapabilities(n, i.Capabilities)}
		if i == t.DefaultImage {
			image.Default = true
			ad.Images = slices.Insert(ad.Images, 0, image)
		} else {
			ad.Images = append(ad.Images, image)
		}
	}
	return ad
}

func adNode(n *inventory.Component, types map[typeOnComponent]rspec.AdSliverType) rspec.AdNode {
	ad := rspec.AdNode{ComponentID: n.URN, Name: n.Name, Exclusive: n.Exclusive, HardwareTypes: n.HardwareTypes, Capabilities: adCapabilities(n, n.Capabilities)}
	for _, t := range n.SliverTypes {
		ad.SliverTypes = append(ad.SliverTypes, types[typeOnComponent{t, n.Exclusive}])
	}
	for _, i := range n.Interfaces {
		in := rspec.AdInterface{ComponentID: i.URN, Name: i.Name, Role: i.Role, Capacity: i.Capacity}
		if i.PublicIPv4.IsValid() {
			in.PublicIPv4 = i.PublicIPv4.String()
		}
		ad.Interfaces = append(ad.Interfaces, in)
	}
	if l := n.Location; l != nil {
		ad.Location = &rspec.Location{Country: l.Country, Latitude: l.Latitude, Longitude: l.Longitude}
	}
	return ad
}

// adCapabilities sorts by feature.
func adCapabilities(n *inventory.Component, all map[string]match.Capability) (list []rspec.AdCapability) {
	for _, feature := range slices.Sorted(maps.Keys(all)) {
		offer := all[feature]
		ad := rspec.AdCapability{Feature: feature, Consumable: n.IsConsumable(feature, offer)}
		if offer.Kind == match.Count || offer.Kind == match.Size {
			ad.Min, ad.Max = offer.Ends()
		} else {
			ad.Values = offer.Values()
		}
		list = append(list, ad)
	}
	return list
}

func adLink(l *inventory.Link) rspec.AdLink {
	ad := rspec.AdLink{ComponentID: l.URN, Name: l.Name, Type: l.Type, Capacity: l.Capacity}
	for _, i := range l.Interfaces {
		ad.Interfaces = append(ad.Interfaces, i.URN)
	}
	return ad
}

// stateMachine returns the advertised state machine, which is made from am.Transitions.
func stateMachine(v *inventory.Inventory) rspec.Machine {
	m := rspec.Machine{Start: string(am.StartState)}
	for _, t := range v.SliverTypes {
		m.SliverTypes = append(m.SliverTypes, t.Name)
	}
	for _, s := range am.AdvertisedStates {
		state := rspec.State{Name: string(s)}
		for _, t := range am.Transitions {
			if t.From != (am.Status{Allocation: am.Provisioned, Operational: s}) {
				continue
			}
			switch next := string(t.To.Operational); {
			case t.Event.IsAction():
				state.Actions = append(state.Actions, rspec.Action{Name: string(t.Event), Next: next, Description: t.Description})
			case t.Event == am.EventDone:
				state.Waits = append(state.Waits, rspec.Wait{Type: "geni_success", Next: next})
			case t.Event == am.EventGaveUp:
				state.Waits = append(state.Waits, rspec.Wait{Type: "geni_failure", Next: next})
			}
		}
		m.States = append(m.States, state)
	}
	return m
}

// availability is the free capacity of an inventory under a plan, at one revision of the store.
type availability struct {
	ads      *advertiser
	plan     *maintenance.Plan
	revision store.Rev
	from     time.Time // the plan changes nothing from here up to until
	until    time.Time // zero for no end
	free     *binder.Availability
	version  uint64 // see AdvertisementVersion
}

func (a *availability) isCurrent(s *Service, now time.Time) bool {
	return a != nil && a.revision == s.cfg.Store.Revision() && a.plan == s.plan.Load() && a.ads.inventory == s.Inventory() &&
		!now.Before(a.from) && (a.until.IsZero() || now.Before(a.until))
}

// available reads the free capacity from the store if something has changed since the last call.
// It fails with the error of store.Read.
func (s *Service) available() (*availability, error) {
	now := s.cfg.Store.Now()
	if a := s.shown.Load(); a.isCurrent(s, now) {
		return a, nil
	}
	s.showing.Lock()
	defer s.showing.Unlock()
	was := s.shown.Load()
	now = s.cfg.Store.Now() // it may have waited
	if was.isCurrent(s, now) {
		return was, nil
	}
	a := &availability{ads: s.advertiser(), plan: s.plan.Load()}
	a.from, a.until = a.plan.StablePeriod(now)
	err := s.cfg.Store.Read(func(v *store.View) (err error) {
		a.revision = v.Revision()
		view := binder.View{Inventory: a.ads.inventory, Plan: a.plan, Calendar: v.CalendarUntil(now.Add(1)), Now: now}
		if a.free, err = view.Availability(); err != nil {
			return err
		}
		return v.EachWaiting(func(h *am.Hold) bool { // the first start changes the numbers
			if !h.From.After(now) {
				return true
			}
			if a.until.IsZero() || h.From.Before(a.until) {
				a.until = h.From
			}
			return false
		})
	})
	if err != nil {
		return nil, err
	}
	if was != nil {
		a.version = was.version
		if a.ads != was.ads || a.plan != was.plan || !a.free.Equal(was.free) {
			a.version++
		}
	}
	s.shown.Store(a)
	return a, nil
}

// AdvertisementVersion returns a number that grows when the advertisement may have changed. It
// fails if the store cannot be read.
func (s *Service) AdvertisementVersion() (uint64, error) {
	a, err := s.available()
	if err != nil {
		return 0, err
	}
	return a.version, nil
}

// AppendAdvertisement appends the current advertisement to b (AM API v3, ListResources). If
// onlyFree is true, it lists only available nodes. During a lockdown no node is available. It fails
// if the store cannot be read.
func (s *Service) AppendAdvertisement(b []byte, onlyFree bool) ([]byte, error) {
	now, err := s.available()
	if err != nil {
		return nil, err
	}
	return s.append(b, now.ads, now.free, onlyFree, nil), nil
}

func (s *Service) append(b []byte, ads *advertiser, free *binder.Availability, onlyFree bool, w *rspec.AdWindow) []byte {
	a := rspec.Availability{
		Generated: s.cfg.Store.Now(), Free: free.Free, PublicAddresses: free.FreePublicAddresses(), OnlyFree: onlyFree, Window: w,
	}
	if s.Lockdown() != "" {
		a.Free, a.PublicAddresses = func(int) int { return 0 }, 0
	}
	return ads.site.Append(b, a)
}

// RSpecExtensions returns namespaces of RSpec extensions (AM API v3, GetVersion). requests are
// the extensions that the site understands in requests and uses in manifests. advertisements are
// those that its advertisements use.
func (s *Service) RSpecExtensions() (requests, advertisements []string) {
	a := s.advertiser()
	return slices.Clone(a.requests), a.site.Extensions()
}
