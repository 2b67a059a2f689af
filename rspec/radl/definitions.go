package radl

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"patchbay/am/display"
	"patchbay/rspec"
)

// definitions are what the document and the earlier ones of the slice define. Of several with
// one name, the first network counts, and the latest system, recipe or ansible sentence.
type definitions struct {
	networkBlocks, systemBlocks, ansibles map[string]*Block
	recipes                               map[string]*Recipe
	// plan is nil if no document has one.
	plan *Plan
	// ranges are the address ranges of networks, those with * with a value.
	ranges map[string]netip.Prefix
}

// define merges the documents, and refuses names that none of them defines.
func (c *compiler) define(d *Document) {
	c.definitions = definitions{map[string]*Block{}, map[string]*Block{}, map[string]*Block{}, map[string]*Recipe{}, nil, map[string]netip.Prefix{}}
	var documents []*Document
	for _, earlier := range c.o.Earlier {
		earlier, _ = earlier.WithoutSecrets() // there were warnings when it was compiled
		documents = append(documents, earlier.withoutPlaces())
	}
	documents = append(documents, d)
	var plans []*Plan
	for _, doc := range documents {
		c.merge(doc)
		if doc.Plan != nil {
			plans = append(plans, doc.Plan)
		}
	}
	c.plan = mergePlans(plans)
	c.chooseRanges(documents)
	c.checkUndefined(d)
}

// merge adds the sentences of a document to the definitions.
func (c *compiler) merge(d *Document) {
	for i := range d.Networks {
		if n := &d.Networks[i]; !n.IsReference && c.networkBlocks[n.ID] == nil {
			c.networkBlocks[n.ID] = n
		}
	}
	for i := range d.Systems {
		if s := &d.Systems[i]; !s.IsReference {
			c.systemBlocks[s.ID] = s
		}
	}
	for i := range d.Ansibles {
		if a := &d.Ansibles[i]; !a.IsReference {
			c.ansibles[a.ID] = a
		}
	}
	for i := range d.Recipes {
		if r := &d.Recipes[i]; !r.IsReference {
			c.recipes[r.ID] = r
		}
	}
}

// withoutPlaces returns a copy of d without places, which are not in the source that is compiled.
func (d *Document) withoutPlaces() *Document {
	cleared := Document{Recipes: slices.Clone(d.Recipes)}
	blocks := func(list []Block) []Block {
		list = slices.Clone(list)
		for i := range list {
			b := &list[i]
			b.Place, b.Features, b.Soft = Place{}, featuresWithoutPlaces(b.Features), slices.Clone(b.Soft)
			for k := range b.Soft {
				b.Soft[k].Place, b.Soft[k].Features = Place{}, featuresWithoutPlaces(b.Soft[k].Features)
			}
		}
		return list
	}
	cleared.Ansibles, cleared.Networks, cleared.Systems = blocks(d.Ansibles), blocks(d.Networks), blocks(d.Systems)
	for i := range cleared.Recipes {
		cleared.Recipes[i].Place, cleared.Recipes[i].TextLine = Place{}, 0
	}
	if d.Plan != nil {
		p := *d.Plan
		p.Place, p.Options, p.Items = Place{}, featuresWithoutPlaces(p.Options), slices.Clone(p.Items)
		for i := range p.Items {
			p.Items[i].Place = Place{}
		}
		cleared.Plan = &p
	}
	return &cleared
}

func featuresWithoutPlaces(list []Feature) []Feature {
	list = slices.Clone(list)
	for i := range list {
		list[i].Place, list[i].Value.Group = Place{}, featuresWithoutPlaces(list[i].Value.Group)
	}
	return list
}

// undefined collects the names that a document uses and no document defines.
type undefined struct {
	names map[string]bool
	first Place
}

func (u *undefined) add(kind, name string, at Place) {
	if key := kind + " " + name; !u.names[key] {
		u.names[key] = true
		if u.first.Line == 0 || at.Line < u.first.Line {
			u.first = at
		}
	}
}

// checkUndefined refuses the names that the document d uses and no document defines, in one error.
func (c *compiler) checkUndefined(d *Document) {
	u := undefined{names: map[string]bool{}}
	reference := "" // the first sentence without parentheses
	refer := func(kind, id string, at Place) {
		reference = cmp.Or(reference, kind+" "+display.Cut(id, 80))
		u.add(kind, id, at)
	}
	for _, b := range d.Networks {
		if c.networkBlocks[b.ID] == nil {
			refer("network", b.ID, b.Place)
		}
	}
	for _, b := range d.Systems {
		if c.systemBlocks[b.ID] == nil {
			refer("system", b.ID, b.Place)
		}
	}
	for _, b := range d.Ansibles {
		if c.ansibles[b.ID] == nil {
			refer("ansible", b.ID, b.Place)
		}
	}
	for _, r := range d.Recipes {
		if c.recipes[r.ID] == nil {
			refer("configure", r.ID, r.Place)
		}
	}
	c.checkDeploys(d.Deploys, &u)
	if c.plan != nil {
		for _, item := range c.plan.Items {
			if c.systemBlocks[item.System] == nil {
				u.add("system", item.System, item.Place)
			}
			if c.recipes[item.Recipe] == nil {
				u.add("configure", item.Recipe, item.Place)
			}
		}
	}
	if len(u.names) > 0 {
		c.refuseUndefined(&u, reference)
	}
}

// refuseUndefined refuses the names in u. reference is a sentence that refers to an earlier document, or empty.
func (c *compiler) refuseUndefined(u *undefined, reference string) {
	list := sorted(u.names)
	more := ""
	if len(list) > 10 {
		list, more = list[:10], " and others"
	}
	for i := range list {
		list[i] = display.Cut(list[i], 80)
	}
	remedy := "define it here, or give the earlier documents of the slice (compile --with FILE)"
	if name, isSystem := strings.CutPrefix(list[0], "system "); reference != "" {
		remedy = "write " + reference + " () to define it here; without parentheses it is that of an earlier document of the slice (compile --with FILE)"
	} else if isSystem && len(list) == 1 {
		if near := display.Suggest(name, sorted(c.systemBlocks)); near != "" {
			remedy = "did you mean " + display.Cut(near, 80) + "? Or " + remedy
		}
	}
	c.refuse(rspec.BadArgs, u.first, remedy, "no document defines %s%s", strings.Join(list, ", "), more)
}

// checkDeploys adds to u what the deployed systems refer to and no document defines. A system of which no nodes are
// deployed need not exist.
func (c *compiler) checkDeploys(list []Deploy, u *undefined) {
	for _, s := range list {
		b := c.systemBlocks[s.System]
		if b == nil && s.Count > 0 {
			u.add("system", s.System, s.Place)
		}
		if b == nil {
			continue
		}
		for i := range b.Features {
			f := &b.Features[i]
			name := f.Value.Text
			if strings.HasPrefix(f.Name, "net_interface.") && strings.HasSuffix(f.Name, ".connection") && c.networkBlocks[name] == nil {
				u.add("network", name, s.Place)
			}
			if f.Name == "ansible_host" && name != "" && c.ansibles[name] == nil {
				u.add("ansible", name, f.Place)
			}
		}
	}
}

// find returns the last feature with the name.
func (b *Block) find(name string) (f *Feature, ok bool) {
	for i := range b.Features {
		if b.Features[i].Name == name {
			f = &b.Features[i]
		}
	}
	return f, f != nil
}

// text returns the text of a feature; empty if there is none.
func (b *Block) text(name string) string {
	if f, ok := b.find(name); ok {
		return cmp.Or(f.Value.Text, f.Value.Number)
	}
	return ""
}
