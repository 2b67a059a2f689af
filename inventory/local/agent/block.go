package agent

import (
	"bytes"
	"slices"
	"strings"
)

// What stands between these marks is ours; all else in the file is the users'.
const (
	beginMark = "# BEGIN patchbay (kept by the testbed; write outside of these lines)"
	endMark   = "# END patchbay"
)

func isMark(line string) bool {
	line = strings.TrimSpace(line)
	return line == beginMark || line == endMark
}

// setBlock makes lines the only block of ours in text: where the first one was,
// or at the end. Without lines there is none. All other lines stay as they are;
// a mark without its partner encloses nothing and goes.
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

// splitAtBlock is what stands before and after the place of our block.
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

// skipBlock is what follows the block that has just begun. If none ends before
// the next begins, it is all of text.
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

// cutLine cuts the first line off, with its end.
func cutLine(text []byte) (line, rest []byte) {
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		return text[:i+1], text[i+1:]
	}
	return text, nil
}
