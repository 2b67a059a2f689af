package site

import (
	"patchbay/am"
	"patchbay/am/clock"
	"patchbay/am/server"
	"patchbay/am/store"
)

// gauges are the numbers that /metrics shows beside those of the server.
func (s *Site) gauges() []server.Gauge {
	count := func(f func(*store.View, func()) error) func() float64 {
		return func() float64 {
			n := 0.0
			if err := s.store.Read(func(v *store.View) error { return f(v, func() { n++ }) }); err != nil {
				return -1
			}
			return n
		}
	}
	flag := func(is func() bool) func() float64 {
		return func() float64 {
			if is() {
				return 1
			}
			return 0
		}
	}
	return append(s.hookGauges(), []server.Gauge{
		{Name: "tls_connections", Help: "Connections whose TLS state is in memory.", Value: func() float64 { return float64(s.tls.Live()) }},
		{Name: "trust_anchors", Help: "Certificates in the trust folder.", Value: func() float64 { return float64(len(s.anchors.Load().List())) }},
		{Name: "audit_lines", Help: "Lines of the audit written since the start.", Value: func() float64 {
			n, _ := s.audit.Lines()
			return float64(n)
		}},
		{Name: "audit_unwritten", Help: "Lines of the audit that could not be written yet, or are lost; anything but 0 needs an operator.", Value: func() float64 {
			_, n := s.audit.Lines()
			return float64(n)
		}},
		{Name: "clock_in_doubt", Help: "1 while the host's clock is not believed, so that leases count by the time that has gone by; else 0.", Value: flag(func() bool {
			return s.clock.State().Doubt != clock.NoDoubt
		})},
		{Name: "policy_rules", Help: "Rules of the policy that are in force.", Value: func() float64 { return float64(s.policy.policy.Rules().Len()) }},
		{Name: "policy_broken", Help: "1 while the policy cannot be read, so that older rules are in force; else 0.", Value: flag(s.policy.broken)},
		{Name: "lockdown", Help: "1 while the site takes no new work by an operator's word; else 0.", Value: flag(s.upkeep.locked.Load)},
		{Name: "maintenance_broken", Help: "1 while the maintenance file cannot be read, so that what it said before is in force; else 0.", Value: flag(s.upkeep.broken.Load)},
		{Name: "maintenance_unknown", Help: "Entries of the maintenance file that name a component which the inventory does not have: one that was renamed is in service; anything but 0 needs an operator.", Value: func() float64 { return float64(s.upkeep.unknown()) }},
		{Name: "store_broken", Help: "1 while the store promises nothing more, for it has met damage or a write in doubt; else 0.", Value: flag(func() bool {
			return s.store.Err() != nil
		})},
		{Name: "decision_longest_seconds", Help: "Time of the longest decision since the start: all other changes of the site wait for it.", Value: func() float64 {
			return s.store.LongestDecision().Seconds()
		}},
		{Name: "unpromised", Help: "What providers have although no sliver is there for it, by provider.", Label: "provider", Values: s.unpromised},
		{Name: "tasks", Help: "Slivers that need work of their providers.", Value: count(func(v *store.View, one func()) error {
			return v.Tasks(func(am.Task) bool { one(); return true })
		})},
		{Name: "slivers", Help: "Slivers kept, those being removed included.", Value: count(func(v *store.View, one func()) error {
			return v.Slivers(func(am.Sliver) bool { one(); return true })
		})},
	}...)
}

// unpromised counts what nobody was promised. A provider that has not told of
// everything yet has no number.
func (s *Site) unpromised() map[string]float64 {
	all := map[string]float64{}
	for name, n := range s.runner.CountUnpromised() {
		all[name] = float64(n)
	}
	return all
}
