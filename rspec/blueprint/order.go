package blueprint

import (
	"slices"
	"strings"

	"patchbay/rspec"
	"patchbay/rspec/step"
)

// order gives each part its stage: after the stages of the components that it refers to.
func (c *compiler) order() {
	for _, p := range c.parts {
		if c.stageOf(p, nil); c.stopped() {
			return
		}
	}
}

// stageOf computes the stage of p, and first the stages of all that it refers to. path has the parts whose stages are
// being computed. If p is one of them, stageOf refuses the circle. The relation to a target also comes after the
// software that is hosted on the target.
func (c *compiler) stageOf(p *part, path []*part) int {
	path = append(path, p)
	if p.state == 1 {
		var names []string
		for _, q := range path[slices.Index(path, p):] {
			names = append(names, q.label)
		}
		c.wrong(p.at, "remove one of these requirements", "the components require each other: %.400s", strings.Join(names, " -> "))
		p.state = 2
	}
	if p.state == 2 || c.stopped() {
		return p.stage
	}
	p.state = 1
	for _, n := range p.requirements {
		for _, t := range n.targets {
			after := c.stageOf(t, path)
			if n.kind.effect == byRelation && t.kind.form != isNetwork {
				after++
				if !n.kind.host {
					if c.compared += len(t.pointing); c.compared > maxOrder {
						c.refuse(rspec.TooBig, p.at, "divide the blueprint", "the blueprint has too many relations")
						return 0
					}
					for _, h := range t.pointing {
						if h.kind.host && h.source != p {
							after = max(after, c.stageOf(h.source, path)+1)
						}
					}
				}
			}
			p.stage = max(p.stage, after)
		}
	}
	if p.state = 2; p.stage > step.MaxStage {
		c.wrong(p.at, "shorten the chain of requirements", "the component %.80q comes after %d stages", p.label, step.MaxStage)
	}
	return p.stage
}
