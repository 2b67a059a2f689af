package rspec

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"patchbay/rspec/match"
	"patchbay/rspec/step"
	"patchbay/schemas/xmltree"
)

const (
	maxStepName  = 80                // bytes
	maxParameter = 256               // bytes of a name
	maxDeadline  = 30 * 24 * 60 * 60 // seconds
	// maxExpanded limits what the steps of all nodes repeat, in bytes: parameters and files of
	// artifacts, which a short request can use very often.
	maxExpanded = 4 << 20
	// maxEnvironment limits the variables of one step, in bytes.
	maxEnvironment = 512 << 10
	// variableBytes is what a variable takes besides its name and value.
	variableBytes = 8
)

var isFileSystem = regexp.MustCompile(`^[a-z][a-z0-9]{0,15}$`).MatchString

// stepElements are the elements of a step with a relation or parameters.
type stepElements struct {
	node, step  int // indexes of Request.Nodes and of its steps
	e, relation *xmltree.Element
	parameters  []*xmltree.Element
}

// ownAttribute returns an attribute of our extension: it has no prefix on elements of the extension.
func ownAttribute(e *xmltree.Element, name string) (string, bool) {
	space := setupSpace
	if e.Space == setupSpace {
		space = ""
	}
	v, given := e.Attr(space, name)
	return strings.TrimSpace(v), given
}

// remarkOwn adds a remark for each attribute of our extension that is not in names.
func (p *requestParser) remarkOwn(e *xmltree.Element, clientID string, names ...string) {
	space := setupSpace
	if e.Space == setupSpace {
		space = ""
	}
	for _, a := range e.Attrs {
		if a.Space == space && !slices.Contains(names, a.Local) {
			p.remark(place{e, a.Local}, clientID, "use "+strings.Join(names, ", ")+"; "+ignored, "a <%.40s> has an unknown attribute %.40q", e.Local, a.Local)
		}
	}
}

// add reads what our extension says about the step s, and adds the step to the node if it has no
// mistake. The attributes are those that the element may have.
func (r *serviceReader) add(e *xmltree.Element, s step.Step, attributes ...string) {
	q := step.Requested{Step: s, IsPlaybook: s.Script == playbookPath && e.Space == setupSpace}
	at := stepElements{node: r.node, step: len(r.n.Services.Steps), e: e}
	if !r.isPlain {
		r.remarkOwn(e, r.n.ClientID, attributes...)
		for _, name := range attributes {
			if text, given := ownAttribute(e, name); given {
				r.readAttribute(e, name, text, &q)
			}
		}
		r.readChildren(&q, &at)
	}
	if r.failed {
		return
	}
	r.n.Services.Steps = append(r.n.Services.Steps, q)
	if q.Relation != nil || q.Parameters != nil {
		r.steps = append(r.steps, at)
	}
}

// readAttribute reads an attribute of our extension with the value text into the step q. It ignores those of one
// kind of step only, which the reader of that kind reads.
func (r *serviceReader) readAttribute(e *xmltree.Element, name, text string, q *step.Requested) {
	at, id := place{e, name}, r.n.ClientID
	switch name {
	case "name":
		if q.Name = text; len(text) > maxStepName || strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) }) {
			r.wrong(at, "write one line of at most "+strconv.Itoa(maxStepName)+" bytes", "node %.80q has a step with the name %.80q", id, text)
		}
	case "order":
		n, err := strconv.Atoi(text)
		if q.Stage = n; err != nil || n < 0 || n > step.MaxStage {
			r.wrong(at, "write a whole number from 0 to "+strconv.Itoa(step.MaxStage), "node %.80q has a step with order=%.40q", id, text)
		}
	case "operation":
		q.Operation = text
		switch text {
		case step.Install, step.Configure:
		case step.Start, step.Stop, step.Uninstall:
			if q.Kind == step.Install {
				r.wrong(at, "write an execute that fetches it, or leave the operation out", "node %.80q has an install with operation=%q, which is not possible", id, text)
			}
		default:
			r.wrong(at, "use install, configure, start, stop or uninstall", "node %.80q has a step with operation=%.40q", id, text)
		}
	case "sudo", "background", "again":
		v, ok := boolean(text)
		if !ok {
			r.wrong(at, "write true or false", "node %.80q has a step with %s=%.40q", id, name, text)
		}
		switch name {
		case "sudo":
			q.AsUser = !v
		case "again":
			q.Again = v
		default:
			q.Background = &v
		}
	}
}

// readChildren reads the parameters, the relation and the files of a step.
func (r *serviceReader) readChildren(q *step.Requested, at *stepElements) {
	id, parameters := r.n.ClientID, 0
	hasFiles := at.e.Space == setupSpace && at.e.Local == "step"
	for c := range childElements(at.e) {
		switch {
		case c.Space != setupSpace:
		case hasFiles && c.Local == "file":
			r.readFile(c, q)
		case q.Kind != step.Execute || c.Local != "parameter" && c.Local != "relation":
			remedy := "use parameter or relation; "
			switch {
			case hasFiles:
				remedy = "use parameter, relation or file; "
			case q.Kind != step.Execute:
				remedy = ""
			}
			r.remark(place{c, ""}, id, remedy+ignored, "node %.80q has a <%.40s> with an unknown element <%.40s>", id, at.e.Local, c.Local)
		case c.Local == "parameter":
			if p, ok := r.readParameter(c, &parameters); ok {
				q.Parameters = append(q.Parameters, p)
				at.parameters = append(at.parameters, c)
			}
		case q.Relation != nil:
			r.wrong(place{c, ""}, "write another step for the other node", "node %.80q has a step with several relations", id)
		default:
			q.Relation, at.relation = r.readRelation(c), c
		}
	}
}

// readParameter reads a parameter of a step or node. ok is false after a mistake. count is the number of
// parameters in the same place: readParameter raises it, and refuses the first one beyond the limit.
func (r *serviceReader) readParameter(e *xmltree.Element, count *int) (p step.Parameter, ok bool) {
	id := r.n.ClientID
	r.remarkOwn(e, id, "name", "value")
	p.Name = trimmed(e, "name")
	text, given := e.Attr("", "value")
	p.Value = text
	*count++
	switch {
	case *count == r.o.Limits.Services+1:
		r.refuseStep(TooBig, place{e, ""}, raiseRemedy("put them into a file that is fetched", "services"), "node %.80q has more than %d parameters in one place", id, r.o.Limits.Services)
	case *count > r.o.Limits.Services:
		r.failed = true
	case p.Name == "" || len(p.Name) > maxParameter:
		r.wrong(place{e, "name"}, "give it a name of at most "+strconv.Itoa(maxParameter)+" bytes", "node %.80q has a parameter with the name %.40q", id, p.Name)
	case !given:
		r.wrong(place{e, ""}, `add value="…"; it may be empty`, "node %.80q has a parameter %.40q without a value", id, p.Name)
	case len(text) > r.o.Limits.Command:
		r.refuseStep(TooBig, place{e, "value"}, raiseRemedy("put it into a file that is fetched", "command"), "node %.80q has a parameter whose value has more than %d bytes", id, r.o.Limits.Command)
	default:
		return p, true
	}
	return p, false
}

func (r *serviceReader) readRelation(e *xmltree.Element) *step.Relation {
	id := r.n.ClientID
	r.remarkOwn(e, id, "client_id", "on")
	relation := step.Relation{ClientID: value(e, "client_id")}
	switch on := trimmed(e, "on"); on {
	case "", "source":
	case "target":
		relation.OnTarget = true
	default:
		r.wrong(place{e, "on"}, "use source or target", "node %.80q has a relation with on=%.40q", id, on)
	}
	if relation.ClientID == "" {
		r.wrong(place{e, "client_id"}, "name the other node", "node %.80q has a relation without a client_id", id)
	}
	return &relation
}

func (r *serviceReader) readUserData(e *xmltree.Element) {
	body := r.readBody(e)
	s := step.Step{Kind: step.UserData, URL: dataURL(body)}
	if namesInterpreter(body) {
		s = scriptOf(body, "", scriptPath)
	}
	r.add(e, s, "name")
}

func (r *serviceReader) readDisk(e *xmltree.Element) {
	id := r.n.ClientID
	d := step.Step{Kind: step.Disk, InstallPath: trimmed(e, "mount_path"), FileSystem: trimmed(e, "fstype"), URL: trimmed(e, "image")}
	if d.FileSystem == "" {
		d.FileSystem = "ext4"
	}
	size, err := match.SizeOf(trimmed(e, "size"))
	if d.Size = (size + 1<<20 - 1) >> 20; err != nil || d.Size == 0 {
		r.wrong(place{e, "size"}, `write a size such as "20G"`, "node %.80q has a disk with size=%.40q", id, value(e, "size"))
	}
	if !strings.HasPrefix(d.InstallPath, "/") || strings.Trim(d.InstallPath, "/") == "" || len(d.InstallPath) > maxPath {
		r.wrong(place{e, "mount_path"}, "use an absolute path such as /data", "node %.80q has a disk with the mount_path %.80q", id, d.InstallPath)
	}
	if len(d.URL) > maxPath {
		r.wrong(place{e, "image"}, "give the name or URL of a disk image", "node %.80q has a disk whose image has more than %d bytes", id, maxPath)
	}
	if !isFileSystem(d.FileSystem) {
		r.wrong(place{e, "fstype"}, "name a type of file system, such as ext4", "node %.80q has a disk with the fstype %.40q", id, d.FileSystem)
	}
	if device := trimmed(e, "device"); device != "" {
		r.remark(place{e, "device"}, id, ignored, "node %.80q asks for the device %.40q, but the site chooses the device", id, device)
	}
	r.add(e, d, "name", "size", "mount_path", "fstype", "device", "image")
}

// checkProperties checks the names of the node's properties.
func (r *serviceReader) checkProperties() {
	s := &r.n.Services
	if at, err := (&step.Requested{Parameters: s.Properties}).CheckNames(nil, nil); err != nil {
		r.badArgs(place{r.properties[at], ""}, r.n.ClientID, "rename it", "node %.80q: %v", r.n.ClientID, err)
		s.Properties = nil
	}
}

// readPlan reads a child of the root in our namespace.
func (p *requestParser) readPlan(e *xmltree.Element) {
	if e.Local != "plan" {
		p.remark(place{e, ""}, "", "use plan, or move it into the <services> of a node; "+ignored, "the request has an unknown element <%.40s>", e.Local)
		return
	}
	p.remarkOwn(e, "", "deadline", "ansible")
	if version := trimmed(e, "ansible"); version != "" && p.r.AnsibleVersion == "" {
		if _, err := match.ParseCapability("software.ansible", version); err != nil {
			p.badArgs(place{e, "ansible"}, "", `write a version such as "2.14"`, "the plan has ansible=%.40q", version)
		}
		p.r.AnsibleVersion = version
	}
	text, given := e.Attr("", "deadline")
	seconds, err := strconv.Atoi(strings.TrimSpace(text))
	switch {
	case !given:
	case p.r.SetupLimit > 0:
		p.remark(place{e, ""}, "", "the first one counts", "the request has several plans")
	case err != nil || seconds < 1 || seconds > maxDeadline:
		p.badArgs(place{e, "deadline"}, "", "write a number of seconds from 1 to "+strconv.Itoa(maxDeadline), "the plan has deadline=%.40q", text)
	default:
		p.r.SetupLimit = time.Duration(seconds) * time.Second
	}
}

// checkSteps checks what depends on other nodes: relations, names of parameters, and the size of all variables
// together. It removes steps with a mistake, unless the request is refused for its size.
func (p *requestParser) checkSteps() {
	last := make([]int, len(p.r.Nodes))       // the last stage of each node's steps without a relation
	properties := make([]int, len(p.r.Nodes)) // bytes
	for i := range p.r.Nodes {
		s := &p.r.Nodes[i].Services
		last[i] = -1
		properties[i] = variableSize(s.Properties)
		for j := range s.Steps {
			if q := &s.Steps[j]; q.Relation == nil {
				if q.InPlan() {
					last[i] = max(last[i], q.Stage)
				}
				if q.Kind == step.Execute && !p.addVariables(properties[i]+variableSize(q.Parameters), &p.r.Nodes[i]) {
					return
				}
			}
		}
	}
	wrong := map[int]bool{}   // nodes that have steps with a mistake
	onTarget := map[int]int{} // steps that other nodes have for a node
	for _, at := range p.steps {
		n := &p.r.Nodes[at.node]
		q := &n.Services.Steps[at.step]
		target := at.node
		if q.Relation != nil {
			var ok bool
			if target, ok = p.checkRelation(at, last); !ok {
				q.Kind, wrong[at.node] = "", true // marks the step; removing it now would change the indexes in p.steps
				continue
			}
			if q.Relation.OnTarget {
				if onTarget[target]++; onTarget[target]+len(p.r.Nodes[target].Services.Steps) > p.o.Limits.Services {
					p.refuse(TooBig, place{at.relation, "on"}, n.ClientID, raiseRemedy("put several commands into one", "services"), "node %.80q has more than %d steps, with those of relations from other nodes", p.r.Nodes[target].ClientID, p.o.Limits.Services)
					return
				}
			}
			if !p.addVariables(properties[at.node]+properties[target]+variableSize(q.Parameters), n) {
				return
			}
		}
		if i, err := q.CheckNames(n.Services.Properties, p.r.Nodes[target].Services.Properties); err != nil {
			p.badArgs(place{at.parameters[i], ""}, n.ClientID, "rename it", "node %.80q: %v", n.ClientID, err)
			q.Kind, wrong[at.node] = "", true
		}
	}
	for i := range wrong {
		s := &p.r.Nodes[i].Services
		s.Steps = slices.DeleteFunc(s.Steps, func(q step.Requested) bool { return q.Kind == "" })
	}
}

func variableSize(list []step.Parameter) (n int) {
	for _, p := range list {
		n += len(p.Name) + len(p.Value) + variableBytes
	}
	return n
}

// addVariables is expand for the variables of one step, which have a limit of their own.
func (p *requestParser) addVariables(bytes int, n *Node) bool {
	if bytes > maxEnvironment {
		p.refuse(TooBig, place{p.r.doc.elements[n.element], ""}, n.ClientID, "put them into a file that is fetched", "the parameters of a step of node %.80q take more than %d bytes", n.ClientID, maxEnvironment)
		return false
	}
	return p.expand(bytes, n.element)
}

// expand counts bytes that a step of a node repeats. If all steps together repeat too many, it returns false, and
// the first time it refuses the request at the node, whose element has the index node.
func (p *requestParser) expand(bytes, node int) bool {
	before := p.expanded
	if p.expanded += bytes; p.expanded <= maxExpanded {
		return true
	}
	if before > maxExpanded {
		return false
	}
	p.refuse(TooBig, place{p.r.doc.elements[node], ""}, "", "use fewer parameters and files, or request fewer nodes at a time", "the parameters and files of all steps take more than %d bytes, counted for each step", maxExpanded)
	return false
}

// checkRelation checks the relation of a step, and returns the index of its target. ok is false after a mistake.
// last has the last stage of each node's steps without a relation, after which the step must come.
func (p *requestParser) checkRelation(at stepElements, last []int) (target int, ok bool) {
	n := &p.r.Nodes[at.node]
	q := &n.Services.Steps[at.step]
	name := q.Relation.ClientID
	here := place{at.relation, "client_id"}
	target, known := p.r.numbers[name]
	_, exists := p.nodeNames.seen[name]
	order := "order"
	if at.e.Space != setupSpace {
		order = "setup:order"
	}
	switch {
	case !known && exists:
		p.refuse(Unsupported, here, n.ClientID, "name a node of this aggregate", "node %.80q has a relation to %.80q, a node of another aggregate", n.ClientID, name)
	case !known:
		p.badArgs(here, n.ClientID, "name a node of this request", "node %.80q has a relation to %.80q, but there is no such node", n.ClientID, name)
	case target == at.node:
		p.badArgs(here, n.ClientID, "name another node, or leave the relation out", "node %.80q has a relation to itself", n.ClientID)
	case q.InPlan() && q.Stage <= last[target] && last[target] == step.MaxStage:
		p.badArgs(place{at.e, "order"}, n.ClientID, "give the steps of that node a lower "+order, "node %.80q has a step with a relation to %.80q, whose steps end with the last stage, order %d", n.ClientID, name, step.MaxStage)
	case q.InPlan() && q.Stage <= last[target]:
		p.badArgs(place{at.e, "order"}, n.ClientID, "give it "+order+`="`+strconv.Itoa(last[target]+1)+`"`, "node %.80q has a step of order %d with a relation to %.80q, whose steps end with order %d", n.ClientID, q.Stage, name, last[target])
	default:
		return target, true
	}
	return target, false
}
