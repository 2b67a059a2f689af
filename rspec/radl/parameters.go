package radl

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

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
	values   map[string]string
	missing  []string
	first    Place // of the first missing one
	replaced int   // bytes
}

func (p *parameters) value(at Place, name string) string {
	v, ok := p.values[name]
	if !ok && !slices.Contains(p.missing, name) {
		if len(p.missing) == 0 {
			p.first = at
		}
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

// check returns the mistakes of all replacements.
func (p *parameters) check() (list []rspec.Problem) {
	if len(p.missing) > 0 {
		names := strings.Join(p.missing, ", ")
		list = append(list, rspec.Problem{Kind: rspec.BadArgs, Line: p.first.Line, Column: p.first.Column, Msg: fmt.Sprintf("no values are given for %.400s", names), Remedy: "give each one, such as --set " + p.missing[0] + "=VALUE"})
	}
	if p.replaced > maxReplaced {
		list = append(list, rspec.Problem{Kind: rspec.TooBig, Msg: fmt.Sprintf("the values of parameters add more than %d bytes", maxReplaced), Remedy: "use shorter values"})
	}
	return list
}
