package faithful_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// edit is one difference: old bytes of the request for new ones of the manifest.
type edit struct {
	what     string // attribute, child, form, text, declaration, front
	in, made *elem  // the element concerned, in the request and in the manifest
	at, mat  int    // where old and new begin
	old, new string

	oldAttr, newAttr *attr
	oldElem, newElem *elem
	// last: nothing that was kept of the tag, or of the content, comes behind it.
	last bool
}

func (e edit) String() string {
	where := e.in.path()
	if where == "" {
		where = "outside the root"
	}
	return fmt.Sprintf("%s of %s, byte %d: %.300q became %.300q", e.what, where, e.at, e.old, e.new)
}

// atom is what is kept, put in or left out as a whole: a byte of text or of
// white space in a tag, an attribute, an element, a comment.
type atom struct {
	kind       atomKind
	start, end int
	attr       *attr
	el         *elem
}

type atomKind byte

const (
	byteAtom atomKind = iota
	attrAtom
	elemAtom
	otherAtom
)

// differ compares two documents.
type differ struct {
	in, out *doc
	// fresh takes all facts of the manifest for new, even those that have equal
	// bytes in the request: where the same child was cut here and written
	// there, both readings are right.
	fresh bool
	edits []edit
}

// diff lists what changed from in to out.
func diff(in, out *doc, fresh bool) ([]edit, error) {
	d := &differ{in: in, out: out, fresh: fresh}
	if skipped := in.b[:in.declaration[0]]; len(skipped) > 0 || out.declaration[0] > 0 {
		d.edits = append(d.edits, edit{what: "front", old: string(skipped), new: out.bytes(0, out.declaration[0])})
	}
	for _, part := range [][4]int{
		{in.declaration[0], in.declaration[1], out.declaration[0], out.declaration[1]},
		{in.declaration[1], in.root.start, out.declaration[1], out.root.start},
		{in.root.end, len(in.b), out.root.end, len(out.b)},
	} {
		if o, n := in.bytes(part[0], part[1]), out.bytes(part[2], part[3]); o != n {
			d.edits = append(d.edits, edit{what: "declaration", at: part[0], mat: part[2], old: o, new: n})
		}
	}
	d.element(in.root, out.root)
	return d.edits, d.proof()
}

// proof does the edits to the request: the manifest must come of it, else this
// differ lies.
func (d *differ) proof() error {
	var b strings.Builder
	pos := 0
	edits := slices.Clone(d.edits)
	slices.SortStableFunc(edits, func(a, b edit) int { return cmp.Compare(a.mat, b.mat) })
	for _, e := range edits {
		if e.at < pos {
			return fmt.Errorf("the differ went back: %v", e)
		}
		b.Write(d.in.b[pos:e.at])
		b.WriteString(e.new)
		pos = e.at + len(e.old)
	}
	b.Write(d.in.b[pos:])
	if got := b.String(); got != string(d.out.b) {
		i := 0
		for i < min(len(got), len(d.out.b)) && got[i] == d.out.b[i] {
			i++
		}
		return fmt.Errorf("the edits make another document: at byte %d %.60q instead of %.60q", i, got[i:], d.out.b[i:])
	}
	return nil
}

// element compares two elements that are the same one.
func (d *differ) element(in, out *elem) {
	if d.in.bytes(in.start, in.end) == d.out.bytes(out.start, out.end) {
		return
	}
	d.sequence(in, out, tagAtoms(d.in, in), tagAtoms(d.out, out))
	d.sequence(in, out, contentAtoms(in), contentAtoms(out))
	if o, n := d.in.bytes(in.endTag, in.end), d.out.bytes(out.endTag, out.end); o != n {
		d.edits = append(d.edits, edit{what: "form", in: in, made: out, at: in.endTag, mat: out.endTag, old: o, new: n})
	}
}

// tagAtoms are the name, each attribute with the white space before it, and the
// bytes that end the tag.
func tagAtoms(d *doc, e *elem) []atom {
	list := []atom{{kind: otherAtom, start: e.start, end: e.start + 1 + len(e.name)}}
	pos := list[0].end
	for i := range e.attrs {
		a := &e.attrs[i]
		list = append(list, atom{kind: attrAtom, start: pos, end: a.end, attr: a})
		pos = a.end
	}
	for ; pos < e.tag; pos++ {
		list = append(list, atom{start: pos, end: pos + 1})
	}
	return list
}

func contentAtoms(e *elem) []atom {
	var list []atom
	for _, i := range e.items {
		switch i.kind {
		case element:
			list = append(list, atom{kind: elemAtom, start: i.el.start, end: i.el.end, el: i.el})
		case text:
			for pos := i.start; pos < i.end; pos++ {
				list = append(list, atom{start: pos, end: pos + 1})
			}
		default:
			list = append(list, atom{kind: otherAtom, start: i.start, end: i.end})
		}
	}
	return list
}

// opened are the elements that may have changed inside and are still the same
// ones. All others are kept as a whole, or not at all.
var opened = map[string]bool{
	"node": true, "link": true, "interface": true, "interface_ref": true, "services": true, "sliver_type": true,
	"ip": true,
}

// facts are the children that a manifest always tells anew.
var facts = map[[2]string]bool{
	{core, "host"}: true, {core, "login"}: true, {proxyExt, "proxy"}: true,
	{userExt, "services_user"}: true, {userExtPG, "services_user"}: true,
	{infoExt, "geni_sliver_info"}: true, {emulabExt, "vnode"}: true,
}

func (d *differ) same(a, b atom) bool {
	if a.kind != b.kind {
		return false
	}
	switch a.kind {
	case attrAtom:
		return a.attr.name == b.attr.name
	case elemAtom:
		if d.fresh && facts[[2]string{a.el.space, a.el.local}] {
			return false
		}
		if a.el.space == core && opened[a.el.local] {
			return a.el.name == b.el.name && b.el.space == core && a.el.get("client_id") == b.el.get("client_id")
		}
	}
	return d.in.bytes(a.start, a.end) == d.out.bytes(b.start, b.end)
}

// sequence compares the atoms of a tag or of a content.
func (d *differ) sequence(in, out *elem, a, b []atom) {
	kept := d.align(a, b)
	for i := range kept {
		kept[i][0]++ // positions from 1, with a fence on both sides
		kept[i][1]++
	}
	pairs := append([][2]int{{0, 0}}, kept...)
	pairs = append(pairs, [2]int{len(a) + 1, len(b) + 1})
	// A run of atoms left out may as well lie further to the front where the
	// atoms before it equal its last ones. There it lies, so that what was cut
	// together with the white space before it is seen as that.
	for i := len(pairs) - 2; i > 0; i-- {
		if next := pairs[i+1][0]; next-pairs[i][0] > 1 && d.in.equal(a[pairs[i][0]-1], a[next-2]) {
			pairs[i][0] = next - 1
		}
	}
	// What was put in lies as far to the end as it may.
	for i := 1; i < len(pairs)-1; i++ {
		if first := pairs[i-1][1] + 1; pairs[i][1] > first && d.out.equal(b[first-1], b[pairs[i][1]-1]) {
			pairs[i][1] = first
		}
	}
	tag := a != nil && a[0].start == in.start
	for i := 0; i+1 < len(pairs); i++ {
		if i > 0 {
			d.pair(in, out, a[pairs[i][0]-1], b[pairs[i][1]-1])
		}
		gone, added := a[pairs[i][0]:pairs[i+1][0]-1], b[pairs[i][1]:pairs[i+1][1]-1]
		if len(gone)+len(added) == 0 {
			continue
		}
		at, mat := 0, 0 // where the gap is
		if i > 0 {
			at, mat = a[pairs[i][0]-1].end, b[pairs[i][1]-1].end
		} else {
			at, mat = in.tag, out.tag
		}
		last := true
		for _, p := range pairs[i+1 : len(pairs)-1] {
			last = last && tag && a[p[0]-1].kind == byteAtom
		}
		d.gap(in, out, gone, added, at, mat, last)
	}
}

func (d *doc) equal(a, b atom) bool {
	return a.kind == b.kind && d.bytes(a.start, a.end) == d.bytes(b.start, b.end)
}

// pair compares two atoms that are the same one.
func (d *differ) pair(in, out *elem, a, b atom) {
	o, n := d.in.bytes(a.start, a.end), d.out.bytes(b.start, b.end)
	switch {
	case o == n:
	case a.kind == elemAtom:
		d.element(a.el, b.el)
	default:
		d.edits = append(d.edits, edit{what: "attribute", in: in, made: out, at: a.start, mat: b.start, old: o, new: n,
			oldAttr: a.attr, newAttr: b.attr})
	}
}

// gap turns what was left out and put in at one place into edits: one for each
// attribute and child, together with the white space before it.
func (d *differ) gap(in, out *elem, gone, added []atom, at, mat int, last bool) {
	emit := func(list []atom, text func(int, int) string, put func(what, s string, m *atom)) {
		for start := 0; start < len(list); {
			i := start
			for i < len(list) && list[i].kind == byteAtom && isBlank(text(list[i].start, list[i].end)[0]) {
				i++
			}
			what, m := "text", (*atom)(nil)
			if i < len(list) {
				switch m = &list[i]; {
				case m.kind == attrAtom:
					what = "attribute"
				case m.kind == elemAtom:
					what = "child"
				case text(m.start, m.end) == "/" && m.end <= in.tag:
					what = "form"
				}
				i++
			}
			put(what, text(list[start].start, list[i-1].end), m)
			start = i
		}
	}
	emit(gone, d.in.bytes, func(what, s string, m *atom) {
		e := edit{what: what, in: in, made: out, at: at, mat: mat, old: s, last: last}
		if m != nil {
			e.oldAttr, e.oldElem = m.attr, m.el
		}
		d.edits = append(d.edits, e)
		at += len(s)
	})
	emit(added, d.out.bytes, func(what, s string, m *atom) {
		e := edit{what: what, in: in, made: out, at: at, mat: mat, new: s, last: last}
		if m != nil {
			e.newAttr, e.newElem = m.attr, m.el
		}
		d.edits = append(d.edits, e)
		mat += len(s)
	})
}

// align finds the longest common subsequence (E. W. Myers, An O(ND) Difference
// Algorithm, 1986): pairs of places in a and b.
func (d *differ) align(a, b []atom) [][2]int {
	front := 0
	for front < len(a) && front < len(b) && d.same(a[front], b[front]) {
		front++
	}
	back := 0
	for back < len(a)-front && back < len(b)-front && d.same(a[len(a)-1-back], b[len(b)-1-back]) {
		back++
	}
	var kept [][2]int
	for i := range front {
		kept = append(kept, [2]int{i, i})
	}
	n, m := len(a)-front-back, len(b)-front-back
	var middle [][2]int
	if n > 0 && m > 0 {
		middle = d.myers(a[front:front+n], b[front:front+m])
	}
	for _, p := range middle {
		kept = append(kept, [2]int{front + p[0], front + p[1]})
	}
	for i := back; i > 0; i-- {
		kept = append(kept, [2]int{len(a) - i, len(b) - i})
	}
	return kept
}

func (d *differ) myers(a, b []atom) [][2]int {
	n, m := len(a), len(b)
	v := map[int]int{1: 0}
	var trace []map[int]int
	for depth := 0; depth <= min(n+m, 3000); depth++ { // beyond, everything is another
		old := make(map[int]int, len(v))
		for k, x := range v {
			old[k] = x
		}
		trace = append(trace, old)
		for k := -depth; k <= depth; k += 2 {
			x := 0
			if k == -depth || k != depth && v[k-1] < v[k+1] {
				x = v[k+1]
			} else {
				x = v[k-1] + 1
			}
			y := x - k
			for x < n && y < m && d.same(a[x], b[y]) {
				x, y = x+1, y+1
			}
			v[k] = x
			if x >= n && y >= m {
				return backtrack(trace, n, m)
			}
		}
	}
	return nil
}

func backtrack(trace []map[int]int, x, y int) [][2]int {
	var reversed [][2]int
	for depth := len(trace) - 1; depth >= 0; depth-- {
		v, k := trace[depth], x-y
		from := k - 1
		if k == -depth || k != depth && v[k-1] < v[k+1] {
			from = k + 1
		}
		px := v[from]
		py := px - from
		for x > px && y > py && x > 0 && y > 0 {
			x, y = x-1, y-1
			reversed = append(reversed, [2]int{x, y})
		}
		if depth > 0 {
			x, y = px, py
		}
	}
	for i, j := 0, len(reversed)-1; i < j; i, j = i+1, j-1 {
		reversed[i], reversed[j] = reversed[j], reversed[i]
	}
	return reversed
}
