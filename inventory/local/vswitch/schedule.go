package vswitch

// schedule has the paths on which frames wait, as a heap: first the one whose
// first frame is due first.
type schedule struct{ paths []*path }

// due is when the next frame is to go.
func (s *schedule) due() (at int64, ok bool) {
	if len(s.paths) == 0 {
		return 0, false
	}
	return s.paths[0].wait.due()
}

// settle puts p in its place after its first frame has changed.
func (s *schedule) settle(p *path) {
	_, waits := p.wait.due()
	switch {
	case waits && p.at < 0:
		p.at = len(s.paths)
		s.paths = append(s.paths, p)
		s.up(p.at)
	case waits:
		s.down(s.up(p.at))
	default:
		s.leave(p)
	}
}

// leave takes p out, whether frames wait on it or not.
func (s *schedule) leave(p *path) {
	if p.at < 0 {
		return
	}
	i, end := p.at, len(s.paths)-1
	s.swap(i, end)
	s.paths[end] = nil
	s.paths = s.paths[:end]
	p.at = -1
	if i < end {
		s.down(s.up(i))
	}
}

func (s *schedule) before(i, j int) bool {
	a, _ := s.paths[i].wait.due()
	b, _ := s.paths[j].wait.due()
	return a < b
}

func (s *schedule) swap(i, j int) {
	s.paths[i], s.paths[j] = s.paths[j], s.paths[i]
	s.paths[i].at, s.paths[j].at = i, j
}

func (s *schedule) up(i int) int {
	for i > 0 && s.before(i, (i-1)/2) {
		s.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
	return i
}

func (s *schedule) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(s.paths); child++ {
			if s.before(child, least) {
				least = child
			}
		}
		if least == i {
			return
		}
		s.swap(i, least)
		i = least
	}
}
