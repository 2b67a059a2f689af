package manifesttest_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
)

// perturber rewrites a document in an equivalent form. The frequency of each kind of change is drawn
// for each document, so that some change a little and some everywhere.
type perturber struct {
	*rand.Rand
	d       *doc
	b       bytes.Buffer
	ratio   map[string]float64
	counter int
}

func perturb(d *doc, seed uint64) []byte {
	p := &perturber{Rand: rand.New(rand.NewPCG(seed, 1)), d: d, ratio: map[string]float64{}}
	p.prolog()
	p.element(d.root, map[string]string{"": ""}, 1, 0)
	p.b.WriteString(d.bytes(d.root.end, len(d.b)))
	if p.chance("tail") {
		p.b.WriteString("\n<!-- after --><?after all?>\n")
	}
	out := p.b.String()
	if p.chance("crlf") {
		out = strings.ReplaceAll(strings.ReplaceAll(out, "\r\n", "\n"), "\n", "\r\n")
	}
	return []byte(out)
}

// chance reports whether to make a change of a kind here.
func (p *perturber) chance(kind string) bool {
	r, ok := p.ratio[kind]
	if !ok {
		r = []float64{0, 0.03, 0.1, 0.3, 0.8}[p.IntN(5)]
		if slices.Contains([]string{"grow", "declare", "default", "shadow"}, kind) {
			r *= 0.3
		}
		p.ratio[kind] = r
	}
	return p.Float64() < r
}

func pick[T any](p *perturber, list ...T) T { return list[p.IntN(len(list))] }

func (p *perturber) fresh() string {
	p.counter++
	return fmt.Sprintf("%s.%d", pick(p, "q", "ns-", "_", "préfixe", "xsi", "rspec", "Ж"), p.counter)
}

func (p *perturber) prolog() {
	p.b.WriteString(pick(p, "", "", "\ufeff", "\n", "\ufeff \r\n"))
	declaration := p.d.bytes(p.d.declaration[0], p.d.declaration[1])
	if p.chance("declaration") {
		declaration = pick(p, "", `<?xml version="1.1"?>`, "<?xml  version = '1.1'  encoding='Utf-8' standalone=\"yes\" ?>\n")
	}
	p.b.WriteString(declaration + pick(p, "", "<?xml-stylesheet href='>'?><!-- <rspec> -->"))
	p.b.WriteString(p.d.bytes(p.d.declaration[1], p.d.root.start))
}

// blank is white space, or an equivalent.
func (p *perturber) blank(usual string) string {
	if p.chance("blank") {
		return pick(p, "  ", "\n", "\t", " \r\n  ")
	}
	return usual
}

// element writes an element in a scope of prefixes; depth is its depth and around the number of
// declarations around it.
func (p *perturber) element(e *elem, outer map[string]string, depth, around int) {
	scope := maps.Clone(outer)
	var tags []string
	declared := map[string]bool{}
	declare := func(prefix, uri string) {
		name := "xmlns"
		if prefix != "" {
			name += ":" + prefix
		}
		scope[prefix], declared[prefix] = uri, true
		around++
		tags = append(tags, name+p.blank("")+"="+p.blank("")+p.value(uri))
	}
	for _, a := range e.attrs {
		if a.space == "xmlns" {
			scope[a.local], declared[a.local] = a.value, true
			around++
			tags = append(tags, p.attribute(a.name, &a))
		}
	}
	few := around < 60 // the limit is 250
	if few && p.chance("declare") {
		declare(p.fresh(), pick(p, core, "urn:unused", e.space+"/more", userExt, proxyExt))
	}
	if few && e.space != "" && p.chance("prefix") {
		declare(p.fresh(), e.space)
	}
	if few && !declared[""] && p.chance("default") {
		declare("", e.space)
	}
	if few && p.chance("shadow") {
		for _, prefix := range slices.Sorted(maps.Keys(outer)) {
			if prefix != "" && !declared[prefix] && p.IntN(3) == 0 {
				declare(prefix, "urn:shadow")
				break
			}
		}
	}
	prefixFor := func(uri string, element bool) string {
		if uri == xmlSpace {
			return "xml:"
		}
		var list []string
		for _, prefix := range slices.Sorted(maps.Keys(scope)) {
			if scope[prefix] == uri && (element || prefix != "") {
				list = append(list, prefix)
			}
		}
		if len(list) == 0 {
			prefix := ""
			if uri != "" {
				prefix = p.fresh()
			}
			declare(prefix, uri)
			list = []string{prefix}
		}
		prefix := list[0]
		if old, _, ok := strings.Cut(e.name, ":"); !p.chance("rename") && element && ok && slices.Contains(list, old) {
			prefix = old
		} else if p.chance("rename") {
			prefix = pick(p, list...)
		}
		if prefix == "" {
			return ""
		}
		return prefix + ":"
	}
	name := prefixFor(e.space, true) + e.local
	for _, a := range e.attrs {
		switch a.space {
		case "xmlns":
		case "":
			tags = append(tags, p.attribute(a.local, &a))
		default:
			tags = append(tags, p.attribute(prefixFor(a.space, false)+a.local, &a))
		}
	}
	if few && p.chance("attribute") {
		prefix := p.fresh()
		declare(prefix, "urn:noise:"+prefix)
		tags = append(tags, prefix+":"+pick(p, "client_id", "sliver_id", "exclusive", "type", "mac_address", "schemaLocation")+"="+
			p.value(pick(p, "", "a > b", `"'`, "ünïcödé", "tab\tand\nline", "]]>")))
		if e.attr(xmlSpace, "lang") == nil {
			tags = append(tags, `xml:lang='nl-BE'`)
		}
	}
	if p.chance("order") {
		p.Shuffle(len(tags), func(i, j int) { tags[i], tags[j] = tags[j], tags[i] })
	}
	p.b.WriteString("<" + name)
	for _, tag := range tags {
		p.b.WriteString(p.blank(" ") + tag)
	}
	p.b.WriteString(p.blank(""))
	p.b.WriteByte('>')
	start := p.b.Len()
	p.content(e, scope, depth, around)
	if p.b.Len() == start && (e.isEmpty() != p.chance("form")) {
		p.b.Truncate(start - 1)
		p.b.WriteString("/>")
	} else {
		p.b.WriteString("</" + name + p.blank("") + ">")
	}
}

// character is one as it is written: a reference, the end of a line, or itself.
var character = regexp.MustCompile(`&[^;]+;|\r\n|(?s:.)`)

// attribute writes an attribute, with its value in one of several spellings.
func (p *perturber) attribute(name string, a *attr) string {
	quote := p.d.bytes(a.val-1, a.val)
	if p.chance("quote") {
		quote = pick(p, `"`, `'`)
	}
	var v strings.Builder
	for _, c := range character.FindAllString(p.d.bytes(a.val, a.end-1), -1) {
		if c == quote {
			c = p.reference(rune(c[0]))
		}
		v.WriteString(p.spell(c))
	}
	return name + p.blank("") + "=" + p.blank("") + quote + v.String() + quote
}

// spell writes a character as a reference, if it is none and no white space.
func (p *perturber) spell(c string) string {
	if r := []rune(c); len(r) == 1 && !strings.Contains(blank, c) && p.chance("reference") {
		return p.reference(r[0])
	}
	return c
}

// value writes a value of our own.
func (p *perturber) value(s string) string {
	return `"` + strings.NewReplacer("&", "&amp;", "<", "&lt;", "\t", "&#9;", "\n", "&#xA;", `"`, "&quot;").Replace(s) + `"`
}

func (p *perturber) reference(r rune) string {
	if name, ok := map[rune]string{'<': "&lt;", '>': "&gt;", '&': "&amp;", '"': "&quot;", '\'': "&apos;"}[r]; ok && p.IntN(2) == 0 {
		return name
	}
	return fmt.Sprintf(pick(p, "&#%d;", "&#x%x;", "&#x%X;", "&#00%d;"), r)
}

// content writes the content of an element, with meaningless parts in between.
func (p *perturber) content(e *elem, scope map[string]string, depth, around int) {
	known := e.space == core && slices.Contains([]string{"rspec", "node", "link", "interface", "interface_ref", "services", "sliver_type", "ip"}, e.local)
	between := func() {
		if p.chance("comment") {
			p.b.WriteString(pick(p, "<!-- a - b -->", "<!---->", "<!--</node>]]>&no;-->", "<!-- ünïcödé -->"))
		}
		if p.chance("instruction") {
			p.b.WriteString(pick(p, "<?do it?>", "<?x?>", "<?php <a b='?' > ?>", "<?xml2 no?>"))
		}
		if p.chance("cdata") {
			p.b.WriteString("<![CDATA[]]>")
		}
		if known && depth < 100 && p.chance("grow") {
			fmt.Fprintf(&p.b, pick(p, extensions...), p.fresh())
		}
	}
	between()
	for _, i := range e.items {
		raw := p.d.bytes(i.start, i.end)
		switch inner, isCDATA := strings.CutPrefix(raw, "<![CDATA["); {
		case i.el != nil:
			p.element(i.el, scope, depth+1, around)
		case !i.isText:
			p.b.WriteString(raw)
		case isCDATA && p.chance("uncdata"):
			inner = strings.TrimSuffix(inner, "]]>")
			p.b.WriteString(strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(inner))
		case isCDATA:
			p.b.WriteString(raw)
		case !strings.ContainsAny(raw, "&\r") && p.chance("tocdata"):
			p.b.WriteString("<![CDATA[" + raw + "]]>")
		default:
			for _, c := range character.FindAllString(raw, -1) {
				p.b.WriteString(p.spell(c))
				if p.chance("split") && c != "]" {
					between()
				}
			}
		}
		between()
	}
}

// extensions are unknown elements. %[1]s is a new prefix.
var extensions = []string{
	// core elements inside
	`<%[1]s:wrap xmlns:%[1]s="urn:ext:%[1]s" xmlns="` + core + `"><rspec type="request"><node client_id="inner" sliver_id="x" component_manager_id=''>` +
		`<services><login authentication="ssh-keys"/></services><host name="kept"/><interface client_id="i" mac_address="kept"/></node>` +
		`<link client_id="deep" sliver_id="kept"><interface_ref client_id="nowhere"/></link></rspec></%[1]s:wrap>`,
	// local names equal to core ones, and no namespace
	`<node xmlns='urn:ext:%[1]s' client_id="not&#32;ours" sliver_id="kept"><services><login/><host/></services><interface/><sliver_type/></node>`,
	`<%[1]s:a xmlns:%[1]s="urn:ext:%[1]s"><c xmlns="" sliver_id="x"><host name="h"/><login/></c></%[1]s:a><login xmlns="" sliver_id='kept'/>`,
	// names of other scripts, several namespaces, mixed content
	"<ж:узел xmlns:ж='urn:ж' xmlns:a='urn:%[1]s' ключ=\"значение &#x416; > \" ж:日本='語' a:k='>'>текст<ж:é/><a:a/></ж:узел >",
	`<m xmlns='urn:ext:%[1]s'>one <b>two</b>	<![CDATA[<three> ]]]]><![CDATA[> &amp;]]> four ]] &gt; &#13;<!-- five --> </m>`,
	// a prefix means two things, and an element of the RSpec's own that is unknown
	"<p:a xmlns:p='urn:ext:%[1]s'><p:a xmlns:p='" + core + "' client_id='x'><p:services/></p:a><p:host/></p:a>",
	`<%[1]s:future xmlns:%[1]s='` + core + `' client_id='%[1]s' sliver_id="kept"><%[1]s:node/><%[1]s:login/></%[1]s:future>`,
}
