package draw

import "fmt"

// mark draws the sign of a state: a disc, a half-filled ring, a ring, a cross.
func (o *svgWriter) mark(c condition, x, y float64) {
	colour := marks[c]
	const r = 5.0
	switch c {
	case ready:
		o.put(`<circle cx="%s" cy="%s" r="%s" fill="%s"/>`+"\n", decimal(x), decimal(y), decimal(r), colour)
	case busy:
		o.put(`<circle cx="%s" cy="%s" r="%s" fill="%s" stroke="%s" stroke-width="1.6"/>`+"\n", decimal(x), decimal(y), decimal(r-0.6), paper, colour)
		o.put(`<path d="M%s A%s,%s 0 0 1 %s Z" fill="%s"/>`+"\n", coordinates(point{x, y - r}), decimal(r), decimal(r), coordinates(point{x, y + r}), colour)
	case resting:
		o.put(`<circle cx="%s" cy="%s" r="%s" fill="%s" stroke="%s" stroke-width="1.6"/>`+"\n", decimal(x), decimal(y), decimal(r-0.6), paper, colour)
	case failed:
		o.put(`<path d="M%s L%s M%s L%s" stroke="%s" stroke-width="3" stroke-linecap="round"/>`+"\n",
			coordinates(point{x - 3.6, y - 3.6}), coordinates(point{x + 3.6, y + 3.6}), coordinates(point{x - 3.6, y + 3.6}), coordinates(point{x + 3.6, y - 3.6}), colour)
	}
}

var conditionWords = []struct {
	is   condition
	word string
}{{ready, "ready"}, {busy, "on its way"}, {resting, "not running"}, {failed, "failed"}}

func (s *scene) conditions() map[condition]int {
	seen := map[condition]int{}
	for i := range s.vertices {
		if s.vertices[i].shape == nodeShape && s.vertices[i].state != unknown {
			seen[s.vertices[i].state]++
		}
	}
	return seen
}

func (s *scene) legendWidth() float64 {
	w := 0.0
	for _, c := range conditionWords {
		if n := s.conditions()[c.is]; n > 0 {
			w += noteFont.width(fmt.Sprintf("%d %s", n, c.word)) + 42
		}
	}
	return w
}

// legend explains the marks that the drawing shows.
func (o *svgWriter) legend(y float64) {
	x := margin + 5
	seen := o.s.conditions()
	for _, c := range conditionWords {
		if n := seen[c.is]; n > 0 {
			t := fmt.Sprintf("%d %s", n, c.word)
			o.mark(c.is, x, y-4)
			o.text(x+12, y, t, noteFont, faint, "")
			x += noteFont.width(t) + 42
		}
	}
}
