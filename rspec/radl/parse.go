package radl

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"patchbay/am/display"
	"patchbay/rspec"
)

const (
	maxDocument = 1 << 20
	maxID       = 200 // bytes of an id
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
			p.wrong(first.Place, "RADL begins with one of "+strings.Join(sentences, ", ")+"; a blueprint has the key components", "the document is YAML, not RADL")
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
	if p.Failed() {
		return nil, p.Problems()
	}
	return p.d, p.Problems()
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
			if near := display.Suggest(t.text, sentences); t.kind == wordToken && near != "" {
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
	t := p.advance()
	p.checkID(t.Place, what, t.text)
	return t.text, true
}

func (p *parser) checkID(at Place, what, id string) {
	if len(id) > maxID {
		p.refuse(rspec.TooBig, at, "choose a shorter one", "the id %.40q… of a %s has more than %d bytes", id, what, maxID)
	}
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
	n, err := strconv.Atoi(whole(text))
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
	case t.kind == wordToken && t.Line > p.last.Line && display.Suggest(t.text, sentences) != "": // a misspelled keyword
	case t.kind == wordToken && !slices.Contains(sentences, t.text):
		d.Cloud = p.advance().text
	}
	p.d.Deploys = append(p.d.Deploys, d)
	return true
}
