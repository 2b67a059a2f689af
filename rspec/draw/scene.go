package draw

// shape is the form in which a vertex is drawn.
type shape int

const (
	nodeShape    shape = iota
	stackShape         // a group of nodes
	hubShape           // a link that is not drawn as a line
	missingShape       // an interface or aggregate that the document names but does not contain
)

// vertex is a box with its place and its text.
type vertex struct {
	rect
	shape shape
	// frame is the number of the manager whose frame contains the vertex, or -1 for
	// a vertex between the frames.
	frame int
	lines []line
	title string
	state condition
	// bars are the thick lines of a hub that is drawn as a bus.
	bars [][2]point
	// stubEnds are the points where the stubs of a node meet the bars of a bus.
	stubEnds []point
}

// line is one line of text in a box.
type line struct {
	text string
	font font
	dim  bool
}

// edge is a line between two vertices.
type edge struct {
	from, to int
	// near are the labels at the two ends. middle are the lines of the label between
	// the ends.
	near   [2]string
	middle []string
	title  string
	// trunk marks a line that joins the parts of one hub; bundle marks a line
	// that stands for several links.
	trunk, bundle bool
	// stub is 0 unless the edge is a line from a node to a bus. Then the edge ends at
	// stubEnds[stub-1] of the node.
	stub  int
	path  []point
	drawn string // the path in SVG syntax
}

// scene is the graph that is placed and drawn.
type scene struct {
	picture  *Picture
	vertices []vertex
	edges    []edge
	framed   bool // each manager has a frame
	frames   []rect
	// titleAtRight reports for each frame whether its title stands at the right.
	titleAtRight []bool
	// heading and notes are the lines above and below the drawing.
	heading, notes []string
	labels         []label
	// unplaced is the number of labels for which no place was found.
	unplaced int
	size     rect
	// shift is the distance by which everything was moved after routing.
	shift point
}

const (
	maxBoxes = 400  // maximal number of drawn boxes of nodes, and of hubs
	maxEdges = 4000 // maximal number of drawn lines
)

var (
	nameFont   = font{13, true}
	detailFont = font{11, false}
	labelFont  = font{10, false}
	hubFont    = font{11, true}
	headFont   = font{16, true}
	noteFont   = font{12, false}
)

// add appends a vertex and returns its number.
func (s *scene) add(v vertex) int {
	s.vertices = append(s.vertices, v)
	return len(s.vertices) - 1
}

// transform applies f to the places of a vertex, its bars and its stub ends.
func (v *vertex) transform(f func(point) point) {
	v.point = f(v.point)
	for i := range v.stubEnds {
		v.stubEnds[i] = f(v.stubEnds[i])
	}
	for i, w := range v.bars {
		v.bars[i] = [2]point{f(w[0]), f(w[1])}
	}
}

// layOut computes the places of boxes, lines and labels, and the page size.
func (s *scene) layOut() {
	s.placeBoxes()
	s.routeLines()
	s.placeLabels()
	s.fitPage()
}

// newScene builds the boxes and lines of a picture, without places.
func newScene(p *Picture) *scene {
	s := &scene{picture: p, framed: len(p.Managers) > 1}
	b := builder{scene: s, groups: groupNodes(p), outside: map[string]int{}}
	b.grouped = groupOf(b.groups)
	b.addBoxes()
	b.addLinks()
	s.heading = b.headings()
	return s
}
