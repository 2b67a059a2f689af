package draw

import "cmp"

var frameFont = font{13, true}

func (s *scene) frameName(f int) string {
	return elide(cmp.Or(cleaned(s.document.Managers[f].Name), "no manager named"), 320, frameFont.width)
}

func (s *scene) titleRect(f int) rect {
	r := s.frames[f]
	w := frameFont.width(s.frameName(f)) + 8
	if s.titleAtRight[f] {
		return box(r.right()-12-w, r.top()+10, r.right()-12, r.top()+30)
	}
	return box(r.left()+12, r.top()+10, r.left()+12+w, r.top()+30)
}

func (s *scene) titleRects() (list []rect) {
	for f, r := range s.frames {
		if s.framed && r.hw > 0 {
			list = append(list, s.titleRect(f))
		}
	}
	return list
}

// placeTitles sets each title on the side that fewer lines cross.
func (s *scene) placeTitles() {
	s.titleAtRight = make([]bool, len(s.frames))
	if !s.framed {
		return
	}
	cuts := func(f int) (n int) {
		room := s.titleRect(f)
		for i := range s.edges {
			e := &s.edges[i]
			a, b := &s.vertices[e.from], &s.vertices[e.to]
			if a.frame != b.frame && room.cuts(a.point, b.point) {
				n++
			}
		}
		return n
	}
	for f, r := range s.frames {
		if r.hw == 0 {
			continue
		}
		left := cuts(f)
		s.titleAtRight[f] = true
		s.titleAtRight[f] = cuts(f) < left
	}
}
