package rspec

import (
	"fmt"
	"strings"

	"patchbay/schemas/xmltree"
)

// isMonitoring accepts both namespaces of the monitoring extension. Other namespaces, such as
// the one of RSpecs, also have elements of this name.
func isMonitoring(e *xmltree.Element) bool {
	return e.Local == "monitoring" && (e.Space == monitoringSpace || e.Space == oldMonitoringSpace)
}

// readMonitoring reads the monitoring of the own node or link id, or of the whole request if
// id is empty. Invalid monitoring gets a remark and is only copied, because an extension never
// makes a request fail.
func (p *requestParser) readMonitoring(e *xmltree.Element, id string) *Monitoring {
	m := &Monitoring{Endpoint: trimmed(e, "monitoring_endpoint"), Type: trimmed(e, "type")}
	text, given := e.Attr("", "enabled")
	if _, offer := e.Attr("", "supported"); offer && !given {
		return nil // pasted from an advertisement
	}
	enabled, ok := boolean(text)
	if !ok {
		of := ""
		if id != "" {
			of = fmt.Sprintf(" of %.80q", id)
		}
		p.remark(place{e, "enabled"}, id, "write true or false; it is ignored now", "the monitoring%s has enabled=%.40q", of, text)
		return nil
	}
	m.Enabled = enabled
	seen := map[string]bool{}
	for c := range childElements(e) {
		if c.Local != "metric" || c.Space != e.Space {
			continue
		}
		metric := trimmed(c, "id")
		if folded := strings.ToLower(metric); metric != "" && !seen[folded] {
			seen[folded] = true
			m.Metrics = append(m.Metrics, metric)
		}
	}
	return m
}
