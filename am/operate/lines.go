package operate

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"slices"
	"unicode/utf16"
)

// Lists are the names of what can be listed.
var Lists = []string{"slices", "slivers", "nodes", "tasks", "journal"}

// maxList is how many bytes a list may have, pressed together: far more than
// anybody reads.
const maxList = 64 << 20

// Lines writes a list, one JSON object a line, all of it ASCII and without
// control characters. Nothing is written before all has been read. Errors: as of
// Slices, and those of w.
func (d *Desk) Lines(what string, f Filter, w io.Writer) error {
	text, err := d.press(what, f)
	if err != nil {
		return err
	}
	z, err := gzip.NewReader(&text)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, z)
	return err
}

// press makes a list and keeps it pressed together.
func (d *Desk) press(what string, f Filter) (text bytes.Buffer, err error) {
	z, err := gzip.NewWriterLevel(&text, gzip.BestSpeed)
	if err != nil {
		return text, err
	}
	out := bufio.NewWriterSize(z, 64<<10)
	switch what {
	case "slices":
		err = d.Slices(f, encoder[Slice](out, &text))
	case "slivers":
		err = d.Slivers(f, encoder[Sliver](out, &text))
	case "nodes":
		err = d.Nodes(f, encoder[Node](out, &text))
	case "tasks":
		err = d.Tasks(f, encoder[Task](out, &text))
	case "journal":
		err = d.Journal(f, encoder[Entry](out, &text))
	default:
		err = refuse("there is no list %.40q%s", what, didYouMean(what, slices.Clone(Lists)))
	}
	if err == nil {
		err = out.Flush()
	}
	if err == nil {
		err = z.Close()
	}
	return text, err
}

// encoder writes rows as lines.
func encoder[T any](w io.Writer, text *bytes.Buffer) func(T) error {
	var line bytes.Buffer
	e := json.NewEncoder(&line)
	e.SetEscapeHTML(false)
	return func(row T) error {
		line.Reset()
		if err := e.Encode(row); err != nil {
			return err
		}
		if text.Len() > maxList {
			return refuse("the list is too long; ask for less, with a filter or a limit")
		}
		_, err := w.Write(ascii(line.Bytes()))
		return err
	}
}

// ascii writes the characters of a JSON text beyond ASCII by their numbers, for
// terminals obey some of them.
func ascii(text []byte) []byte {
	if bytes.IndexFunc(text, func(r rune) bool { return r >= 0x7f }) < 0 {
		return text
	}
	const digits = "0123456789abcdef"
	out := make([]byte, 0, 2*len(text))
	unit := func(u uint16) {
		out = append(out, '\\', 'u', digits[u>>12], digits[u>>8&15], digits[u>>4&15], digits[u&15])
	}
	for _, r := range string(text) {
		switch {
		case r < 0x7f:
			out = append(out, byte(r))
		case r <= 0xffff:
			unit(uint16(r))
		default:
			hi, lo := utf16.EncodeRune(r)
			unit(uint16(hi))
			unit(uint16(lo))
		}
	}
	return out
}
