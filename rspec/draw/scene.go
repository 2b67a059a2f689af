package draw

// shape is what a vertex looks like.
type shape int

const (
	nodeShape  shape = iota
	stackShape       // a group of nodes
	hubShape         // a link that is no line
	ghostShape       // what the document names and does not hold
)

// vertex is a thing with a place: a box, and what is written on it.
type vertex struct {
	rect
	shape shape
	// frame is the number of the manager, -1 for between the frames.
	frame int
	lines []line
	title string
	state condition
	// wires are the lines of a hub that is drawn as a bus.
	wires [][2]point
	// feet are where the stubs of a node on a bus end.
	feet []point
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
	// near are the labels at the ends, middle those between.
	near   [2]string
	middle []string
	title  string
	// trunk joins the parts of one hub; bundle stands for several links.
	trunk, bundle bool
	// stub hangs a node on a bus: the number of its foot, from 1; else 0.
	stub  int
	path  []point
	drawn string // the path, in SVG's words
}

// scene is the graph that is laid out and drawn.
type scene struct {
	picture  *Picture
	vertices []vertex
	edges    []edge
	framed   bool // each manager has a frame
	frames   []rect
	// rightward tells of each frame whether its title stands at the right.
	rightward []bool
	// heading and notes are written above and below.
	heading, notes []string
	labels         []label
	// left is the number of labels without a place.
	left int
	size rect
	// shift is how far everything was moved after the lines were drawn.
	shift point
}

const (
	maxBoxes = 400  // boxes of nodes, then hubs, that are drawn
	maxEdges = 4000 // lines
)

var (
	nameFont   = font{13, true}
	detailFont = font{11, false}
	labelFont  = font{10, false}
	hubFont    = font{11, true}
	headFont   = font{16, true}
	noteFont   = font{12, false}
)

// add adds a vertex, and gives its number.
func (s *scene) add(v vertex) int {
	s.vertices = append(s.vertices, v)
	return len(s.vertices) - 1
}

// transform gives everything of a vertex a new place.
func (v *vertex) transform(f func(point) point) {
	v.point = f(v.point)
	for i := range v.feet {
		v.feet[i] = f(v.feet[i])
	}
	for i, w := range v.wires {
		v.wires[i] = [2]point{f(w[0]), f(w[1])}
	}
}

// complete gives everything its place.
func (s *scene) complete() {
	s.lay()
	s.route()
	s.letter()
	s.frameUp()
}

// newScene makes boxes and lines of a picture.
func newScene(p *Picture) *scene {
	s := &scene{picture: p, framed: len(p.Managers) > 1}
	b := builder{scene: s, groups: groupNodes(p), outside: map[string]int{}}
	b.grouped = boxOf(b.groups)
	b.boxes()
	b.links()
	s.heading = b.headings()
	return s
}
