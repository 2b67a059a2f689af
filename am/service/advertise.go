package service

import (
	"maps"
	"slices"
	"strings"

	"patchbay/am"
	"patchbay/inventory"
	"patchbay/rspec"
	"patchbay/rspec/match"
)

// advertiser writes the advertisement. It prepares the text about the inventory once.
type advertiser struct {
	inventory *inventory.Inventory
	site      *rspec.Advertiser
	requests  []string // namespaces of the extensions understood in requests
}

func newAdvertiser(v *inventory.Inventory, c *Config) *advertiser {
	site := rspec.Site{
		Manager: v.Manager, GeneratedBy: c.GeneratedBy, SliverInfo: slices.Contains(c.ManifestExtensions, SliverInfo), Machines: []rspec.Machine{stateMachine(v)},
		Nodes: make([]rspec.AdNode, len(v.Components)), PublicAddresses: len(v.PublicAddresses),
	}
	types := map[typeOnComponent]rspec.AdSliverType{}
	for i, n := range v.Components {
		for _, t := range n.SliverTypes {
			key := typeOnComponent{t, n.Exclusive}
			if _, done := types[key]; !done {
				types[key] = adSliverType(n, t)
			}
		}
		site.Nodes[i] = adNode(n, types)
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
	return &advertiser{v, rspec.NewAdvertiser(site), site.RequestExtensions()}
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
			case strings.HasPrefix(string(t.Event), "geni_"):
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

// AdvertisementVersion returns a number that grows when the advertisement may have
// changed.
func (s *Service) AdvertisementVersion() uint64 {
	s.cfg.Index.Advance(s.cfg.Store.Now()) // maintenance begins and ends without a commit
	return s.cfg.Index.Version()
}

// AppendAdvertisement appends the current advertisement to b (AM API v3, ListResources). If
// onlyFree is true, it lists only available nodes. During a lockdown no node is available.
func (s *Service) AppendAdvertisement(b []byte, onlyFree bool) []byte {
	ads, free := s.current()
	a := rspec.Availability{
		Generated: s.cfg.Store.Now(), Free: free.Free, PublicAddresses: free.FreePublicAddresses(), OnlyFree: onlyFree,
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
	a, _ := s.current()
	return slices.Clone(a.requests), a.site.Extensions()
}
