package rspec

import (
	"slices"
	"strconv"
	"strings"
)

// AdSharedVLAN is a VLAN that links of several slices may join.
type AdSharedVLAN struct {
	Name string
	// Tag is left out if it is 0.
	Tag         int
	Description string
	Restricted  bool
}

// AdMonitoring is the infrastructure monitoring that a site offers.
type AdMonitoring struct {
	Type, Doc string
	Metrics   []AdMetric
}

// AdMetric is one measured quantity.
type AdMetric struct{ ID, Description, Unit string }

// AdCapability is what requests can require of one feature: a range from Min to Max, or Values.
type AdCapability struct {
	Feature  string
	Min, Max string
	Values   []string
	// Consumable means that each sliver takes its value from what the node has.
	Consumable bool
}

type adExtension struct {
	space, schema string
	prefix        string // empty if each element of the extension declares the namespace
}

// Prefixes of elements that occur in many nodes.
const (
	emulabPrefix        = "emulab"
	monitoringPrefix    = "f4f"
	oldMonitoringPrefix = "monitoring"
	matchPrefix         = "match"
)

// extensionsOf returns the extensions that the advertisement of the site uses.
func extensionsOf(s *Site) []adExtension {
	var used []adExtension
	if slices.ContainsFunc(s.Machines, func(m Machine) bool { return len(m.SliverTypes) > 0 }) {
		used = append(used, adExtension{opstateSpace, opstateSchema, ""})
	}
	if slots := slices.ContainsFunc(s.Nodes, func(n AdNode) bool { return n.countsSlots() }); slots {
		used = append(used, adExtension{emulabSpace, emulabSchema, emulabPrefix})
	} else if s.PublicAddresses > 0 {
		used = append(used, adExtension{emulabSpace, emulabSchema, ""})
	}
	if len(s.SharedVLANs) > 0 {
		used = append(used, adExtension{sharedVLANSpace, sharedVLANAdSchema, ""})
	}
	if s.Monitoring != nil && len(s.Nodes) > 0 {
		used = append(used, adExtension{monitoringSpace, monitoringAdSchema, monitoringPrefix}, adExtension{oldMonitoringSpace, oldMonitoringAdSchema, oldMonitoringPrefix})
	}
	if slices.ContainsFunc(s.Nodes, func(n AdNode) bool { return n.hasCapabilities() }) {
		used = append(used, adExtension{matchSpace, matchAdSchema, matchPrefix})
	}
	return used
}

// writeCapabilities writes one element for a range, and one for each of several values.
func writeCapabilities(b *strings.Builder, list []AdCapability) {
	for _, c := range list {
		if c.Min != "" {
			consumable := ""
			if c.Consumable {
				consumable = "true"
			}
			writeElement(b, inherited, matchPrefix+":capability", "feature", c.Feature, "min", c.Min, "max", c.Max, "consumable", consumable)
		}
		for _, v := range c.Values {
			writeElement(b, inherited, matchPrefix+":capability", "feature", c.Feature, "value", v)
		}
	}
}

func writeSharedVLANs(b *strings.Builder, vlans []AdSharedVLAN) {
	if len(vlans) == 0 {
		return
	}
	b.WriteString(` <rspec_shared_vlan xmlns="` + sharedVLANSpace + "\">\n")
	for _, v := range vlans {
		tag := ""
		if v.Tag != 0 {
			tag = strconv.Itoa(v.Tag)
		}
		b.WriteString("  ")
		writeElement(b, inherited, "available", "name", v.Name, "description", v.Description, "localTag", tag, "restricted", strconv.FormatBool(v.Restricted))
		b.WriteByte('\n')
	}
	b.WriteString(" </rspec_shared_vlan>\n")
}

// writeMonitoring writes both namespaces, since a client may know only one.
func writeMonitoring(b *strings.Builder, m *AdMonitoring) {
	if m == nil {
		return
	}
	for _, prefix := range []string{monitoringPrefix, oldMonitoringPrefix} {
		var inner strings.Builder
		for _, x := range m.Metrics {
			writeElement(&inner, inherited, prefix+":metric", "id", x.ID, "description", x.Description, "unit", x.Unit)
		}
		writeAround(b, prefix+":monitoring", inner.String(), "supported", "true", "type", m.Type, "doc", m.Doc)
	}
}
