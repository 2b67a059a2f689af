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

// isMark reports whether a line is one of the two marks.
func isMark(line string) bool {
	line = strings.TrimSpace(line)
	return line == beginMark || line == endMark
}

// setBlock replaces the testbed's block in text with lines: at the first block, or at the
// end if there is none. Without lines the block is removed. All other lines are kept. A mark
// without its partner is removed.
func setBlock(text []byte, lines []string) []byte {
	before, after := splitAtBlock(text)
	if len(lines) == 0 {
		return append(before, after...)
	}
	if len(before) > 0 && before[len(before)-1] != '\n' {
		before = append(before, '\n')
	}
	room := len(beginMark+endMark) + 2 + len(after)
	for _, line := range lines {
		room += len(line) + 1
	}
	before = append(slices.Grow(before, room), beginMark+"\n"...)
	for _, line := range lines {
		before = append(append(before, line...), '\n')
	}
	before = append(before, endMark+"\n"...)
	return append(before, after...)
}

// splitAtBlock returns the text before and after the first block. It removes all blocks.
func splitAtBlock(text []byte) (before, after []byte) {
	before, after = []byte{}, []byte{}
	kept := &before
	for len(text) > 0 {
		var line []byte
		line, text = cutLine(text)
		if !isMark(string(line)) {
			*kept = append(*kept, line...)
			continue
		}
		kept = &after
		if strings.TrimSpace(string(line)) == beginMark {
			text = skipBlock(text)
		}
	}
	return before, after
}

// skipBlock returns the part of text after the end mark of a block; text starts after
// its begin mark. If the end mark is missing before the next begin mark, skipBlock
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

// cutLine splits text after the first line.
func cutLine(text []byte) (line, rest []byte) {
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		return text[:i+1], text[i+1:]
	}
	return text, nil
}
