package draw

import "cmp"

var frameFont = font{13, true}

// frameName is what is written on the frame of a manager.
func (s *scene) frameName(f int) string {
	return squeeze(cmp.Or(full(s.picture.Managers[f].Name), "no manager named"), 320, frameFont.width)
}

// titleRoom is where the title of a frame stands: at the left, or at the right
// where lines come in at the left.
func (s *scene) titleRoom(f int) rect {
	r := s.frames[f]
	w := frameFont.width(s.frameName(f)) + 8
	if s.rightward[f] {
		return box(r.right()-12-w, r.top()+10, r.right()-12, r.top()+30)
	}
	return box(r.left()+12, r.top()+10, r.left()+12+w, r.top()+30)
}

// titleRooms are where the titles of all frames stand.
func (s *scene) titleRooms() (list []rect) {
	for f, r := range s.frames {
		if s.framed && r.hw > 0 {
			list = append(list, s.titleRoom(f))
		}
	}
	return list
}

// titles puts the titles of frames where fewer lines come in.
func (s *scene) titles() {
	s.rightward = make([]bool, len(s.frames))
	if !s.framed {
		return
	}
	cuts := func(f int) (n int) {
		room := s.titleRoom(f)
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
		s.rightward[f] = true
		s.rightward[f] = cuts(f) < left
	}
}
