package inventory

import (
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"patchbay/schemas/yamlfile"
)

// metricID matches the ids that Fed4FIRE's monitoring extension allows.
var metricID = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{1,49}$`)

func (s *site) readMonitoring(n *yaml.Node) {
	if yamlfile.IsNull(n) {
		return
	}
	m := &Monitoring{Type: "oml"}
	seen := map[string]bool{}
	s.Fields(n, "monitoring", []string{"type", "doc", "metrics"}, func(key string, n *yaml.Node) {
		switch key {
		case "type":
			m.Type = s.name(n, key)
		case "doc":
			if m.Doc = s.Text(n, key); m.Doc != "" && !strings.Contains(m.Doc, "://") {
				s.Wrong(n, "doc must be a URL such as https://%s/monitoring", s.Authority)
			}
		case "metrics":
			for _, item := range s.Items(n, key) {
				metric, ok := s.readMetric(item)
				switch id := strings.ToLower(metric.ID); {
				case !ok:
				case seen[id]:
					s.Wrong(item, "there are two metrics %q (case does not matter); rename one", metric.ID)
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
	bad := s.Mistakes()
	s.Keys(item, "a metric",
		yamlfile.With("id", func(n *yaml.Node) {
			if m.ID = s.Text(n, "id"); m.ID != "" && !metricID.MatchString(m.ID) {
				s.Wrong(n, "id must be 2 to 50 letters, digits, underscores, dots or hyphens and begin with a letter, such as cpu.load")
			}
		}),
		yamlfile.Into("description", &m.Description, s.Text),
		yamlfile.Into("unit", &m.Unit, s.Text),
	)
	if m.ID == "" && s.Mistakes() == bad {
		s.Missing(item, "a metric", "id")
	}
	return m, s.Mistakes() == bad
}
