package draw

import "math"

// point is a place on the drawing in CSS pixels; y grows downwards.
type point struct{ x, y float64 }

func (p point) add(q point) point             { return point{p.x + q.x, p.y + q.y} }
func (p point) sub(q point) point             { return point{p.x - q.x, p.y - q.y} }
func (p point) times(k float64) point         { return point{p.x * k, p.y * k} }
func (p point) scaled(q point) point          { return point{p.x * q.x, p.y * q.y} }
func (p point) max(q point) point             { return point{max(p.x, q.x), max(p.y, q.y)} }
func (p point) length() float64               { return math.Hypot(p.x, p.y) }
func (p point) to(q point) float64            { return q.sub(p).length() }
func interpolate(p, q point, t float64) point { return point{p.x + (q.x-p.x)*t, p.y + (q.y-p.y)*t} }

// rect is a rectangle: its centre and half its width and height.
type rect struct {
	point
	hw, hh float64
}

func (r rect) left() float64   { return r.x - r.hw }
func (r rect) right() float64  { return r.x + r.hw }
func (r rect) top() float64    { return r.y - r.hh }
func (r rect) bottom() float64 { return r.y + r.hh }

func (r rect) grown(m float64) rect { return rect{r.point, r.hw + m, r.hh + m} }

func (r rect) overlaps(s rect) bool {
	return math.Abs(r.x-s.x) < r.hw+s.hw && math.Abs(r.y-s.y) < r.hh+s.hh
}

func (r rect) contains(p point) bool {
	return math.Abs(r.x-p.x) < r.hw && math.Abs(r.y-p.y) < r.hh
}

// union returns the smallest rect that contains r and s. A zero rect counts as empty.
func (r rect) union(s rect) rect {
	if r == (rect{}) {
		return s
	}
	return box(min(r.left(), s.left()), min(r.top(), s.top()), max(r.right(), s.right()), max(r.bottom(), s.bottom()))
}

func box(left, top, right, bottom float64) rect {
	return rect{point{(left + right) / 2, (top + bottom) / 2}, (right - left) / 2, (bottom - top) / 2}
}

func spanned(p, q point) rect {
	return box(min(p.x, q.x), min(p.y, q.y), max(p.x, q.x), max(p.y, q.y))
}

func mean(points []point) point {
	sum := point{}
	for i := range points {
		sum = sum.add(points[i].times(1 / float64(len(points))))
	}
	return sum
}

func largestOf[T any](list []T, size func(T) float64) float64 {
	n := 0.0
	for _, v := range list {
		n = max(n, size(v))
	}
	return n
}

// cuts reports whether the line from p to q passes through the inside of r.
func (r rect) cuts(p, q point) bool {
	from, to := 0.0, 1.0
	for _, axis := range [2][3]float64{{p.x - r.x, q.x - p.x, r.hw}, {p.y - r.y, q.y - p.y, r.hh}} {
		at, step, half := axis[0], axis[1], axis[2]
		if step == 0 {
			if math.Abs(at) >= half {
				return false
			}
			continue
		}
		enter, leave := (-half-at)/step, (half-at)/step
		if enter > leave {
			enter, leave = leave, enter
		}
		from, to = max(from, enter), min(to, leave)
		if from >= to {
			return false
		}
	}
	return true
}
