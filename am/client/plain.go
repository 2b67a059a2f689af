package client

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
)

// contents are the elements of a plain answer, each with the elements that it contains, in their
// order. struct and data contain any number. An element without an entry contains text.
var contents = map[string][][]string{
	"": {{"methodResponse"}}, "methodResponse": {{"params"}}, "params": {{"param"}}, "param": {{"value"}},
	"value": {{"string", "int", "i4", "boolean", "double", "struct", "array"}}, "array": {{"data"}},
	"struct": {{"member"}}, "data": {{"value"}}, "member": {{"name"}, {"value"}},
}

const maxTag = 20 // no tag of a plain answer has more bytes

var (
	declaration = regexp.MustCompile(`^\s*<\?xml version=["']1\.0["']( encoding=["'](?i:utf-8)["'])?\s*\?>`)
	// surrogate matches references to half of a surrogate pair, among others.
	surrogate = regexp.MustCompile(`&#(?:x0*[dD]|0*5[5-7])`)
)

// isPlain reports whether kolo/xmlrpc reads an answer as am/api/xmlrpc does: without loss, and with no
// more memory. That is an answer of typed values and a small depth, without attributes, comments,
// CDATA, base64, nil, dates and 64-bit numbers, in which no struct has two members with one name.
// A fault is not plain. Numbers and characters are not checked, because kolo/xmlrpc checks them.
func isPlain(b []byte) bool {
	type element struct {
		name     string
		children int
		members  map[string]bool
	}
	b = b[len(declaration.Find(b)):]
	stack, values := []element{{}}, 0
	for {
		text, rest, found := bytes.Cut(b, []byte("<")) // text is the content of top before the next tag
		top := &stack[len(stack)-1]
		allowed, isParent := contents[top.name]
		if isParent && len(bytes.TrimSpace(text)) > 0 || surrogate.Match(text) {
			return false
		}
		if !found {
			return len(stack) == 1 && top.children == 1
		}
		tag, _, closed := bytes.Cut(rest[:min(len(rest), maxTag)], []byte(">"))
		if !closed {
			return false
		}
		b = rest[len(tag)+1:]
		repeats := top.name == "struct" || top.name == "data"
		if name, isEnd := strings.CutPrefix(string(tag), "/"); isEnd {
			if len(stack) == 1 || name != top.name || isParent && !repeats && top.children != len(allowed) {
				return false
			}
			if stack = stack[:len(stack)-1]; name == "name" { // now the stack ends with struct and member
				structure, member := &stack[len(stack)-2], string(text)
				if strings.Contains(member, "&") || structure.members[member] {
					return false
				}
				if structure.members == nil {
					structure.members = map[string]bool{}
				}
				structure.members[member] = true
			}
			continue
		}
		position := top.children
		if repeats {
			position = 0
		}
		if position >= len(allowed) || !slices.Contains(allowed[position], string(tag)) {
			return false
		}
		top.children++
		if string(tag) == "value" {
			values++
		}
		if stack = append(stack, element{name: string(tag)}); values > maxValues || len(stack) > 3*maxDepth {
			return false
		}
	}
}
