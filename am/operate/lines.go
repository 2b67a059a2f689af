package operate

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"

	"patchbay/am"
)

// Lists are the names of the lists.
var Lists = []string{"slices", "slivers", "nodes", "tasks", "journal", "usage"}

// maxList limits the bytes of a list.
const maxList = 64 << 20

// Lines writes a list, one JSON object a line, in ASCII without control characters. It
// reads everything before it writes. Errors: as of Slices, and those of w.
func (d *Operations) Lines(what string, f Filter, w io.Writer) error {
	text, err := d.list(what, f)
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}

// list returns the lines of a list.
func (d *Operations) list(what string, f Filter) ([]byte, error) {
	var text bytes.Buffer
	var err error
	switch what {
	case "slices":
		err = d.Slices(f, encoder[Slice](&text))
	case "slivers":
		err = d.Slivers(f, encoder[Sliver](&text))
	case "nodes":
		err = d.Nodes(f, encoder[Node](&text))
	case "tasks":
		err = d.Tasks(f, encoder[Task](&text))
	case "journal":
		err = d.Journal(f, encoder[Entry](&text))
	case "usage":
		err = d.Usage(f, encoder[Usage](&text))
	default:
		err = refuse("there is no list %.40q%s", what, didYouMean(what, slices.Clone(Lists)))
	}
	return text.Bytes(), err
}

// encoder returns a function that appends a row to a list as a line.
func encoder[T any](list *bytes.Buffer) func(T) error {
	var line bytes.Buffer
	e := json.NewEncoder(&line)
	e.SetEscapeHTML(false)
	return func(row T) error {
		line.Reset()
		if err := e.Encode(row); err != nil {
			return err
		}
		if list.Len()+line.Len() > maxList {
			return refuse("the list is too long; ask for less, with a filter or a limit")
		}
		list.Write(am.ASCII(line.Bytes()))
		return nil
	}
}
