package draw

import (
	"fmt"

	"patchbay/rspec/view"
)

func (o *svgWriter) writeMark(c view.Condition, x, y float64) {
	colour := stateColours[c]
	const r = 5.0
	switch c {
	case view.Ready:
		o.printf(`<circle cx="%v" cy="%v" r="%v" fill="%v"/>`+"\n", x, y, r, colour)
	case view.Busy:
		o.printf(`<circle cx="%v" cy="%v" r="%v" fill="%v" stroke="%v" stroke-width="1.6"/>`+"\n", x, y, r-0.6, paper, colour)
		o.printf(`<path d="M%v A%v,%v 0 0 1 %v Z" fill="%v"/>`+"\n", point{x, y - r}, r, r, point{x, y + r}, colour)
	case view.Idle:
		o.printf(`<circle cx="%v" cy="%v" r="%v" fill="%v" stroke="%v" stroke-width="1.6"/>`+"\n", x, y, r-0.6, paper, colour)
	case view.Failed:
		o.printf(`<path d="M%v L%v M%v L%v" stroke="%v" stroke-width="3" stroke-linecap="round"/>`+"\n",
			point{x - 3.6, y - 3.6}, point{x + 3.6, y + 3.6}, point{x - 3.6, y + 3.6}, point{x + 3.6, y - 3.6}, colour)
	}
}

type legendText struct {
	is   view.Condition
	text string
}

func (s *scene) legendTexts() (list []legendText) {
	seen := map[view.Condition]int{}
	for i := range s.vertices {
		if s.vertices[i].shape == nodeShape {
			seen[s.vertices[i].state]++
		}
	}
	for _, c := range []legendText{{view.Ready, "ready"}, {view.Busy, "on their way"}, {view.Idle, "not running"}, {view.Failed, "failed"}} {
		if n := seen[c.is]; n > 0 {
			if n == 1 && c.is == view.Busy {
				c.text = "on its way"
			}
			list = append(list, legendText{c.is, fmt.Sprintf("%d %s", n, c.text)})
		}
	}
	return list
}

func (s *scene) legendWidth() float64 {
	w := 0.0
	for _, t := range s.legendTexts() {
		w += noteFont.width(t.text) + 42
	}
	return w
}

func (o *svgWriter) writeLegend(y float64) {
	x := margin + 5
	for _, t := range o.s.legendTexts() {
		o.writeMark(t.is, x, y-4)
		o.writeText(x+12, y, t.text, noteFont, faint, "")
		x += noteFont.width(t.text) + 42
	}
}
