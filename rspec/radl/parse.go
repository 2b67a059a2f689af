package radl

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"patchbay/inventory/suggest"
	"patchbay/rspec"
)

const (
	maxDocument = 1 << 20
	// maxCount limits numbers of nodes, stages and seconds.
	maxCount = 1_000_000_000
)

// sentences are the keywords with which sentences begin.
var sentences = []string{"description", "ansible", "network", "system", "configure", "contextualize", "deploy"}

// IsRADL reports whether the text seems to be RADL: a JSON array of objects with a class, a sentence
// of RADL, or nothing but comments.
func IsRADL(text []byte) bool {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if isJSON(text) {
		return bytes.Contains(text[:min(len(text), 4096)], []byte(`"class"`)) || len(bytes.Trim(text, "[] \t\r\n")) == 0
	}
	l := newLexer(text)
	first := l.next()
	if first.kind == endToken {
		return true
	}
	return first.kind == wordToken && slices.Contains(sentences, first.text) && !l.atColon()
}

// atColon reports whether a colon is next, as after a key of YAML.
func (l *lexer) atColon() bool {
	return bytes.HasPrefix(bytes.TrimLeft(l.text[l.at:], " \t"), []byte(":"))
}

func isJSON(text []byte) bool { return bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("[")) }

// Parse reads a document as text or JSON. If an error is among the problems, it returns no document.
func Parse(text []byte, values map[string]string) (*Document, []rspec.Problem) {
	p := &parser{d: &Document{}, params: parameters{values: values}}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	switch {
	case len(text) > maxDocument:
		p.refuse(rspec.TooBig, Place{}, "split it", "the document has more than %d bytes", maxDocument)
	case !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0:
		p.wrong(Place{}, "save it as UTF-8", "the document is not text in UTF-8")
	case isJSON(text):
		p.parseJSON(text)
	default:
		p.lexer = newLexer(text)
		first := p.lexer.next()
		if first.kind == wordToken && p.atColon() {
			p.wrong(first.Place, "give a text that begins with one of "+strings.Join(sentences, ", "), "the document is YAML, not RADL")
			break
		}
		p.lexer = newLexer(text)
		p.advance()
		p.parseSentences()
	}
	p.d.Plan = mergePlans(p.plans)
	if len(p.params.missing) == 0 && p.params.replaced <= maxReplaced {
		p.check()
	}
	p.checkParameters()
	if p.failed() {
		return nil, p.problems()
	}
	return p.d, p.problems()
}

type parser struct {
	*lexer
	report
	// token is the next token, and last the place of the one before.
	token  token
	last   Place
	d      *Document
	plans  []*Plan
	params parameters
	// searches counts the unknown features for which a similar one was searched.
	searches int
}

func (p *parser) wrong(at Place, remedy, format string, args ...any) {
	p.refuse(rspec.BadArgs, at, remedy, format, args...)
}

// advance returns the token and reads the next one.
func (p *parser) advance() token {
	t := p.token
	p.last = t.Place
	p.token = p.lexer.next()
	switch p.token.kind {
	case textToken:
		p.token.text = p.checkText(p.token.Place, p.params.replace(p.token.Place, p.token.text))
	case recipeToken:
		p.token.text = p.params.replace(p.token.Place, p.token.text)
	}
	return t
}

// accept reads the token if it is this one.
func (p *parser) accept(text string) bool {
	if !p.token.is(text) {
		return false
	}
	p.advance()
	return true
}

// expect reads this token, or records a mistake.
func (p *parser) expect(text, where string) bool {
	if p.accept(text) {
		return true
	}
	p.wrong(p.token.Place, "write "+text+" "+where, "there is %s in place of %s", p.token, text)
	return false
}

// atSentence reports whether a sentence, or the end, is next.
func (p *parser) atSentence() bool {
	return p.token.kind == endToken || p.token.kind == wordToken && slices.Contains(sentences, p.token.text)
}

// recover skips to the next sentence.
func (p *parser) recover() {
	for !p.atSentence() {
		p.advance()
	}
}

func (p *parser) parseSentences() {
	for p.token.kind != endToken {
		t := p.advance()
		if t.kind != wordToken || !slices.Contains(sentences, t.text) {
			remedy := "begin each sentence with one of " + strings.Join(sentences, ", ")
			if near := suggest.Word(t.text, sentences); t.kind == wordToken && near != "" {
				remedy = "did you mean " + near + "?"
			}
			p.wrong(t.Place, remedy, "there is %s where a sentence must begin", t)
			p.recover()
			continue
		}
		ok := true
		switch t.text {
		case "configure":
			ok = p.parseRecipe(t.Place)
		case "contextualize":
			ok = p.parsePlan(t.Place)
		case "deploy":
			ok = p.parseDeploy(t.Place)
		default:
			ok = p.parseBlock(t)
		}
		if !ok {
			p.recover()
		}
	}
}

// parseID reads the id of a sentence.
func (p *parser) parseID(what string) (string, bool) {
	if p.token.kind != wordToken || slices.Contains(sentences, p.token.text) {
		p.wrong(p.token.Place, "write its id: a letter, then letters, digits, _ . and -, but no keyword", "there is %s in place of the id of a %s", p.token, what)
		return "", false
	}
	return p.advance().text, true
}

// parseBlock reads a sentence with features.
func (p *parser) parseBlock(keyword token) bool {
	b := Block{Place: keyword.Place}
	var ok bool
	if b.ID, ok = p.parseID(keyword.text); !ok {
		return false
	}
	if p.accept("(") {
		if b.Features, b.Soft, ok = p.parseFeatures(keyword.text == "system"); !ok {
			return false
		}
	} else {
		b.IsReference = true
	}
	p.addBlock(keyword.text, b)
	return true
}

// addBlock adds a sentence with features to the document.
func (p *parser) addBlock(class string, b Block) {
	var list *[]Block
	switch {
	case b.IsReference && (class == "description" || class == "ansible"):
		p.wrong(b.Place, "write its features in parentheses", "%s %.40q has no features", class, b.ID)
		return
	case b.IsReference && len(b.Features)+len(b.Soft) > 0:
		p.wrong(b.Place, "leave the features or the reference out", "%s %.40q refers to an earlier document, but has features", class, b.ID)
		return
	}
	switch class {
	case "description":
		if p.d.Description != nil {
			p.wrong(b.Place, "leave it out", "a second description; the first is in line %d", p.d.Description.Line)
			return
		}
		p.d.Description = &b
		return
	case "ansible":
		list = &p.d.Ansibles
	case "network":
		list = &p.d.Networks
	default:
		list = &p.d.Systems
	}
	*list = append(*list, b)
}

// parseFeatures reads features to the closing parenthesis.
func (p *parser) parseFeatures(allowSoft bool) (list []Feature, soft []Soft, ok bool) {
	if p.accept(")") {
		return nil, nil, true
	}
	for {
		switch {
		case p.atSentence() && !(p.token.is("ansible") || p.token.is("description")):
			p.wrong(p.token.Place, "write ) after the last feature", "there is %s where a feature must begin", p.token)
			return list, soft, false
		case p.token.is("soft") && allowSoft:
			s := Soft{Place: p.token.Place}
			p.advance()
			weight, isNumber := p.parseCount("the weight of a soft group")
			if s.Weight = weight; !isNumber || !p.expect("(", "before the features of the group") {
				return list, soft, false
			}
			if s.Features, _, ok = p.parseFeatures(false); !ok {
				return list, soft, false
			}
			soft = append(soft, s)
		default:
			if f, ok := p.parseFeature(false); ok {
				list = append(list, f)
			} else if !p.skipFeature() {
				return list, soft, false
			}
		}
		and := p.token.Place
		if p.accept("and") {
			if p.token.is(")") {
				p.wrong(and, "add a feature, or leave the and out", "there is no feature after the last and")
				p.advance()
				return list, soft, true
			}
			continue
		}
		if !p.accept(")") {
			p.wrong(p.token.Place, "write and between features, and ) after the last one", "there is %s after a feature", p.token)
			return list, soft, false
		}
		return list, soft, true
	}
}

// skipFeature skips to the end of a feature with a mistake; ok is false at the end of the sentence.
func (p *parser) skipFeature() (ok bool) {
	for depth := 0; ; p.advance() {
		switch {
		case p.token.kind == endToken || p.atSentence() && depth == 0:
			return false
		case p.token.is("("):
			depth++
		case p.token.is(")") && depth > 0:
			depth--
		case depth == 0 && (p.token.is(")") || p.token.is("and")):
			return true
		}
	}
}

// isFeatureName reports whether a word can be the name of a feature.
func isFeatureName(word string) bool {
	t := newLexer([]byte(word)).next()
	isKeyword := slices.Contains(sentences, word) && word != "ansible" && word != "description"
	return t.kind == wordToken && t.text == word && strings.Trim(word, ".") != "" && word != "and" && word != "soft" && !isKeyword
}

// parseFeature reads one feature; inGroup means that contains is not allowed.
func (p *parser) parseFeature(inGroup bool) (f Feature, ok bool) {
	f.Place = p.token.Place
	if p.token.kind != wordToken {
		p.wrong(p.token.Place, "write features such as cpu.count >= 1", "there is %s where a feature must begin", p.token)
		return f, false
	}
	f.Name = p.advance().text
	if !isFeatureName(f.Name) {
		p.wrong(f.Place, "write features such as cpu.count >= 1", "there is %.40q where a feature must begin", f.Name)
		return f, false
	}
	switch {
	case p.token.kind == opToken:
		f.Op = p.advance().text
		f.Value, ok = p.parseValue(f.Name)
		return f, ok
	case p.token.is(Contains) && !inGroup:
		p.advance()
		f.Op, f.Value.Kind = Contains, Group
		if !p.expect("(", "after contains") {
			return f, false
		}
		f.Value.Group, ok = p.parseGroup()
		return f, ok
	}
	p.wrong(f.Place, "write a comparison (= < > <= >= contains) and a value after it", "the feature %.40q has no comparison", f.Name)
	return f, false
}

// parseGroup reads the features of contains to the closing parenthesis.
func (p *parser) parseGroup() (list []Feature, ok bool) {
	for {
		f, ok := p.parseFeature(true)
		if !ok {
			return nil, false
		}
		list = append(list, f)
		switch {
		case p.accept(")"):
			return list, true
		case p.accept("and"), p.accept(","):
		default:
			p.wrong(p.token.Place, "write and between its features, and ) after the last one", "there is %s in contains", p.token)
			return nil, false
		}
	}
}

func (p *parser) parseValue(feature string) (v Value, ok bool) {
	t := p.token
	switch t.kind {
	case textToken:
		p.advance()
		return Value{Kind: Text, Text: t.text}, true
	case numberToken:
		p.advance()
		return Value{Kind: Number, Number: trimZeros(t.text), Unit: p.parseUnit()}, true
	case paramToken:
		p.advance()
		v = typed(p.checkText(t.Place, p.params.value(t.Place, t.text)))
		if v.Kind == Number && v.Unit == "" {
			v.Unit = p.parseUnit()
		}
		return v, true
	case wordToken:
		p.wrong(t.Place, "write '"+strings.ReplaceAll(fmt.Sprintf("%.40s", t.text), "'", "")+"'", "the value of %.40q is a word without quotes", feature)
		return v, false
	}
	if p.accept("[") {
		return p.parseList()
	}
	remedy := "write a number, or a text in single quotes"
	if t.kind == wrongToken && strings.Contains(t.text, "'-'") {
		remedy = "numbers have no sign"
	}
	p.wrong(t.Place, remedy, "there is %s in place of the value of %.40q", t, feature)
	return v, false
}

func (p *parser) parseList() (v Value, ok bool) {
	v.Kind = List
	for {
		t := p.token
		if t.kind != textToken {
			p.wrong(t.Place, "write texts in quotes, with commas between them", "there is %s in a list", t)
			return v, false
		}
		p.advance()
		v.List = append(v.List, t.text)
		if p.accept("]") {
			return v, true
		}
		if !p.expect(",", "between the texts of a list") {
			return v, false
		}
	}
}

// typed returns a parameter's value as a number or a text.
func typed(text string) Value {
	l := newLexer([]byte(text))
	first, second := l.next(), l.next()
	if first.kind == numberToken && l.next().kind == endToken {
		if second.kind == endToken {
			return Value{Kind: Number, Number: trimZeros(first.text)}
		}
		if second.kind == wordToken && slices.Contains(units, strings.ToUpper(second.text)) {
			return Value{Kind: Number, Number: trimZeros(first.text), Unit: strings.ToUpper(second.text)}
		}
	}
	return Value{Kind: Text, Text: text}
}

// performanceUnits are the units of cpu.performance.
var performanceUnits = []string{"ECU", "GCEU", "HRZ"}

// units are all units: those of sizes, too.
var units = append([]string{"B", "K", "M", "G", "T", "KB", "MB", "GB", "TB", "KI", "MI", "GI", "TI", "KIB", "MIB", "GIB", "TIB"}, performanceUnits...)

// trimZeros returns a number without leading zeros.
func trimZeros(number string) string {
	if number = strings.TrimLeft(number, "0"); number == "" || number[0] == '.' {
		return "0" + number
	}
	return number
}

// parseUnit returns "" if there is no unit.
func (p *parser) parseUnit() string {
	unit := strings.ToUpper(p.token.text)
	if p.token.kind != wordToken || unit == "AND" || p.atSentence() {
		return ""
	}
	if !slices.Contains(units, unit) {
		p.wrong(p.token.Place, "use B, K, M, G or T; a version needs quotes", "there is the unit %.40q", p.token.text)
		unit = ""
	}
	p.advance()
	return unit
}

// parseCount reads a whole number.
func (p *parser) parseCount(what string) (n int, ok bool) {
	t := p.token
	text := t.text
	if t.kind == paramToken {
		text = p.params.value(t.Place, text)
	} else if t.kind != numberToken {
		p.wrong(t.Place, "write a whole number", "there is %s in place of %s", t, what)
		return 0, false
	}
	p.advance()
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > maxCount {
		if !p.params.isMissing[t.text] {
			p.wrong(t.Place, "write a whole number", "%s is %.40q", what, text)
		}
		n = 0
	}
	return n, true
}

// parseRecipe reads a configure sentence.
func (p *parser) parseRecipe(at Place) bool {
	r := Recipe{Place: at}
	var ok bool
	if r.ID, ok = p.parseID("configure sentence"); !ok {
		return false
	}
	if !p.accept("(") {
		r.IsReference = true
	} else {
		if p.token.kind == recipeToken {
			r.Text, r.TextLine = p.token.text, p.token.bodyLine
			p.advance()
		}
		if !p.expect(")", "after @end of the recipe; @begin and @end must each begin a line") {
			return false
		}
	}
	p.d.Recipes = append(p.d.Recipes, r)
	return true
}

// parseDeploy reads a deploy sentence.
func (p *parser) parseDeploy(at Place) bool {
	d := Deploy{Place: at}
	var ok bool
	if d.System, ok = p.parseID("system to deploy"); !ok {
		return false
	}
	if d.Count, ok = p.parseCount("the number of nodes of " + strconv.Quote(d.System)); !ok {
		return false
	}
	switch t := p.token; {
	case t.kind == paramToken:
		d.Cloud = p.checkText(t.Place, p.params.value(t.Place, t.text))
		p.advance()
	case t.kind == textToken:
		d.Cloud = p.advance().text
	case t.kind == wordToken && t.Line > p.last.Line && suggest.Word(t.text, sentences) != "": // a misspelled keyword
	case t.kind == wordToken && !slices.Contains(sentences, t.text):
		d.Cloud = p.advance().text
	}
	p.d.Deploys = append(p.d.Deploys, d)
	return true
}

// parsePlan reads a contextualize sentence.
func (p *parser) parsePlan(at Place) (ok bool) {
	plan := Plan{Place: at}
	if !p.token.is("(") {
		if plan.Deadline, ok = p.parseCount("the number of seconds of contextualize"); !ok {
			return false
		}
	}
	if !p.expect("(", "after contextualize") {
		return false
	}
	for !p.accept(")") {
		t := p.advance()
		switch {
		case t.is("system"):
			item, ok := p.parsePlanItem(t.Place)
			if !ok {
				return false
			}
			plan.Items = append(plan.Items, item)
		case t.is("option"):
			f, ok := p.parseFeature(true)
			if !ok {
				return false
			}
			plan.Options = append(plan.Options, f)
		default:
			p.wrong(t.Place, "write lines such as: system ID configure ID step 1", "there is %s in contextualize", t)
			return false
		}
	}
	p.plans = append(p.plans, &plan)
	return true
}

func (p *parser) parsePlanItem(at Place) (i PlanItem, ok bool) {
	i.Place = at
	if i.System, ok = p.parseID("system in contextualize"); !ok || !p.expect("configure", "after the system") {
		return i, false
	}
	if i.Recipe, ok = p.parseID("configure sentence in contextualize"); !ok {
		return i, false
	}
	for {
		switch {
		case p.accept("step"):
			if i.Step, ok = p.parseCount("the step"); !ok {
				return i, false
			}
		case p.accept("with"):
			t := p.advance()
			if i.Tool, ok = toolNamed(t.text); !ok || t.kind != wordToken {
				p.wrong(t.Place, "write Ansible or cloud_init", "%.40s is not a tool for recipes", t)
			}
		default:
			return i, true
		}
	}
}

// toolNamed returns the tool of a plan's line by its name in any case.
func toolNamed(name string) (tool string, ok bool) {
	switch strings.ToLower(strings.ReplaceAll(name, "-", "_")) {
	case "ansible":
		return Ansible, true
	case "cloud_init":
		return CloudInit, true
	}
	return "", false
}

// mergePlans merges contextualize sentences: the longest deadline counts, and the last line of the
// same system and recipe. It returns nil if there is none.
func mergePlans(list []*Plan) *Plan {
	if len(list) == 0 {
		return nil
	}
	all := Plan{Place: list[0].Place}
	type pair struct{ system, recipe string }
	at := map[pair]int{}
	for _, p := range list {
		all.Deadline = max(all.Deadline, p.Deadline)
		all.Options = append(all.Options, p.Options...)
		for _, x := range p.Items {
			key := pair{x.System, x.Recipe}
			if i, again := at[key]; again {
				all.Items[i] = x
				continue
			}
			at[key] = len(all.Items)
			all.Items = append(all.Items, x)
		}
	}
	return &all
}
