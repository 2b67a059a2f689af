package fabric

import "patchbay/inventory/provider/local/vswitch"

// paths returns the paths of a link that the vswitch emulates, and false if there are too many. If the ports
// of the ends can apply all properties, each port with latency or loss gets one path, without the rate, which
// the port's shaper limits. Otherwise each pair with a rate has a path of its own, and the other pairs of a
// source share a path if they have equal properties.
func (m *matrix) paths(l Link, s sum) ([]vswitch.Path, bool) {
	name := func(i int) string {
		if i == m.n {
			return uplink
		}
		return l.Ends[i].ID
	}
	var list []vswitch.Path
	if s.ratePort && s.restPort {
		for j, a := range s.ports {
			if a.delay != 0 || a.loss != 0 {
				list = append(list, vswitch.Path{To: []string{name(j)}, Delay: a.delay, Loss: a.loss})
			}
		}
		return list, len(list) <= maxPairs
	}
	for i := range m.ports {
		groups := make(map[properties][]string)
		var order []properties
		for j := range m.ports {
			if i == j {
				continue
			}
			a := m.pair(i, j)
			if s.ratePort {
				a.rate = 0 // the port's shaper limits the rate
			}
			switch {
			case a == properties{}:
			case a.rate != 0:
				list = append(list, path(a, name(i), []string{name(j)}))
			default:
				if groups[a] == nil {
					order = append(order, a)
				}
				groups[a] = append(groups[a], name(j))
			}
			if len(list)+len(order) > maxPairs {
				return nil, false
			}
		}
		for _, a := range order {
			to := groups[a]
			if len(to) == m.ports-1 {
				to = nil // nil stands for all others
			}
			list = append(list, path(a, name(i), to))
		}
	}
	return list, true
}

// path leads to all other ports if targets is nil.
func path(a properties, source string, targets []string) vswitch.Path {
	return vswitch.Path{From: []string{source}, To: targets, Delay: a.delay, Loss: a.loss, Rate: a.rate * 1000}
}
