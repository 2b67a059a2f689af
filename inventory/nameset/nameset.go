// Package nameset reads and writes ranges of component names: pc1..pc12 stands for
// twelve names.
package nameset

import (
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"
)

// maxLength is the maximal length of a range's text in bytes. It limits the memory for the
// names, because each name repeats the leading zeros.
const maxLength = 256

// Range is a range of names; the zero Range has no names.
type Range struct {
	stem        string // the part of each name before its number
	first, many int    // the first number, and the number of names
	width       int    // digits of a number with leading zeros; 0 without leading zeros
}

// Parse reads a range: pc1..pc20, pc1..20, or pc001..pc100. ok reports whether the text
// contains two dots; a text without them is one name. An invalid range has no names.
func Parse(text string) (r Range, ok bool) {
	from, to, ok := strings.Cut(text, "..")
	stem := strings.TrimRight(from, "0123456789")
	digits := from[len(stem):]
	first, err1 := strconv.ParseUint(digits, 10, strconv.IntSize-1)
	last, err2 := strconv.ParseUint(strings.TrimPrefix(to, stem), 10, strconv.IntSize-1)
	if err1 != nil || err2 != nil || last < first || len(text) > maxLength {
		return Range{}, ok
	}
	r = Range{stem: stem, first: int(first), many: int(min(last-first, math.MaxInt-1)) + 1}
	if strings.HasPrefix(digits, "0") {
		r.width = len(digits)
	}
	return r, ok
}

// Len returns the number of names. Check it before calling Names: a range can have more
// names than fit in memory.
func (r Range) Len() int { return r.many }

// Names yields the names of the range, in order.
func (r Range) Names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for n := range r.many {
			if !yield(fmt.Sprintf("%s%0*d", r.stem, r.width, r.first+n)) {
				return
			}
		}
	}
}

// Fold shortens a list of names: three or more names with consecutive numbers become a
// range, unless the range's text would be too long.
func Fold(names []string) (written []string) {
	for i := 0; i < len(names); {
		stem, n, width := numbered(names[i])
		j := i + 1
		for stem != names[i] && j < len(names) && names[j] == fmt.Sprintf("%s%0*d", stem, width, n+j-i) {
			j++
		}
		if j-i < 3 || len(names[i])+len("..")+len(names[j-1]) > maxLength {
			j = i + 1
			written = append(written, names[i])
		} else {
			written = append(written, names[i]+".."+names[j-1])
		}
		i = j
	}
	return written
}

// numbered splits a name into its stem and its number. The result width is the number of digits
// if the number has leading zeros, else 0. Without a number, the stem is the whole name.
func numbered(name string) (stem string, n, width int) {
	stem = strings.TrimRight(name, "0123456789")
	digits := name[len(stem):]
	n, err := strconv.Atoi(digits)
	if err != nil || strings.Contains(name, "..") {
		return name, 0, 0
	}
	if strings.HasPrefix(digits, "0") {
		width = len(digits)
	}
	return stem, n, width
}
