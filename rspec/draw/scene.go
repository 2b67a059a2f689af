package draw

import "patchbay/rspec/view"

type shape int

const (
	nodeShape    shape = iota
	stackShape         // a group of nodes
	hubShape           // a link that is not drawn as a line
	missingShape       // an interface or aggregate that the document names but does not contain
)

type vertex struct {
	rect
	shape shape
	// frame is a manager's number, or -1 for a vertex between the frames.
	frame int
	lines []line
	title string
	state view.Condition
	// stateWord is the state as the document writes it; "" for a group of nodes.
	stateWord string
	// bars are the thick lines of a hub that is drawn as a bus.
	bars [][2]point
	// stubEnds are the points where the stubs of a node meet the bars of a bus.
	stubEnds []point
}

type line struct {
	text string
	font font
	dim  bool
}

type edge struct {
	from, to int
	// near are the labels at the two ends, and middle are the lines of the label between them.
	near   [2]string
	middle []string
	title  string
	// trunk marks a line between parts of one hub, and bundle a line that stands for several
	// links.
	trunk, bundle bool
	// stub is 0 unless the edge is a line from a node to a bus. Then the edge ends at
	// stubEnds[stub-1] of the node.
	stub  int
	path  []point
	drawn string // the path in SVG syntax
}

// scene is the graph that is drawn, with the places that the layout gives it.
type scene struct {
	document *view.Document
	vertices []vertex
	edges    []edge
	framed   bool
	frames   []rect
	// titleAtRight says which frames have their title at the right.
	titleAtRight   []bool
	heading, notes []string
	hidesHeading   bool
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

func (s *scene) add(v vertex) int {
	s.vertices = append(s.vertices, v)
	return len(s.vertices) - 1
}

func (v *vertex) transform(f func(point) point) {
	v.point = f(v.point)
	for i := range v.stubEnds {
		v.stubEnds[i] = f(v.stubEnds[i])
	}
	for i, w := range v.bars {
		v.bars[i] = [2]point{f(w[0]), f(w[1])}
	}
}

// layOut places everything. Lines need the places of boxes, labels those of lines, and the page those of all.
func (s *scene) layOut() {
	s.placeBoxes()
	s.routeLines()
	s.placeLabels()
	s.fitPage()
}

func newScene(d *view.Document) *scene {
	s := &scene{document: d, framed: len(d.Managers) > 1}
	b := builder{scene: s, groups: groupNodes(d), outside: map[string]int{}}
	b.grouped = groupOf(b.groups)
	b.addBoxes()
	b.addLinks()
	s.heading = b.headings()
	return s
}
