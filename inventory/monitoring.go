package inventory

import (
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// metricID is what Fed4FIRE's monitoring extension takes for one.
var metricID = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{1,49}$`)

func (s *site) readMonitoring(n *yaml.Node) {
	if isNull(n) {
		return
	}
	m := &Monitoring{Type: "oml"}
	seen := map[string]bool{}
	s.fields(n, "monitoring", []string{"type", "doc", "metrics"}, func(key string, n *yaml.Node) {
		switch key {
		case "type":
			m.Type = s.name(n, key)
		case "doc":
			if m.Doc = s.text(n, key); m.Doc != "" && !strings.Contains(m.Doc, "://") {
				s.wrong(n, "doc must be a URL such as https://%s/monitoring", s.Authority)
			}
		case "metrics":
			for _, item := range s.items(n, key) {
				metric, ok := s.readMetric(item)
				switch id := strings.ToLower(metric.ID); {
				case !ok:
				case seen[id]:
					s.wrong(item, "there are two metrics %q, for their case does not count; rename one", metric.ID)
				default:
					seen[id] = true
					m.Metrics = append(m.Metrics, metric)
				}
			}
		}
	})
	s.Monitoring = m
}

func (s *site) readMetric(item *yaml.Node) (m Metric, ok bool) {
	bad := len(s.problems)
	s.fields(item, "a metric", []string{"id", "description", "unit"}, func(key string, n *yaml.Node) {
		switch key {
		case "id":
			if m.ID = s.text(n, key); m.ID != "" && !metricID.MatchString(m.ID) {
				s.wrong(n, "id must be 2 to 50 letters, digits, underscores, dots or hyphens and begin with a letter, such as cpu.load")
			}
		case "description":
			m.Description = s.text(n, key)
		case "unit":
			m.Unit = s.text(n, key)
		}
	})
	if m.ID == "" && len(s.problems) == bad {
		s.missing(item, "a metric", "id")
	}
	return m, len(s.problems) == bad
}
