package radl

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"patchbay/am/display"
	"patchbay/rspec"
)

const (
	parameterBegin = "@input."
	// maxReplaced limits the bytes that parameters add to the texts of a document.
	maxReplaced = 1 << 20
)

// parameterAt returns the name of the parameter with which the text begins, and its length; 0
// if it begins with none.
func parameterAt(text []byte) (name string, n int) {
	rest, ok := bytes.CutPrefix(text, []byte(parameterBegin))
	if !ok {
		return "", 0
	}
	length := countBytes(rest, func(c byte) bool { return isLetter(c) || isDigit(c) || c == '_' || c == '-' || c == '.' })
	if length == 0 || length == len(rest) || rest[length] != '@' {
		return "", 0
	}
	return string(rest[:length]), len(parameterBegin) + length + 1
}

// Parameters returns the names of the parameters that the text uses, in the order of their first
// use.
func Parameters(text []byte) (names []string) {
	seen := map[string]bool{}
	for at := 0; ; {
		n := bytes.Index(text[at:], []byte(parameterBegin))
		if n < 0 {
			return names
		}
		at += n
		name, length := parameterAt(text[at:])
		if length > 0 && !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
		at += max(length, 1)
	}
}

// parameters replaces parameters by their values.
type parameters struct {
	values    map[string]string
	missing   []string
	isMissing map[string]bool
	first     Place // of the first missing one
	replaced  int   // bytes
}

// value returns the value of a parameter, and counts its bytes. If there is none, or the values have too many bytes,
// it returns "". checkParameters reports both later.
func (p *parameters) value(at Place, name string) string {
	v, ok := p.values[name]
	if !ok && !p.isMissing[name] {
		if len(p.missing) == 0 {
			p.first, p.isMissing = at, map[string]bool{}
		}
		p.isMissing[name] = true
		p.missing = append(p.missing, name)
	}
	if p.replaced += len(v); p.replaced > maxReplaced {
		return ""
	}
	return v
}

// replace replaces the parameters in a text.
func (p *parameters) replace(at Place, text string) string {
	var b strings.Builder
	for {
		n := strings.Index(text, parameterBegin)
		if n < 0 {
			break
		}
		b.WriteString(text[:n])
		name, length := parameterAt([]byte(text[n:min(len(text), n+len(parameterBegin)+256)]))
		if length == 0 {
			b.WriteString(parameterBegin)
			length = len(parameterBegin)
		} else {
			b.WriteString(p.value(at, name))
		}
		text = text[n+length:]
	}
	if b.Len() == 0 {
		return text
	}
	return b.String() + text
}

// checkText refuses a text that a value has changed so that it cannot be written as RADL again.
func (p *parser) checkText(at Place, text string) string {
	switch {
	case !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0:
		p.wrong(at, "use only characters of UTF-8 other than NUL", "a text is not valid: %.40q", text)
	case strings.HasSuffix(text, `\`):
		p.wrong(at, "leave the backslash out, or add a blank after it", "a text ends with a backslash: %.40q", text)
	case len(p.params.missing) == 0 && len(Parameters([]byte(text))) > 0:
		p.wrong(at, "replace it in the value, too", "a parameter's value has another parameter in it: %.40q", text)
	}
	return text
}

// checkParameters refuses missing and too long values, each in one error.
func (p *parser) checkParameters() {
	if missing := p.params.missing; len(missing) > 0 {
		p.wrong(p.params.first, "give each one, such as --set "+display.Cut(missing[0], 80)+"=VALUE", "no values are given for %.400s", strings.Join(missing, ", "))
	}
	if p.params.replaced > maxReplaced {
		p.refuse(rspec.TooBig, Place{}, "use shorter values", "the values of parameters add more than %d bytes", maxReplaced)
	}
}
