package faithful_test

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"patchbay/am/urn"
	"patchbay/rspec"
)

var (
	seed  = flag.Uint64("perturb.seed", 0, "the seed of the first perturbation; 0 takes the time")
	times = flag.Int("perturb.times", 1, "how often each document is perturbed")
)

// TestCorpusPerturbed writes each request of the corpus anew, in another
// spelling that means the same, and holds that against its manifest.
func TestCorpusPerturbed(t *testing.T) {
	t.Parallel()
	names, all := requests(t)
	perturbed(t, names, all, *times, everyManager)
}

// TestNastyPerturbed does so with the hand-written documents, more often.
func TestNastyPerturbed(t *testing.T) {
	all := nasty(t)
	perturbed(t, slices.Sorted(maps.Keys(all)), all, 10**times, func(*doc) []urn.URN { return []urn.URN{manager} })
}

func perturbed(t *testing.T, names []string, all map[string][]byte, times int, managersOf func(*doc) []urn.URN) {
	first := *seed
	if first == 0 {
		first = uint64(time.Now().UnixNano())
	}
	t.Logf("-perturb.seed=%d", first)
	changed := 0
	for i, name := range names {
		b := all[name]
		d, err := parse(b)
		if err != nil {
			t.Fatal(err)
		}
		managers := managersOf(d)
		plain, err := rspec.ParseRequest(b, rspec.ReadOptions{Managers: managers})
		why, wrong := expected(d, managers, err)
		if wrong != nil {
			t.Fatalf("%s: %v", name, wrong)
		}
		for n := range times {
			s := first + uint64(n*len(names)+i)
			other := perturb(d, s)
			if _, err := parse(other); err != nil {
				t.Fatalf("%s, seed %d: the generator: %v\n%s", name, s, err, other)
			}
			where := fmt.Sprintf("%s, seed %d", name, s)
			r, _, reasons := held(t, where, other, managers)
			if !slices.Equal(reasons, why) {
				t.Errorf("%s: refused for %q, before for %q", where, reasons, why)
			}
			if r != nil && plain != nil {
				changed++
				if d := gocmp.Diff(plain, r, meaning); d != "" {
					t.Errorf("%s: means something else now:\n%s", where, d)
				}
			}
			if t.Failed() {
				t.Logf("to try it again: -run %s -perturb.seed=%d", t.Name(), first)
				if testing.Verbose() {
					t.Logf("%.5000s", other)
				}
				return
			}
		}
	}
	t.Logf("%d documents held", changed)
}

// perturber writes a document anew. How often it does what is drawn for each
// document, so that some are changed a little and some everywhere.
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

// chance tells whether to do something of a kind now.
func (p *perturber) chance(kind string) bool {
	r, ok := p.ratio[kind]
	if !ok {
		r = []float64{0, 0.03, 0.1, 0.3, 0.8}[p.IntN(5)]
		switch kind {
		case "grow", "declare", "default", "shadow":
			r *= 0.3
		case "long":
			r *= 0.05
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
	if p.chance("bom") {
		p.b.WriteString("\ufeff")
	}
	declaration := p.d.bytes(p.d.declaration[0], p.d.declaration[1])
	if p.chance("declaration") {
		declaration = pick(p, "", `<?xml version="1.1"?>`, `<?xml version='1.1' encoding='utf-8' standalone="yes"?>`, "<?xml  version = '1.0'  encoding=\"UTF-8\" ?>\n",
			`<?xml version="1.0" encoding="Utf-8"?>`)
	}
	if p.chance("front") {
		p.b.WriteString(pick(p, "\n", "  ", "\r\n\t\n"))
	}
	p.b.WriteString(declaration)
	p.b.WriteString(p.d.bytes(p.d.declaration[1], p.d.root.start))
	if p.chance("head") {
		p.b.WriteString("<?xml-stylesheet href='>'?><!-- <rspec> -->")
	}
}

func (p *perturber) blank() string {
	if p.chance("blank") {
		return pick(p, "  ", "\n", "\t", " \r\n  ")
	}
	return " "
}

func (p *perturber) maybeBlank() string {
	if p.chance("blank") {
		return pick(p, " ", "\n", "\t")
	}
	return ""
}

// element writes an element that is so deep and has so many declarations around
// it, in a scope of prefixes.
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
		tags = append(tags, name+p.maybeBlank()+"="+p.maybeBlank()+p.value(uri))
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
		tags = append(tags, p.noise(e, declare)...)
	}
	if p.chance("order") {
		p.Shuffle(len(tags), func(i, j int) { tags[i], tags[j] = tags[j], tags[i] })
	}
	p.b.WriteString("<" + name)
	for _, tag := range tags {
		p.b.WriteString(p.blank() + tag)
	}
	p.b.WriteString(p.maybeBlank())
	p.b.WriteByte('>')
	start := p.b.Len()
	p.content(e, scope, depth, around)
	if p.b.Len() == start && (e.empty != p.chance("form")) {
		p.b.Truncate(start - 1)
		p.b.WriteString("/>")
	} else {
		p.b.WriteString("</" + name + p.maybeBlank() + ">")
	}
}

// noise are attributes that mean nothing to us.
func (p *perturber) noise(e *elem, declare func(prefix, uri string)) []string {
	prefix := p.fresh()
	declare(prefix, "urn:noise:"+prefix)
	list := []string{
		prefix + ":" + pick(p, "client_id", "sliver_id", "component_manager_id", "exclusive", "type", "name", "mac_address", "vlantag", "schemaLocation") +
			"=" + p.value(pick(p, "", "a > b", `"'`, "ünïcödé", "tab\tand\nline", "]]>")),
	}
	if name := pick(p, "space", "lang", "base"); e.attr(xmlSpace, name) == nil {
		list = append(list, "xml:"+name+"="+p.value(map[string]string{"space": "preserve", "lang": "nl-BE", "base": "http://example.org/é"}[name]))
	}
	if p.chance("long") {
		list = append(list, prefix+":long="+p.value(strings.Repeat("0123456789 > ", 800)))
	}
	return list
}

// attribute writes an attribute, with its value in this or that spelling.
func (p *perturber) attribute(name string, a *attr) string {
	raw := p.d.bytes(a.val, a.end-1)
	quote := p.d.bytes(a.val-1, a.val)
	if p.chance("quote") {
		quote = pick(p, `"`, `'`)
	}
	list, err := units(raw, true)
	if err != nil {
		panic(err)
	}
	var v strings.Builder
	for _, u := range list {
		switch {
		case u.raw == quote:
			v.WriteString(map[string]string{`"`: "&quot;", `'`: "&#39;"}[quote])
		case p.chance("reference"):
			v.WriteString(p.reference(u.r))
		default:
			v.WriteString(u.raw)
		}
	}
	return name + p.maybeBlank() + "=" + p.maybeBlank() + quote + v.String() + quote
}

// value writes a value of our own.
func (p *perturber) value(s string) string {
	quote := pick(p, `"`, `'`)
	r := strings.NewReplacer("&", "&amp;", "<", "&lt;", "\t", "&#9;", "\n", "&#xA;", quote, map[string]string{`"`: "&quot;", `'`: "&apos;"}[quote])
	return quote + r.Replace(s) + quote
}

func (p *perturber) reference(r rune) string {
	if name, ok := map[rune]string{'<': "&lt;", '>': "&gt;", '&': "&amp;", '"': "&quot;", '\'': "&apos;"}[r]; ok && p.IntN(2) == 0 {
		return name
	}
	return fmt.Sprintf(pick(p, "&#%d;", "&#x%x;", "&#x%X;", "&#00%d;"), r)
}

// content writes what an element holds, and between it what means nothing.
func (p *perturber) content(e *elem, scope map[string]string, depth, around int) {
	known := e.space == core && (opened[e.local] || e.parent == nil)
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
			p.b.WriteString(p.extension())
		}
	}
	between()
	for _, i := range e.items {
		if i.kind == element {
			p.element(i.el, scope, depth+1, around)
			between()
			continue
		}
		switch raw := p.d.bytes(i.start, i.end); i.kind {
		case text:
			list, err := units(raw, false)
			if err != nil {
				panic(err)
			}
			p.text(list, between)
			continue // it may end in a reference that is split
		case cdata:
			if !p.chance("uncdata") {
				p.b.WriteString(raw)
				break
			}
			var list []unit
			for _, r := range lines(raw[9 : len(raw)-3]) {
				u := unit{string(r), r}
				if r == '&' || r == '<' {
					u.raw = p.reference(r)
				}
				list = append(list, u)
			}
			p.text(list, func() {})
		default:
			p.b.WriteString(raw)
		}
		between()
	}
}

// text writes characters as they are, as references, or as CDATA sections.
func (p *perturber) text(list []unit, between func()) {
	for len(list) > 0 {
		n := 1 + p.IntN(min(len(list), 200))
		run := list[:n]
		list = list[n:]
		if p.chance("tocdata") && !slices.ContainsFunc(run, func(u unit) bool { return u.r == '\r' }) {
			var s strings.Builder
			for _, u := range run {
				s.WriteRune(u.r)
			}
			p.b.WriteString("<![CDATA[" + strings.ReplaceAll(s.String(), "]]>", "]]]]><![CDATA[>") + "]]>")
			continue
		}
		for _, u := range run {
			switch {
			case u.raw == ">" && bytes.HasSuffix(p.b.Bytes(), []byte("]]")):
				p.b.WriteString("&gt;")
			case p.chance("reference") && u.r != '\n':
				p.b.WriteString(p.reference(u.r))
			default:
				p.b.WriteString(u.raw)
			}
		}
		if p.chance("split") {
			between()
		}
	}
}

// extension is an element that nobody here has heard of.
func (p *perturber) extension() string {
	n := p.fresh()
	uri := "urn:ext:" + n
	switch p.IntN(9) {
	case 0: // core elements inside
		return fmt.Sprintf(`<%[1]s:wrap xmlns:%[1]s="%[2]s" xmlns="%[3]s"><rspec type="request"><node client_id="inner" sliver_id="x" component_manager_id=''>`+
			`<services><login authentication="ssh-keys"/></services><host name="kept"/><interface client_id="i" mac_address="kept"/></node>`+
			`<link client_id="deep" sliver_id="kept"><interface_ref client_id="nowhere"/></link></rspec></%[1]s:wrap>`, n, uri, core)
	case 1: // local names equal to core ones
		return fmt.Sprintf(`<node xmlns='%s' client_id="not&#32;ours" sliver_id="kept"><services><login/><host/></services><interface/><sliver_type/></node>`, uri)
	case 2: // no namespace inside, and as a child
		return fmt.Sprintf(`<%[1]s:a xmlns:%[1]s="%[2]s"><c xmlns="" sliver_id="x"><host name="h"/><login/></c></%[1]s:a><login xmlns="" sliver_id='kept'/>`, n, uri)
	case 3: // seven namespaces at once
		var s strings.Builder
		s.WriteString("<a0:a")
		for i := range 7 {
			fmt.Fprintf(&s, " xmlns:a%d='%s:%d'", i, uri, i)
		}
		for i := range 7 {
			fmt.Fprintf(&s, "\n a%d:k=\"%d\"", i, i)
		}
		return s.String() + "><a6:b a1:client_id='x'/><a3:c>text</a3:c></a0:a>"
	case 4: // deep
		depth := 8 + p.IntN(10)
		s := ""
		for i := range depth {
			s = fmt.Sprintf("<%s xmlns=%q> %s</%s>", pick(p, "node", "rspec", "d"), pick(p, core, uri, ""), s+fmt.Sprint(i), "END")
			open, _, _ := strings.Cut(s[1:], " ")
			s = strings.TrimSuffix(s, "END>") + open + ">"
		}
		return fmt.Sprintf("<%[1]s:deep xmlns:%[1]s='%[2]s'>%[3]s</%[1]s:deep>", n, uri, s)
	case 5: // names of other scripts
		return "<ж:узел xmlns:ж='urn:ж' ключ=\"значение &#x416; > \" ж:日本='語'>текст<ж:é/></ж:узел >"
	case 6: // mixed content
		return fmt.Sprintf("<m xmlns='%s'>one <b>two</b>\t<![CDATA[<three> ]]]]><![CDATA[> &amp;]]> four ]] &gt; &#13;<!-- five --> </m>", uri)
	case 7: // a prefix means two things, and one means the RSpec
		return fmt.Sprintf("<p:a xmlns:p='%[1]s'><p:a xmlns:p='%[2]s' client_id='x'><p:services/></p:a><p:host/></p:a>", uri, core)
	}
	// Nobody knows this element of the RSpec's own namespace either.
	return fmt.Sprintf("<%[1]s:future xmlns:%[1]s='%[2]s' client_id='%[1]s' sliver_id=\"kept\"><%[1]s:node/><%[1]s:login/></%[1]s:future>", n, core)
}
