package service

import (
	"strings"

	"patchbay/am"
	"patchbay/rspec"
)

// advertiser writes the advertisement: what the inventory says, prepared once,
// and what is free, read each time.
type advertiser struct {
	site *rspec.Advertiser
}

// newAdvertiser turns the inventory into the plain values that rspec writes.
func newAdvertiser(c Config) *advertiser {
	site := rspec.Site{Manager: c.Inventory.Manager, GeneratedBy: c.GeneratedBy, Machines: []rspec.Machine{machine(c)}}
	for _, n := range c.Inventory.Components {
		ad := rspec.AdNode{ComponentID: n.URN, Name: n.Name, Exclusive: n.Exclusive, HardwareTypes: n.HardwareTypes}
		for _, t := range n.SliverTypes {
			st := rspec.AdSliverType{Name: t.Name}
			for _, i := range t.Images {
				st.Images = append(st.Images, rspec.AdImage{
					Name: i.URN.String(), OS: i.OS, Version: i.Version, Description: i.Description, URL: i.URL, Default: i == t.DefaultImage,
				})
			}
			ad.SliverTypes = append(ad.SliverTypes, st)
		}
		if l := n.Location; l != nil {
			ad.Location = &rspec.Location{Country: l.Country, Latitude: l.Latitude, Longitude: l.Longitude}
		}
		site.Nodes = append(site.Nodes, ad)
	}
	return &advertiser{site: rspec.NewAdvertiser(site)}
}

// machine is the table of transitions in the words of the advertisement.
func machine(c Config) rspec.Machine {
	m := rspec.Machine{Start: string(am.StartState)}
	for _, t := range c.Inventory.SliverTypes {
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
				state.Actions = append(state.Actions, rspec.Action{Name: string(t.Event), Next: next, Description: t.Says})
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

// AdvertisementVersion grows whenever the advertisement may have changed.
func (s *Service) AdvertisementVersion() uint64 { return s.cfg.Index.Version() }

// AppendAdvertisement appends the advertisement as of now: all nodes, or only
// those that could be had (AM API v3, ListResources).
func (s *Service) AppendAdvertisement(b []byte, onlyFree bool) []byte {
	return s.ads.site.Append(b, s.cfg.Store.Now(), s.cfg.Index.Free, onlyFree)
}
