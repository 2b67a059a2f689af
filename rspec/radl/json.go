package radl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxNesting limits the nesting of JSON: document, sentence, soft groups, their items, lists.
const maxNesting = 8

// jsonValue is a JSON value with its place. Its fields depend on the kind of value.
type jsonValue struct {
	Place
	kind    byte // { [ " 0 t for true, f for false, n for null
	text    string
	members []jsonMember
	items   []jsonValue
}

type jsonMember struct {
	Place
	name  string
	value jsonValue
}

// jsonReader reads a document with the places of its values.
type jsonReader struct {
	*json.Decoder
	text []byte
	at   int // the offset of place
	Place
}

// skipTo moves the place to the next token, which begins after an offset.
func (r *jsonReader) skipTo(offset int) Place {
	for offset < len(r.text) && strings.IndexByte(" \t\r\n,:", r.text[offset]) >= 0 {
		offset++
	}
	passed := r.text[r.at:max(offset, r.at)]
	if n := bytes.Count(passed, []byte("\n")); n > 0 {
		r.Line += n
		r.Column = 1
		passed = passed[bytes.LastIndexByte(passed, '\n')+1:]
	}
	r.Column += utf8.RuneCount(passed)
	r.at = max(offset, r.at)
	return r.Place
}

func (r *jsonReader) next() (Place, json.Token, error) {
	at := r.skipTo(int(r.InputOffset()))
	t, err := r.Token()
	return at, t, err
}

func (r *jsonReader) value(depth int) (v jsonValue, err error) {
	at, t, err := r.next()
	if err != nil {
		return v, err
	}
	v.Place = at
	switch t := t.(type) {
	case string:
		v.kind, v.text = '"', t
	case json.Number:
		v.kind, v.text = '0', t.String()
	case bool:
		v.kind = strconv.FormatBool(t)[0]
	case json.Delim:
		v.kind = byte(t)
		if depth == 0 {
			return v, fmt.Errorf("the values are nested more than %d times", maxNesting)
		}
		err = r.content(&v, depth)
	default:
		v.kind = 'n'
	}
	return v, err
}

// content reads an array or an object to its end.
func (r *jsonReader) content(v *jsonValue, depth int) error {
	names := map[string]bool{}
	for r.More() {
		if v.kind == '[' {
			item, err := r.value(depth - 1)
			if err != nil {
				return err
			}
			v.items = append(v.items, item)
			continue
		}
		at, name, err := r.next()
		if err != nil {
			return err
		}
		m := jsonMember{Place: at, name: name.(string)} // the decoder accepts nothing else here
		if names[m.name] {
			return fmt.Errorf("the member %.40q is there twice", m.name)
		}
		names[m.name] = true
		if m.value, err = r.value(depth - 1); err != nil {
			return err
		}
		v.members = append(v.members, m)
	}
	_, err := r.Token()
	return err
}

func (p *parser) parseJSON(text []byte) {
	r := &jsonReader{Decoder: json.NewDecoder(bytes.NewReader(text)), text: text, Place: Place{1, 1}}
	r.UseNumber()
	v, err := r.value(maxNesting)
	if err == nil {
		if _, err = r.Token(); err == io.EOF {
			err = nil
		} else {
			err = fmt.Errorf("there is more after the array")
		}
	}
	if err != nil {
		p.wrong(r.skipTo(int(r.InputOffset())), "correct the JSON there", "cannot read the document: %.200v", err)
		return
	}
	for _, s := range v.items {
		if s.kind != '{' {
			p.wrong(s.Place, `write an object with a "class"`, "the array has an element that is no object")
			continue
		}
		p.addObject(s)
	}
}

// object reads the members of a JSON object.
type object struct {
	*parser
	v    jsonValue
	what string
	used map[string]bool
}

func (p *parser) object(v jsonValue, what string) *object {
	return &object{p, v, what, map[string]bool{}}
}

// member returns the member with the name, which must be of this kind. It returns nil if it is missing or null, or
// after a mistake.
func (o *object) member(name string, kind byte) *jsonValue {
	o.used[name] = true
	for i := range o.v.members {
		m := &o.v.members[i]
		if m.name != name || m.value.kind == 'n' {
			continue
		}
		if m.value.kind != kind {
			o.wrong(m.value.Place, map[byte]string{'"': "write a text", '0': "write a number", '[': "write an array", '{': "write an object", 't': "write true, or leave it out"}[kind], "%q of %s is of the wrong type", name, o.what)
			return nil
		}
		return &m.value
	}
	return nil
}

// text returns the text of a member, with its parameters replaced; "" if it is missing, which is a mistake if the
// member is required.
func (o *object) text(name string, required bool) string {
	if v := o.member(name, '"'); v != nil {
		return o.params.replace(v.Place, v.text)
	}
	if required {
		o.wrong(o.v.Place, "add it", "%s has no %q", o.what, name)
	}
	return ""
}

// id returns the text of a member that must be an id.
func (o *object) id(name string) string {
	text := o.text(name, true)
	if l := newLexer([]byte(text)); text != "" {
		if t := l.next(); t.kind != wordToken || t.text != text || slices.Contains(sentences, text) {
			o.wrong(o.v.Place, "write a letter, then letters, digits, _ . and -, but no keyword", "%s has the %s %.40q", o.what, name, text)
		}
		o.checkID(o.v.Place, name, text)
	}
	return text
}

// count returns the whole number of a member, which may be a text; 0 if it is missing.
func (o *object) count(name string) int {
	text, at := "0", o.v.Place
	for _, m := range o.v.members {
		if m.name != name || m.value.kind == 'n' {
			continue
		}
		if text, at = m.value.text, m.value.Place; m.value.kind == '"' {
			text = o.params.replace(at, text)
		}
	}
	o.used[name] = true
	n, err := strconv.Atoi(whole(text))
	if err != nil || n < 0 || n > maxCount {
		o.wrong(at, "write a whole number", "%q of %s is %.40q", name, o.what, text)
	}
	return n
}

// finish warns about members that are not used.
func (o *object) finish() {
	for _, m := range o.v.members {
		if !o.used[m.name] {
			o.warn(m.Place, "leave it out", "%s has an unknown member %.40q", o.what, m.name)
		}
	}
}

// addObject adds a sentence in JSON.
func (p *parser) addObject(v jsonValue) {
	o := p.object(v, "a sentence")
	class := o.text("class", true)
	if class != "" {
		o.what = "a sentence of the class " + strconv.Quote(class)
	}
	isReference := o.member("reference", 't') != nil
	switch class {
	case "":
	case "description", "ansible", "network", "system":
		b := Block{Place: v.Place, ID: o.id("id"), IsReference: isReference}
		if softs := o.member("softs", '['); softs != nil {
			for _, s := range softs.items {
				b.Soft = append(b.Soft, p.softObject(s))
			}
			if class != "system" && len(b.Soft) > 0 {
				p.wrong(softs.Place, "leave it out", "only systems have soft groups")
			}
		}
		b.Features = p.featuresOf(v, o.used)
		p.addBlock(class, b)
	case "configure":
		r := Recipe{Place: v.Place, ID: o.id("id"), IsReference: isReference, Text: recipeText(o.text("recipes", false))}
		if r.IsReference && r.Text != "" {
			p.wrong(v.Place, "leave the recipe or the reference out", "configure %.40q refers to an earlier document, but has a recipe", r.ID)
		}
		p.d.Recipes = append(p.d.Recipes, r)
		o.finish()
	case "deploy":
		d := Deploy{Place: v.Place, System: o.id("system"), Count: o.count("vm_number")}
		d.Cloud = p.checkText(v.Place, o.text("cloud", false))
		p.d.Deploys = append(p.d.Deploys, d)
		o.finish()
	case "contextualize":
		p.planObject(o)
		o.finish()
	default:
		p.wrong(v.Place, "use description, ansible, network, system, configure, contextualize or deploy", "there is an object of the class %.40q", class)
	}
}

// recipeText returns the text of a recipe that ends with a line end. A text without any line end,
// but with \n as two characters, was encoded twice.
func recipeText(text string) string {
	if !strings.Contains(text, "\n") && strings.Contains(text, `\n`) {
		text = strings.ReplaceAll(text, `\n`, "\n")
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text
}

func (p *parser) softObject(v jsonValue) Soft {
	o := p.object(v, "a soft group")
	s := Soft{Place: v.Place, Weight: o.count("weight")}
	items := o.member("items", '[')
	if items == nil {
		p.wrong(v.Place, `write {"weight": 10, "items": [{"cpu.count_min": 2}]}`, "a soft group has no items")
		return s
	}
	for _, x := range items.items {
		s.Features = append(s.Features, p.entryOf(x, "a soft group")...)
	}
	o.finish()
	return s
}

// entryOf returns the features of an entry of an array, which must be an object with some.
func (p *parser) entryOf(v jsonValue, what string) []Feature {
	list := p.featuresOf(v, map[string]bool{})
	if v.kind != '{' || len(list) == 0 {
		p.wrong(v.Place, `write an object such as {"name": "value"}, or leave it out`, "the array of %s has an entry that is no object, or an empty one", what)
	}
	return list
}

func (p *parser) planObject(o *object) {
	plan := Plan{Place: o.v.Place, Deadline: o.count("max_time")}
	if options := o.member("options", '{'); options != nil {
		plan.Options = p.featuresOf(*options, map[string]bool{})
	}
	if items := o.member("items", '['); items != nil {
		for _, x := range items.items {
			line := p.object(x, "a line of contextualize")
			i := PlanItem{Place: x.Place, System: line.id("system"), Recipe: line.id("configure"), Step: line.count("step")}
			if tool := line.text("ctxt_tool", false); tool != "" {
				var known bool
				if i.Tool, known = toolNamed(tool); !known {
					p.wrong(x.Place, "write Ansible or cloud_init", "%.40q is not a tool for recipes", tool)
				}
			}
			line.finish()
			plan.Items = append(plan.Items, i)
		}
	}
	p.plans = append(p.plans, &plan)
}

// suffixes are the ends of names of features in JSON for comparisons other than equality. Those of
// strict comparisons are an addition of Patchbay.
var suffixes = []struct{ suffix, op string }{{"_min", AtLeast}, {"_max", AtMost}, {"_above", Greater}, {"_below", Less}}

// featuresOf returns the members of an object that are not used as features.
func (p *parser) featuresOf(v jsonValue, used map[string]bool) (list []Feature) {
	for _, m := range v.members {
		if used[m.name] || m.value.kind == 'n' {
			continue
		}
		f := Feature{Place: m.Place, Name: m.name, Op: Equal}
		switch m.value.kind {
		case '0', '"':
			f.Value = p.scalarOf(m.value)
			if strings.HasPrefix(f.Name, performance) {
				f.Value = typed(f.Value.Text + f.Value.Number)
			}
			if f.Value.Kind == Number || strings.Contains(f.Name, "version") {
				for _, s := range suffixes {
					if name, ok := strings.CutSuffix(f.Name, s.suffix); ok {
						f.Name, f.Op = name, s.op
					}
				}
			}
			list = append(list, f)
		case '[':
			list = append(list, p.arrayOf(f, m.value)...)
		default:
			p.wrong(m.value.Place, `write a text such as "yes", or a number`, "the feature %.40q is neither a text nor a number", m.name)
		}
		if !isFeatureName(f.Name) {
			p.wrong(m.Place, "write a letter, then letters, digits, _ . and -", "there is a feature %.40q", m.name)
		}
	}
	return list
}

// performance is the only feature with units other than those of sizes. JSON has them in a text, as
// in "20 ECU".
const performance = "cpu.performance"

func (p *parser) scalarOf(v jsonValue) Value {
	if v.kind == '"' {
		text := p.checkText(v.Place, p.params.replace(v.Place, v.text))
		if _, n := parameterAt([]byte(v.text)); n > 0 && n == len(v.text) {
			return typed(text)
		}
		return Value{Kind: Text, Text: text}
	}
	if l := newLexer([]byte(v.text)); l.next().text != v.text {
		p.wrong(v.Place, "write digits, and perhaps a fraction", "there is the number %.40s", v.text)
	}
	return Value{Kind: Number, Number: v.text}
}

// arrayOf returns a list of texts, or one feature "contains" for each object.
func (p *parser) arrayOf(f Feature, v jsonValue) (list []Feature) {
	var texts []string
	for _, x := range v.items {
		switch x.kind {
		case '"':
			texts = append(texts, p.scalarOf(x).Text)
		case '{':
			list = append(list, Feature{Place: x.Place, Name: f.Name, Op: Contains, Value: Value{Kind: Group, Group: p.entryOf(x, strconv.Quote(f.Name))}})
		default:
			p.wrong(x.Place, "write texts, or objects with a name", "the feature %.40q has another value in its array", f.Name)
		}
	}
	if texts != nil {
		f.Value = Value{Kind: List, List: texts}
		list = append(list, f)
	}
	return list
}
