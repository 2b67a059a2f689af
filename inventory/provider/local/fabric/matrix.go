package fabric

import "time"

// properties are the requested properties of one pair of ends.
type properties struct {
	rate  int64
	delay time.Duration
	loss  float64
	// only means that less specific shapes do not set any property.
	only bool
}

func (a *properties) add(s Shape) {
	if s.Rate != 0 {
		a.rate = s.Rate
	}
	if s.Delay != 0 {
		a.delay = s.Delay
	}
	if s.Loss != 0 {
		a.loss = s.Loss
	}
}

// over returns a with unset properties taken from the less specific b. If a.only is set,
// over fills none and clears a.only.
func (a properties) over(b properties) properties {
	if a.only {
		a.only = false
		return a
	}
	if a.rate == 0 {
		a.rate = b.rate
	}
	if a.delay == 0 {
		a.delay = b.delay
	}
	if a.loss == 0 {
		a.loss = b.loss
	}
	return a
}

// matrix holds the requested properties of each pair of ends. The port to a shared VLAN,
// if any, has the last number.
type matrix struct {
	n         int // number of ends
	ports     int // the ends, and the port to the shared VLAN
	hasShapes bool
	all       properties
	from      []properties         // by source
	to        []properties         // by destination
	pairs     []map[int]properties // by source, then destination
}

// newMatrix returns the properties of a valid link for each pair of ports. Later shapes override earlier
// ones.
func newMatrix(l Link) *matrix {
	m := &matrix{n: len(l.Ends), ports: len(l.Ends), hasShapes: len(l.Shapes) > 0}
	if l.Shared != "" {
		m.ports++
	}
	m.from, m.to, m.pairs = make([]properties, m.ports), make([]properties, m.ports), make([]map[int]properties, m.ports)
	number := make(map[string]int, len(l.Ends))
	for i, e := range l.Ends {
		number[e.ID] = i
	}
	add := func(at []properties, ids []string, s Shape) {
		for _, id := range ids {
			at[number[id]].add(s)
		}
	}
	for _, s := range l.Shapes {
		switch {
		case len(s.From) == 0 && len(s.To) == 0:
			m.all.add(s)
		case len(s.To) == 0:
			add(m.from, s.From, s)
		case len(s.From) == 0:
			add(m.to, s.To, s)
		default:
			for _, f := range s.From {
				i := number[f]
				if m.pairs[i] == nil {
					m.pairs[i] = make(map[int]properties, len(s.To))
				}
				for _, t := range s.To {
					if f == t {
						continue
					}
					a := m.pairs[i][number[t]]
					a.add(s)
					a.only = a.only || s.Only
					m.pairs[i][number[t]] = a
				}
			}
		}
	}
	return m
}

func (m *matrix) pair(i, j int) properties {
	a := m.from[i].over(m.to[j]).over(m.all)
	if p, ok := m.pairs[i][j]; ok {
		a = p.over(a)
	}
	return a
}

// sum summarizes the matrix of a link: the properties that any pair has, and the properties
// that the ports of the ends can apply.
type sum struct {
	delay, loss, rate bool
	ports             []properties // properties of frames to each port, if equal for all sources
	ratePort          bool         // at each port, the capacity is equal for all sources
	restPort          bool         // at each port, latency and loss are equal for all sources
}

// sum finds out which kinds of properties the link has, and whether each port alone can apply them.
func (m *matrix) sum() sum {
	s := sum{ports: make([]properties, m.ports), ratePort: true, restPort: true}
	if !m.hasShapes {
		return s
	}
	for j := range m.ports {
		first := true
		for i := range m.ports {
			// Frames from other slices get the properties of frames from this link's
			// ends. So the shared VLAN's port counts as a source only if the link has
			// one end, which would otherwise have no source.
			if i == j || i == m.n && m.n > 1 {
				continue
			}
			a, at := m.pair(i, j), &s.ports[j]
			s.note(a)
			if first {
				*at, first = a, false
			}
			s.ratePort = s.ratePort && a.rate == at.rate
			s.restPort = s.restPort && a.delay == at.delay && a.loss == at.loss
		}
	}
	return s
}

func (s *sum) note(a properties) {
	s.rate = s.rate || a.rate != 0
	s.delay = s.delay || a.delay != 0
	s.loss = s.loss || a.loss != 0
}
