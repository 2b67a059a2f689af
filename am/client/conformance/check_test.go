package conformance

import "testing"

// TestChecksComeAfterThoseTheyNeed guards the order on which choose and runAll rely.
func TestChecksComeAfterThoseTheyNeed(t *testing.T) {
	for name, list := range map[string][]check{
		"version 2 first": aggregateChecks(2), "version 3 first": aggregateChecks(3), "authority": (&authority{}).checks(),
	} {
		seen := map[string]bool{}
		for _, c := range list {
			for _, needed := range c.needs {
				if !seen[needed] {
					t.Errorf("%s: %s needs %s, which does not come before it", name, c.name, needed)
				}
			}
			seen[c.name] = true
		}
	}
}
