package draw

import "math"

// stressGraph must be connected.
type stressGraph struct {
	near [][]int   // the neighbours of each vertex
	size []float64 // the size of each vertex; an edge has length 1
}

// distances returns the lengths of the shortest paths from v. They include the sizes of the
// vertices on a path.
func (g *stressGraph) distances(v int) []float64 {
	d := make([]float64, len(g.near))
	for i := range d {
		d[i] = math.Inf(1)
	}
	d[v] = 0
	// A vertex may enter the queue several times. As nearly all edges have length 1, this is
	// still faster than a heap.
	queue, waiting := []int{v}, make([]bool, len(d))
	for len(queue) > 0 {
		i := queue[0]
		queue = queue[1:]
		waiting[i] = false
		for _, j := range g.near[i] {
			if n := d[i] + (g.size[i]+g.size[j])/2; n < d[j]-1e-9 {
				d[j] = n
				if !waiting[j] {
					waiting[j] = true
					queue = append(queue, j)
				}
			}
		}
	}
	return d
}

// solve returns places with distances similar to those in the graph. The result depends only
// on the graph.
func (g *stressGraph) solve() []point {
	n := len(g.near)
	d := make([][]float64, n)
	for i := range d {
		d[i] = g.distances(i)
	}
	at := g.start(d)
	sweeps := max(6, min(240, 24_000_000/(n*n)))
	for range sweeps {
		moved := 0.0
		for i := range at {
			sum, weight := point{}, 0.0
			for j := range at {
				if i == j {
					continue
				}
				w := 1 / (d[i][j] * d[i][j])
				apart := at[i].sub(at[j])
				length := max(apart.length(), 1e-6)
				sum = sum.add(at[j].add(apart.times(d[i][j] / length)).times(w))
				weight += w
			}
			to := sum.times(1 / weight)
			moved = max(moved, at[i].to(to))
			at[i] = to
		}
		if moved < 0.002 {
			break
		}
	}
	return at
}

// start returns the places with which solve begins (pivot MDS). It measures distances from a
// few vertices that are far apart, and uses the two main directions of these distances. The
// parameter d has the distances in the graph.
func (g *stressGraph) start(d [][]float64) []point {
	n := len(d)
	pivots := []int{0}
	for len(pivots) < min(n, 12) {
		far, most := 0, -1.0
		for i := range n {
			least := math.Inf(1)
			for _, p := range pivots {
				least = min(least, d[p][i])
			}
			if least > most+1e-9 {
				far, most = i, least
			}
		}
		pivots = append(pivots, far)
	}
	k := len(pivots)
	// Squared distances, with the means of rows and columns taken out.
	m := make([][]float64, n)
	column, all := make([]float64, k), 0.0
	for i := range m {
		m[i] = make([]float64, k)
		for j, p := range pivots {
			m[i][j] = d[p][i] * d[p][i]
			column[j] += m[i][j] / float64(n)
			all += m[i][j] / float64(n*k)
		}
	}
	for i := range m {
		row := 0.0
		for j := range m[i] {
			row += m[i][j] / float64(k)
		}
		for j := range m[i] {
			m[i][j] = (row + column[j] - m[i][j] - all) / 2
		}
	}
	x := direction(m, nil)
	y := direction(m, x)
	at := make([]point, n)
	for i := range at {
		at[i] = point{dot(m[i], x), dot(m[i], y)}
	}
	// Scale to the distances in the graph; move vertices with equal places apart.
	spread, want := 0.0, 0.0
	for i := range at {
		spread += at[i].length()
		want += d[pivots[0]][i]
	}
	scale := want / max(spread, 1e-9)
	for i := range at {
		turn := float64(i) * 2.399963 // the golden angle
		at[i] = at[i].times(scale).add(point{math.Cos(turn), math.Sin(turn)}.times(0.05))
	}
	return at
}

// direction returns the main direction of the columns of m by power iteration. The result is
// orthogonal to the parameter previous, unless that is nil.
func direction(m [][]float64, previous []float64) []float64 {
	k := len(m[0])
	v := make([]float64, k)
	for j := range v {
		v[j] = 1 + 0.37*math.Sin(float64(3*j+1))
	}
	for range 60 {
		if previous != nil {
			along := dot(v, previous)
			for j := range v {
				v[j] -= along * previous[j]
			}
		}
		next := make([]float64, k)
		for i := range m {
			along := dot(m[i], v)
			for j := range v {
				next[j] += along * m[i][j]
			}
		}
		length := math.Sqrt(dot(next, next))
		if length < 1e-12 {
			break
		}
		for j := range v {
			v[j] = next[j] / length
		}
	}
	return v
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}
