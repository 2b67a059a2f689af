package draw

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"patchbay/am/display"
	"patchbay/rspec/view"
)

// The colours are muted and distinguishable with colour blindness. No information depends on
// colour alone.
const (
	ink         = "#1f2933"
	faint       = "#52606d"
	rule        = "#7b8794"
	edgeInk     = "#8a97a6"
	boxFill     = "#ffffff"
	boxRule     = "#7b8794"
	hubFill     = "#e6eef8"
	hubRule     = "#5b7ea6"
	missingRule = "#b0543c"
	paper       = "#ffffff"
)

var tints = []string{"#f4f7fb", "#fbf7ef", "#f3f9f5", "#f9f4f9", "#f5f6f6"}

// stateColours are the colours of states; each state also has its own shape.
var stateColours = map[view.Condition]string{view.Ready: "#007f5f", view.Busy: "#c77700", view.Idle: "#6b7785", view.Failed: "#c0392b"}

const fontFamily = `"Helvetica Neue",Helvetica,Arial,"Liberation Sans","DejaVu Sans",sans-serif`

// SVGOptions are for a drawing that is a part of a page. The zero value is for one that stands alone.
type SVGOptions struct {
	// Title replaces the heading, and is not drawn.
	Title string
	// Class returns the class of a node's box for its state; nil means no classes.
	Class func(state string) string
}

// SVG writes a self-contained drawing of d: no scripts, no references, no fonts to
// load. It returns the error of w.
func SVG(w io.Writer, d *view.Document, o SVGOptions) error {
	s := newScene(d)
	if o.Title != "" {
		s.heading, s.hidesHeading = []string{o.Title}, true
	}
	s.layOut()
	out := &svgWriter{w: bufio.NewWriter(w), s: s, class: o.Class}
	out.writeDocument()
	return out.w.Flush()
}

// fitPage computes the size of the page with its heading, notes and legend, and moves boxes, frames and labels below
// the heading. Lines are moved by s.shift when they are written. It also adds the last notes.
func (s *scene) fitPage() {
	all := rect{}
	for i := range s.vertices {
		v := &s.vertices[i]
		all = all.union(v.rect)
		if v.shape == stackShape {
			all = all.union(v.rect.grown(6)) // the stack is drawn beyond its box
		}
		for _, w := range v.bars {
			all = all.union(spanned(w[0], w[1]).grown(1))
		}
	}
	for _, f := range s.frames {
		all = all.union(f)
	}
	for _, l := range s.labels {
		all = all.union(l.rect)
	}
	for i := range s.edges {
		for _, p := range s.edges[i].path {
			all = all.union(rect{p, 2, 2})
		}
	}
	if s.unplaced > 0 {
		s.notes = append(s.notes, display.Count(s.unplaced, "label")+" left out because there is no room; see the tooltips or the text form")
	}
	head := headFont.height() + 14
	for range s.heading[1:] {
		head += noteFont.height()
	}
	headWidth := headFont.width(s.heading[0])
	if s.hidesHeading {
		head, headWidth = 0, 0
	}
	if len(s.vertices) == 0 {
		s.notes = append(s.notes, "nothing to draw: the document holds no nodes and no links")
	}
	legend := s.legendWidth()
	wide := max(headWidth, largestOf(s.heading[1:], noteFont.width), largestOf(s.notes, noteFont.width), all.hw*2, legend)
	foot := float64(len(s.notes)) * noteFont.height()
	if legend > 0 {
		foot += 26
	}
	if foot > 0 {
		foot += 14
	}
	d := point{margin - all.left() + (wide-all.hw*2)/2, margin + head - all.top()}
	for i := range s.vertices {
		s.vertices[i].transform(d.add)
	}
	for i := range s.frames {
		s.frames[i].point = s.frames[i].point.add(d)
	}
	for i := range s.labels {
		s.labels[i].point = s.labels[i].point.add(d)
	}
	s.size = box(0, 0, wide+2*margin, 2*margin+head+all.hh*2+foot)
	s.shift = d
}

type svgWriter struct {
	w     *bufio.Writer
	s     *scene
	class func(state string) string
}

// printf formats numbers and points for SVG.
func (o *svgWriter) printf(format string, args ...any) {
	for i, a := range args {
		switch a := a.(type) {
		case float64:
			args[i] = decimal(a)
		case point:
			args[i] = coordinates(a)
		}
	}
	fmt.Fprintf(o.w, format, args...)
}

func escape(s string) string {
	var b strings.Builder
	xml.EscapeText(&b, []byte(s))
	return b.String()
}

func (o *svgWriter) writeDocument() {
	s := o.s
	w, h := s.size.hw*2, s.size.hh*2
	o.printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %v %v" width="%v" height="%v" role="img" font-family='%v' font-size="11" fill="%v">`+"\n",
		w, h, w, h, fontFamily, ink)
	o.printf("<title>%s</title>\n", escape(s.heading[0]))
	o.printf(`<rect width="100%%" height="100%%" fill="%v"/>`+"\n", paper)
	y := margin + headFont.size
	for i, t := range s.heading {
		if s.hidesHeading {
			break
		}
		if i == 0 {
			o.writeText(margin, y, t, headFont, ink, "")
			y += 4
		} else {
			o.writeText(margin, y, t, noteFont, faint, "")
		}
		y += noteFont.height() + 1
	}
	for f, r := range s.frames {
		if s.framed && r.hw > 0 {
			o.writeFrame(f, r)
		}
	}
	o.printf(`<g fill="none" stroke="%v" stroke-width="1.4" transform="translate(%v)">`+"\n", edgeInk, s.shift)
	for i := range s.edges {
		o.writeEdge(&s.edges[i])
	}
	o.printf("</g>\n")
	for i := range s.vertices {
		for _, wire := range s.vertices[i].bars {
			o.printf(`<path d="%v" stroke="%v" stroke-width="3" stroke-linecap="round"/>`+"\n", polyline(wire[:]), hubRule)
		}
	}
	for i := range s.vertices {
		o.writeVertex(&s.vertices[i])
	}
	o.printf(`<g font-size="%v" text-anchor="middle" stroke="%v" stroke-width="3" stroke-linejoin="round" paint-order="stroke">`+"\n", labelFont.size, paper)
	for _, l := range s.labels {
		y := l.top() + labelFont.size*0.98
		for _, t := range l.lines {
			o.printf(`<text x="%v" y="%v" fill="%v">%v</text>`+"\n", l.x, y, inkOf(l.dim), escape(t))
			y += labelFont.height()
		}
	}
	o.printf("</g>\n")
	y = s.size.bottom() - margin - float64(len(s.notes)-1)*noteFont.height()
	for _, t := range s.notes {
		o.writeText(margin, y, t, noteFont, faint, "")
		y += noteFont.height()
	}
	o.writeLegend(s.size.bottom() - margin - float64(len(s.notes))*noteFont.height() - 4)
	o.printf("</svg>\n")
}

func inkOf(dim bool) string {
	if dim {
		return faint
	}
	return ink
}

func (o *svgWriter) writeText(x, y float64, t string, f font, fill, anchor string) {
	extra := ""
	if f.bold {
		extra = ` font-weight="bold"`
	}
	if anchor != "" {
		extra += ` text-anchor="` + anchor + `"`
	}
	o.printf(`<text x="%v" y="%v" font-size="%v" fill="%v"%v>%v</text>`+"\n", x, y, f.size, fill, extra, escape(t))
}

func (o *svgWriter) writeFrame(f int, r rect) {
	o.printf(`<rect x="%v" y="%v" width="%v" height="%v" rx="10" fill="%v" stroke="#cbd2d9"><title>%v</title></rect>`+"\n",
		r.left(), r.top(), r.hw*2, r.hh*2, tints[f%len(tints)], escape(cleaned(o.s.document.Managers[f].URN)))
	o.writeText(o.s.titleRect(f).left()+4, r.top()+24, o.s.frameName(f), frameFont, faint, "")
}

func (o *svgWriter) writeEdge(e *edge) {
	extra := ""
	switch {
	case e.trunk:
		extra = fmt.Sprintf(` stroke="%s" stroke-width="3"`, hubRule)
	case e.bundle:
		extra = ` stroke-width="3"`
	case o.s.vertices[e.to].shape == hubShape:
		extra = fmt.Sprintf(` stroke="%s"`, hubRule)
	}
	if o.s.vertices[e.from].shape == missingShape || o.s.vertices[e.to].shape == missingShape {
		extra += ` stroke-dasharray="5 4"`
	}
	o.printf(`<path d="%v"%v><title>%v</title></path>`+"\n", e.drawn, extra, escape(e.title))
}

func (o *svgWriter) writeVertex(v *vertex) {
	class := ""
	if o.class != nil && v.stateWord != "" {
		class = fmt.Sprintf(` class="%s"`, escape(o.class(v.stateWord)))
	}
	o.printf("<g%s><title>%s</title>\n", class, escape(v.title))
	draw := func(dx, dy, radius float64, fill, stroke, extra string) {
		o.printf(`<rect x="%v" y="%v" width="%v" height="%v" rx="%v" fill="%v" stroke="%v"%v/>`+"\n",
			v.left()+dx, v.top()+dy, v.hw*2, v.hh*2, radius, fill, stroke, extra)
	}
	switch v.shape {
	case stackShape:
		draw(5, -5, 5, boxFill, boxRule, "")
		draw(2.5, -2.5, 5, boxFill, boxRule, "")
		draw(0, 0, 5, boxFill, boxRule, "")
	case hubShape:
		draw(0, 0, min(v.hh, 13), hubFill, hubRule, "")
	case missingShape:
		draw(0, 0, 5, "#fdf6f4", missingRule, ` stroke-dasharray="5 4"`)
	default:
		draw(0, 0, 5, boxFill, boxRule, "")
	}
	text := 0.0
	for _, l := range v.lines {
		text += l.font.height()
	}
	y := v.y - text/2
	for i, l := range v.lines {
		x := v.x
		base := y + l.font.size*1.02
		if i == 0 && v.state != view.Unknown {
			x += markRoom / 2
			o.writeMark(v.state, x-l.font.width(l.text)/2-markRoom+5, base-l.font.size*0.36)
		}
		o.writeText(x, base, l.text, l.font, inkOf(l.dim), "middle")
		y += l.font.height()
	}
	o.printf("</g>\n")
}
