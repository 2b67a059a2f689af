package rspec

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"patchbay/schemas/xmltree"
)

// draw makes random valid requests in all spellings that XML allows.
type draw struct {
	*rapid.T
	ids int
	// interfaces are the client_ids of those so far that no link ends at.
	interfaces []string
}

func (d *draw) one(of ...string) string { return rapid.SampledFrom(of).Draw(d.T, "one") }

func (d *draw) some(most int, f func() string) string {
	var b strings.Builder
	for range rapid.IntRange(0, most).Draw(d.T, "some") {
		b.WriteString(f())
	}
	return b.String()
}

func (d *draw) id() string {
	d.ids++
	return fmt.Sprintf("id%d", d.ids)
}

func (d *draw) blank() string { return d.one("", "", " ", "\n  ", "\r\n\t") }

func (d *draw) attr(name, value string) string {
	q := d.one(`"`, `'`)
	return d.one(" ", "\n", "\t ") + name + d.one("=", " = ") + q + value + q
}

// element is an RSpec element under any of the spellings that the root allows.
func (d *draw) element(local, attrs string, content ...string) string {
	name, declare := d.one("r:", "s:", ""), ""
	if name == "" {
		declare = d.attr("xmlns", Namespace)
	}
	if c := strings.Join(content, ""); c != "" || d.one("full", "empty") == "full" {
		return "<" + name + local + declare + attrs + d.blank() + ">" + c + "</" + name + local + d.one("", " ", "\n") + ">"
	}
	return "<" + name + local + declare + attrs + d.blank() + "/>"
}

// odd is content that a manifest must keep at any place.
func (d *draw) odd() string {
	return d.one("<!-- <node> & -->", "<![CDATA[<login/> ]] > é]]>", "<?p <x?>", "&#233;&lt;é", "<x:login xmlns:x='urn:x' x:sliver_id='1'>t</x:login>",
		"<node xmlns='urn:y' a='>'/>", "<p:host/>", "\n", "  ", "<e xmlns=''><services/></e>", "text")
}

func (d *draw) maybe(s string) string { return d.one("", s) }

func (d *draw) node() string {
	attrs := d.attr("client_id", d.id()) + d.maybe(d.attr("exclusive", d.one("true", "false", "1", "0"))) + d.maybe(d.attr("p:exclusive", "a>b")) +
		d.maybe(d.attr("component_manager_id", d.one(us.String(), "urn:publicid:IDN+example.org+authority+am", them, ""))) +
		d.maybe(d.attr("sliver_id", "stale")) + d.maybe(d.attr("component_name", "x&amp;y"))
	return d.element("node", attrs,
		d.some(2, d.odd), d.blank(),
		d.maybe(d.element("sliver_type", d.attr("name", "raw-pc"), d.some(1, d.odd), d.maybe(d.element("disk_image", d.attr("name", "i"))))),
		d.some(2, d.odd),
		d.maybe(d.element("host", d.attr("name", "stale"))),
		d.some(2, func() string {
			id := d.id()
			d.interfaces = append(d.interfaces, id)
			return d.element("interface", d.attr("client_id", id)+d.maybe(d.attr("mac_address", "stale"))+d.maybe(d.attr("component_id", "urn:publicid:IDN+example.org+interface+x")), d.some(1, d.odd),
				d.maybe(d.element("ip", d.attr("address", fmt.Sprintf("172.16.0.%d", 1+d.ids%250))+d.maybe(d.attr("netmask", "255.255.255.0")))), d.some(1, d.odd))
		}),
		d.maybe("<i:geni_sliver_info xmlns:i='"+sliverSpace+"' state='old'/>"), d.maybe("<vnode xmlns='"+emulabSpace+"' name='old'>x</vnode>"),
		d.maybe("<m:require xmlns:m='"+matchSpace+"' feature='cpu.count' value='4'/>"), d.maybe("<m:granted xmlns:m='"+matchSpace+"' feature='cpu.count' value='old'/>"),
		d.maybe(d.element("services", "", d.some(2, d.odd), d.maybe(d.element("execute", d.attr("command", "a &gt; b&#10;c"))), d.maybe(d.element("login", "")), d.blank(),
			d.maybe("<u:services_user xmlns:u='"+oldUserSpace+"'><u:public_key/></u:services_user>"))),
		d.some(1, d.odd))
}

// link joins some of the interfaces that are left, if there are any.
func (d *draw) link() string {
	if len(d.interfaces) == 0 {
		return ""
	}
	n := rapid.IntRange(1, min(3, len(d.interfaces))).Draw(d.T, "ends")
	ends, refs := d.interfaces[:n], ""
	d.interfaces = d.interfaces[n:]
	for _, id := range ends {
		refs += d.some(1, d.odd) + d.element("interface_ref", d.attr("client_id", id)+d.maybe(d.attr("sliver_id", "stale"))+d.maybe(d.attr("component_id", "c")))
	}
	return d.element("link", d.attr("client_id", d.id())+d.maybe(d.attr("vlantag", "7"))+d.maybe(d.attr("p:vlantag", "8")), refs, d.maybe(d.element("link_type", d.attr("name", "lan"))), d.some(1, d.odd))
}

func (d *draw) request() string {
	root := d.one("r:", "s:") + "rspec"
	return d.one("", "\xef\xbb\xbf", "\n", "<?xml version='1.1'?>", `<?xml version="1.0" encoding="utf-8"?>`+"\r\n") + d.maybe("<!-- é -->") +
		"<" + root + d.attr("xmlns:r", Namespace) + d.attr("xmlns:s", Namespace) + d.attr("xmlns:p", "urn:p") + d.attr("type", "request") +
		d.maybe(d.attr("expires", "never")) + d.maybe(d.attr("xmlns", d.one("urn:z", Namespace))) + d.maybe(d.attr("xmlns:q", d.one("urn:q", "urn:p"))) +
		d.maybe(d.attr("xml:lang", d.one("de", "en"))) + d.maybe(d.attr("p:root", d.one("1", "2"))) + d.blank() + ">" +
		d.some(4, func() string { return d.blank() + d.node() + d.some(2, d.odd) }) +
		d.some(2, func() string { return d.link() + d.some(1, d.odd) }) + "</" + root + ">" + d.blank()
}

// TestRandomRequests checks that the manifest of a random request has no stale facts, and that
// requesting it again gives the same nodes. Package manifesttest checks that nothing else changes.
func TestRandomRequests(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := &draw{T: rt}
		text := d.request()
		r, err := ParseRequest([]byte(text), reading())
		if err != nil {
			rt.Fatalf("%v\n%s", err, text)
		}
		got, full := mustWrite(t, options(), part(r, facts)), mustWrite(t, options(), everything(r))
		if old := strings.Contains(full, "'old'"); old && r.Foreign == 0 {
			rt.Fatalf("stale extensions are left\n%s", full)
		}
		for _, manifest := range []string{got, full, asciiXML(full)} {
			again, err := ParseRequest([]byte(asRequest(manifest)), reading())
			if err != nil {
				rt.Fatalf("%v\n%s", err, manifest)
			}
			if len(again.Nodes) != len(r.Nodes) || len(again.Links) != len(r.Links) || again.Foreign != r.Foreign {
				rt.Fatalf("%d own and %d foreign nodes became %d and %d\n%s", len(r.Nodes), r.Foreign, len(again.Nodes), again.Foreign, manifest)
			}
			for i, n := range again.Nodes {
				if n.ClientID != r.Nodes[i].ClientID || n.ComponentID == "" {
					rt.Fatalf("node %d is %+v", i, n)
				}
			}
			if strings.Contains(manifest, `"stale"`) && r.Foreign == 0 {
				rt.Fatalf("stale facts are left\n%s", manifest)
			}
			if manifest == got {
				continue
			}
			twice := mustWrite(t, options(), everything(again))
			if thrice := mustWrite(t, options(), everything(mustParse(t, []byte(asRequest(twice)), reading()))); thrice != twice {
				rt.Fatalf("the second pass is not stable\n%s\n%s", twice, thrice)
			}
		}
	})
}

// TestRandomUnions checks that the union of random requests has the nodes and links of all of them,
// can be requested again, and does not change afterwards. It also takes parts of slices.
func TestRandomUnions(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := &draw{T: rt}
		var parts []Part
		nodes, links := 0, 0
		for range rapid.IntRange(2, 4).Draw(rt, "parts") {
			d.interfaces = nil
			r, err := ParseRequest([]byte(d.request()), reading())
			if err != nil {
				rt.Fatal(err)
			}
			p := everything(r)
			if d.one("whole", "part") == "part" {
				for id := range p.Nodes {
					if d.one("shown", "not") == "not" {
						delete(p.Nodes, id)
					}
				}
				if len(p.Nodes) < len(r.Nodes) { // links may dangle
					links = -1 << 20
				}
			}
			nodes, links = nodes+len(p.Nodes), links+len(r.Links)
			parts = append(parts, p)
		}
		got := mustWrite(t, options(), parts...)
		if err := xmltree.Parse([]byte(got), xmltree.Limits{}, func(*xmltree.Doc) error { return nil }); err != nil {
			rt.Fatalf("%v\n%s", err, got)
		}
		if links < 0 {
			return
		}
		again, err := ParseRequest([]byte(asRequest(got)), reading())
		if err != nil {
			rt.Fatalf("%v\n%s", err, got)
		}
		if len(again.Nodes) != nodes || len(again.Links) != links {
			rt.Fatalf("%d nodes and %d links became %d and %d\n%s", nodes, links, len(again.Nodes), len(again.Links), got)
		}
		twice := mustWrite(t, options(), everything(again))
		if thrice := mustWrite(t, options(), everything(mustParse(t, []byte(asRequest(twice)), reading()))); thrice != twice {
			rt.Fatalf("the second pass is not stable\n%s\n%s", twice, thrice)
		}
	})
}
