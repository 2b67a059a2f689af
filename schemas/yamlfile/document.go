package yamlfile

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Document parses the text and returns its only document, whose Content is one node. For a
// text without content that node is null. If the text is not one YAML document, Document
// records a mistake and returns nil.
func (r *Reader) Document(text []byte) *yaml.Node {
	d := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	err := d.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return &yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{{Kind: yaml.ScalarNode, Tag: "!!null"}}}
	}
	if err == nil {
		err = d.Decode(&more)
	}
	switch {
	case errors.Is(err, io.EOF):
		return &doc
	case err == nil:
		r.Wrong(&more, "a second YAML document begins here; move its keys into the first")
	default:
		r.notYAML(text, err)
	}
	return nil
}

// searched limits the size in bytes of a text that notYAML parses repeatedly to find the line
// of the mistake.
const searched = 1 << 20

// notYAML names the line from which on the text is not valid. The cause may be in a later
// line, for example where a bracket or quote should be closed.
func (r *Reader) notYAML(text []byte, err error) {
	cause, at := strings.TrimPrefix(err.Error(), "yaml: "), &yaml.Node{}
	if rest, ok := strings.CutPrefix(cause, "line "); ok {
		if line, rest, ok := strings.Cut(rest, ": "); ok {
			at.Line, _ = strconv.Atoi(line)
			cause = rest
		}
	}
	if len(text) <= searched {
		at.Line = firstBad(text)
	}
	if cause = strings.Join(strings.Fields(cause), " "); at.Line == 0 {
		r.Wrong(at, "this is not YAML: %s; %s", cause, Remedy(cause))
		return
	}
	r.Wrong(at, "at or after line %d this is not YAML: %s; %s", at.Line, cause, Remedy(cause))
}

// firstBad returns the smallest n for which the first n lines are not valid YAML. The
// library's own message often names the line of the enclosing entry.
func firstBad(text []byte) int {
	lines := bytes.SplitAfter(text, []byte{'\n'})
	good, bad, size := 0, len(lines), 0 // lines[:good] is valid YAML of size bytes; lines[:bad] is not
	for bad-good > 1 {
		middle, more := (good+bad)/2, 0
		for _, l := range lines[good:middle] {
			more += len(l)
		}
		if isYAML(text[:size+more]) {
			good, size = middle, size+more
		} else {
			bad = middle
		}
	}
	return bad
}

func isYAML(text []byte) bool {
	d := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var n yaml.Node
		if err := d.Decode(&n); err != nil {
			return errors.Is(err, io.EOF)
		}
	}
}

// Remedy returns advice for an error text of the YAML library.
func Remedy(cause string) string {
	switch {
	case strings.Contains(cause, "mapping values"):
		return "look for a line that is indented too far, and put a text with a colon in it into quotes"
	case strings.Contains(cause, "cannot start any token"):
		return "indent with blanks, not tabs, and put a text that begins with a special character into quotes"
	case strings.Contains(cause, "',' or"):
		return "look for a bracket that is not closed, or a comma that is missing"
	case strings.Contains(cause, "quoted"), strings.Contains(cause, "unexpected end of stream"):
		return "look for a quote that is not closed"
	}
	return "look for a line that is not indented like its neighbours"
}
