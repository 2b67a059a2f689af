package agent

import (
	"bytes"
	"slices"
	"strings"
)

// The testbed writes only the lines between these marks; the rest of a file is the users'.
const (
	beginMark = "# BEGIN patchbay (kept by the testbed; write outside of these lines)"
	endMark   = "# END patchbay"
)

func isMark(line string) bool {
	line = strings.TrimSpace(line)
	return line == beginMark || line == endMark
}

// setBlock replaces the testbed's block in text by a block with these lines. The new
// block has the place of the first old block, or is at the end. Without lines, setBlock
// only removes the old blocks. It keeps all other lines, but removes a mark without its
// partner.
func setBlock(text []byte, lines []string) []byte {
	head, tail := splitAtBlock(text)
	if len(lines) == 0 {
		return append(head, tail...)
	}
	if len(head) > 0 && head[len(head)-1] != '\n' {
		head = append(head, '\n')
	}
	room := len(beginMark+endMark) + 2 + len(tail)
	for _, line := range lines {
		room += len(line) + 1
	}
	head = append(slices.Grow(head, room), beginMark+"\n"...)
	for _, line := range lines {
		head = append(append(head, line...), '\n')
	}
	head = append(head, endMark+"\n"...)
	return append(head, tail...)
}

// splitAtBlock returns the text up to the first block, and the text after it without
// further blocks.
func splitAtBlock(text []byte) (head, tail []byte) {
	head, tail = []byte{}, []byte{}
	kept := &head
	for len(text) > 0 {
		var line []byte
		line, text = cutLine(text)
		if !isMark(string(line)) {
			*kept = append(*kept, line...)
			continue
		}
		kept = &tail
		if strings.TrimSpace(string(line)) == beginMark {
			text = skipBlock(text)
		}
	}
	return head, tail
}

// skipBlock returns the rest of text after the end mark of a block whose begin mark
// precedes text. If the end mark is missing before the next begin mark, skipBlock
// returns all of text.
func skipBlock(text []byte) []byte {
	for rest := text; len(rest) > 0; {
		var line []byte
		line, rest = cutLine(rest)
		switch strings.TrimSpace(string(line)) {
		case endMark:
			return rest
		case beginMark:
			return text
		}
	}
	return text
}

func cutLine(text []byte) (line, rest []byte) {
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		return text[:i+1], text[i+1:]
	}
	return text, nil
}
