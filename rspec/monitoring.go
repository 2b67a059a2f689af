package rspec

import (
	"strings"

	"patchbay/schemas/xmltree"
)

// isMonitoring knows the wish for monitoring in both of its namespaces; other
// namespaces, and the RSpec's own, have elements of the same name.
func isMonitoring(e *xmltree.Element) bool {
	return e.Local == "monitoring" && (e.Space == monitoringSpace || e.Space == oldMonitoringSpace)
}

// readMonitoring reads the wish of an own node or link, whose name is owner;
// nil for the request as a whole, about which we only remark.
func (p *requestParser) readMonitoring(e *xmltree.Element, owner *string) *Monitoring {
	m := &Monitoring{Endpoint: strings.TrimSpace(value(e, "monitoring_endpoint")), Type: strings.TrimSpace(value(e, "type"))}
	id := ""
	if owner != nil {
		id = *owner
	}
	text, given := e.Attr("", "enabled")
	if _, offer := e.Attr("", "supported"); offer && !given {
		return nil // pasted from an advertisement
	}
	enabled, ok := boolean(text)
	switch {
	case ok:
		m.Enabled = enabled
	case owner == nil:
		p.remark(place{e, "enabled"}, id, "write true or false; nothing is monitored", "monitoring has enabled=%.40q", text)
		return nil
	default:
		p.wrong(place{e, "enabled"}, id, "write true or false", "the monitoring of %.80q has enabled=%.40q", id, text)
	}
	seen := map[string]bool{}
	for c := range childElements(e) {
		if c.Local != "metric" || c.Space != e.Space {
			continue
		}
		metric := strings.TrimSpace(value(c, "id"))
		if folded := strings.ToLower(metric); metric != "" && !seen[folded] {
			seen[folded] = true
			m.Metrics = append(m.Metrics, metric)
		}
	}
	return m
}
