package manifesttest_test

import (
	"fmt"
	"slices"
	"strings"

	"patchbay/rspec"
)

// mayChange are the attributes of an own element that a manifest may set, change
// or drop, and whether it may in this request (RSpec digest, "Request → manifest").
var mayChange = map[string]map[string]func(asked *elem) bool{
	"rspec": {"type": always, "generated": always, "generated_by": always, "expires": always},
	"node": {
		"component_id": unless("component_id"), "component_manager_id": unless("component_manager_id"),
		"component_name": always, "sliver_id": always, "exclusive": always,
	},
	"sliver_type":   {"name": unless("name")},
	"interface":     {"component_id": always, "mac_address": always, "sliver_id": always},
	"ip":            {"address": unless("address"), "netmask": unless("address"), "type": unless("type")},
	"link":          {"vlantag": always, "sliver_id": always},
	"interface_ref": {"sliver_id": always, "component_id": always},
}

// mayGo are the children of an own element that come from an earlier manifest. A manifest omits them
// and may write new ones at the end of the element.
var mayGo = map[string][][2]string{
	"node":     {{core, "host"}, {infoExt, "geni_sliver_info"}, {emulabExt, "vnode"}},
	"services": {{core, "login"}, {userExt, "services_user"}, {userExtPG, "services_user"}, {proxyExt, "proxy"}},
}

// mayCome are those that it may put at the end where the request has none.
var mayCome = map[string][]string{
	"node": {"sliver_type", "hardware_type", "services"}, "sliver_type": {"disk_image"}, "interface": {"ip"}, "link": {"component_manager"},
}

func always(*elem) bool { return true }

// unless allows an edit if the request has no such attribute.
func unless(name string) func(*elem) bool {
	return func(asked *elem) bool { return strings.TrimSpace(asked.get(name)) == "" }
}

// inside are the own elements in an own element.
var inside = map[string][]string{
	"node": {"services", "sliver_type", "interface"}, "interface": {"ip"}, "link": {"interface_ref"},
}

// pair is an own element of a request and the same one of the manifest.
type pair struct {
	role        string
	asked, made *elem
}

// comparison is a request with its manifest.
type comparison struct {
	in, out *doc
	own     map[*elem]*pair
}

// newComparison pairs the own elements: those of the own nodes and links of the parsed request.
func newComparison(in, out *doc, r *rspec.Request) (*comparison, error) {
	c := &comparison{in, out, map[*elem]*pair{}}
	c.pair("rspec", in.root, out.root)
	names := map[string][]string{}
	for _, n := range r.Nodes {
		names["node"] = append(names["node"], n.ClientID)
	}
	for _, l := range r.Links {
		names["link"] = append(names["link"], l.ClientID)
	}
	for role, ids := range names {
		asked, made := named(in, role, ids), named(out, role, ids)
		if len(asked) != len(ids) || len(made) != len(ids) {
			return nil, fmt.Errorf("%d own %ss, %d in the request and %d in the manifest", len(ids), role, len(asked), len(made))
		}
		for i := range asked {
			c.pair(role, asked[i], made[i])
		}
	}
	return c, nil
}

func named(d *doc, role string, ids []string) []*elem {
	return slices.DeleteFunc(d.root.all(core, role), func(e *elem) bool { return !slices.Contains(ids, e.get("client_id")) })
}

func (c *comparison) pair(role string, asked, made *elem) {
	p := &pair{role, asked, made}
	c.own[asked], c.own[made] = p, p
	for _, kind := range inside[role] {
		before, after := asked.all(core, kind), made.all(core, kind)
		for i := range min(len(before), len(after)) {
			c.pair(kind, before[i], after[i])
		}
	}
}

// rest is a document without the parts that the list lets change.
type rest struct {
	*comparison
	d    *doc
	text strings.Builder
	kept [][2]int // where it comes from
}

// rest returns the request or the manifest without the parts that the list lets change.
func (c *comparison) rest(d *doc) *rest {
	r := &rest{comparison: c, d: d}
	declaration := d.bytes(d.declaration[0], d.declaration[1])
	if d == c.in {
		r.text.WriteString(strings.Replace(declaration, "1.1", "1.0", 1))
	} else {
		r.keep(0, d.declaration[1]) // a byte order mark and blanks are gone
	}
	r.keep(d.declaration[1], d.root.start)
	r.element(d.root)
	r.keep(d.root.end, len(d.b))
	return r
}

func (r *rest) keep(start, end int) {
	r.text.WriteString(r.d.bytes(start, end))
	r.kept = append(r.kept, [2]int{start, end})
}

func (r *rest) element(e *elem) {
	p := r.own[e]
	if p == nil {
		r.keep(e.start, e.end)
		return
	}
	r.keep(e.start, e.start+1+len(e.name))
	pos := r.attributes(e, p)
	if p.asked.isEmpty() && !p.made.isEmpty() && e.isEmpty() {
		r.keep(pos, e.tag-2)
		r.text.WriteString("></" + e.name + ">")
		return
	}
	r.keep(pos, e.tag)
	r.content(e, p)
	r.keep(e.endTag, e.end)
}

// attributes keeps an attribute of both documents without its value. It drops attributes of the
// request alone, and those that the manifest adds at the end.
func (r *rest) attributes(e *elem, p *pair) (end int) {
	end = e.start + 1 + len(e.name)
	for i, a := range e.attrs {
		end = a.end
		may := mayChange[p.role][a.local]
		location := p.role == "rspec" && a.space == instance && a.local == "schemaLocation"
		isAdded := e == p.made && r.d.b[a.start] == ' ' && !strings.Contains(blank, r.d.bytes(a.start+1, a.start+2)) && !slices.ContainsFunc(e.attrs[i:], func(b attr) bool { return p.asked.attr(b.space, b.local) != nil })
		switch both := p.asked.attr(a.space, a.local) != nil && p.made.attr(a.space, a.local) != nil; {
		case isAdded && p.role == "rspec" && a.space == "xmlns" && a.value == instance:
		case !location && (a.space != "" || may == nil || !may(p.asked)):
			r.keep(a.start, a.end)
		case both:
			r.keep(a.start, a.val-1)
			r.text.WriteString(r.d.bytes(a.val-1, a.val)) // a blank after it belongs to the value
			r.keep(a.end-1, a.end)
		case e == p.made && !isAdded:
			r.keep(a.start, a.end)
		}
	}
	return end
}

// content omits old facts of the request, with the white space before them, and new facts at the end
// of the manifest's element.
func (r *rest) content(e *elem, p *pair) {
	items := e.items
	for e == p.made && len(items) > 0 && r.isFact(items[len(items)-1].el, p) {
		items = items[:len(items)-1]
	}
	said := "" // text since the last that is not text
	for i, x := range items {
		next := slices.IndexFunc(items[i:], func(y item) bool { return !y.isText })
		if e == p.asked && x.isText {
			raw := r.d.bytes(x.start, x.end)
			said += strings.TrimSuffix(strings.TrimPrefix(raw, "<![CDATA["), "]]>")
			if next == 1 && r.isFact(items[i+1].el, p) && r.isBlank(said) {
				r.keep(x.start, x.start+len(strings.TrimRight(raw, blank)))
				continue
			}
		} else {
			said = ""
		}
		switch {
		case x.el == nil:
			r.keep(x.start, x.end)
		case e == p.asked && r.isFact(x.el, p):
		default:
			r.element(x.el)
		}
	}
}

// isBlank reports whether text is white space without references.
func (r *rest) isBlank(said string) bool {
	return strings.Trim(strings.NewReplacer("&#32;", "", "&#10;", "", "&#9;", "", "&#13;", "").Replace(said), blank) == ""
}

// isFact reports whether a child is a fact of the aggregate.
func (r *rest) isFact(e *elem, p *pair) bool {
	if e == nil {
		return false
	}
	if slices.Contains(mayGo[p.role], [2]string{e.space, e.local}) {
		return true
	}
	if types := e.parent.all(core, "sliver_type"); p.role == "node" && e.parent == p.asked && slices.Index(types, e) > 0 {
		return true // only the first counts
	}
	asked := p.asked.all(core, e.local)
	if p.role == "link" { // a component_manager without a name names none
		asked = slices.DeleteFunc(asked, unless("name"))
	}
	return e.parent == p.made && e.space == core && slices.Contains(mayCome[p.role], e.local) && r.own[e] == nil &&
		(p.role == "interface" || len(asked) == 0)
}

// compare returns the first forbidden difference between a manifest and its request, or "". It also
// returns the places of the manifest that must be equal.
func compare(request, manifest []byte, r *rspec.Request) (wrong string, kept [][2]int) {
	in, err := parse(request)
	if err != nil {
		return "the request: " + err.Error(), nil
	}
	out, err := parse(manifest)
	if err != nil {
		return "the manifest: " + err.Error(), nil
	}
	c, err := newComparison(in, out, r)
	if err != nil {
		return err.Error(), nil
	}
	want, got := c.rest(in), c.rest(out)
	if a, b := want.text.String(), got.text.String(); a != b {
		i := 0
		for i < min(len(a), len(b)) && a[i] == b[i] {
			i++
		}
		return fmt.Sprintf("%.90q became %.90q", a[max(0, i-30):], b[max(0, i-30):]), nil
	}
	return "", got.kept
}
