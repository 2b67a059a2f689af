package radl

import (
	"fmt"
	"slices"
	"strings"

	"patchbay/am/display"
)

// parseFeatures reads features, and soft groups if they are allowed, to the closing parenthesis. ok is false if the
// rest of the sentence must be skipped.
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
		andPlace := p.token.Place
		if p.accept("and") {
			if p.token.is(")") {
				p.wrong(andPlace, "add a feature, or leave the and out", "there is no feature after the last and")
				p.advance()
				return list, soft, true
			}
			continue
		}
		if p.accept(")") {
			return list, soft, true
		}
		if !p.missesAnd(allowSoft) {
			p.wrong(p.token.Place, "write and between features, and ) after the last one", "there is %s after a feature", p.token)
			return list, soft, false
		}
	}
}

// missesAnd records a mistake if the next feature follows without and.
func (p *parser) missesAnd(allowSoft bool) bool {
	if !p.atFeature() && !(allowSoft && p.token.is("soft")) {
		return false
	}
	p.wrong(p.token.Place, "write and before "+display.Cut(p.token.text, 80), "the word and is missing between a feature and the next one, %.40q", p.token.text)
	return true
}

// atFeature reports whether the name of a feature and a comparison are next.
func (p *parser) atFeature() bool {
	if p.token.kind != wordToken || !isFeatureName(p.token.text) {
		return false
	}
	l := *p.lexer
	t := l.next()
	return t.kind == opToken || t.is(Contains)
}

// skipFeature skips the rest of a feature with a mistake, to the and or parenthesis after it. ok is false if the sentence
// ends before.
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
		if l := *p.lexer; !p.token.is("(") || l.next().kind != wordToken {
			if systemRules[ruleName(f.Name)].kind == applications {
				p.wrong(f.Place, "write contains (name = 'NAME')", "%.80s: there are no features in parentheses after contains", f.Name)
			} else {
				p.wrong(f.Place, "write = and a value", "%.80s: only applications contain others", f.Name)
			}
			return f, false
		}
		p.advance()
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
		case p.accept("and"), p.accept(","), p.missesAnd(false):
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
	if p.token.kind != wordToken || unit == "AND" || unit == "SOFT" || p.atSentence() || p.atFeature() {
		return ""
	}
	if !slices.Contains(units, unit) {
		p.wrong(p.token.Place, "use B, K, M, G or T; a version needs quotes", "there is the unit %.40q", p.token.text)
		unit = ""
	}
	p.advance()
	return unit
}

// performanceUnits are the units of cpu.performance.
var performanceUnits = []string{"ECU", "GCEU", "HRZ"}

// units are all units: those of sizes, too.
var units = append([]string{"B", "K", "M", "G", "T", "KB", "MB", "GB", "TB", "KI", "MI", "GI", "TI", "KIB", "MIB", "GIB", "TIB"}, performanceUnits...)
