package operate

import (
	"bytes"
	"encoding/json"
	"slices"

	"patchbay/am"
)

// ListNames are the names of the lists.
var ListNames = []string{"slices", "slivers", "nodes", "tasks", "journal", "usage", "calendar"}

// maxList limits the bytes of a list.
const maxList = 64 << 20

// listLines returns a list, one JSON object a line, in ASCII without control characters. It
// fails like Slices.
func (d *Operations) listLines(name string, f Filter) ([]byte, error) {
	var text bytes.Buffer
	var err error
	switch name {
	case "slices":
		err = d.Slices(f, lineEncoder[Slice](&text))
	case "slivers":
		err = d.Slivers(f, lineEncoder[Sliver](&text))
	case "nodes":
		err = d.Nodes(f, lineEncoder[Node](&text))
	case "tasks":
		err = d.Tasks(f, lineEncoder[Task](&text))
	case "journal":
		err = d.Journal(f, lineEncoder[Entry](&text))
	case "usage":
		err = d.Usage(f, lineEncoder[Usage](&text))
	case "calendar":
		err = d.Calendar(f, lineEncoder[CalendarRow](&text))
	default:
		err = refuse("there is no list %.40q%s", name, didYouMean(name, slices.Clone(ListNames)))
	}
	return text.Bytes(), err
}

func lineEncoder[T any](list *bytes.Buffer) func(T) error {
	var line bytes.Buffer
	e := json.NewEncoder(&line)
	e.SetEscapeHTML(false)
	return func(row T) error {
		line.Reset()
		if err := e.Encode(row); err != nil {
			return err
		}
		if list.Len()+line.Len() > maxList {
			return refuse("the list is too long; select less with a filter or a limit")
		}
		list.Write(am.ASCII(line.Bytes()))
		return nil
	}
}
