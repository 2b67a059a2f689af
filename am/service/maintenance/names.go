package maintenance

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"patchbay/inventory/nameset"
)

// Limits of a file. They keep a mistake from filling the memory.
const (
	maxFile    = 1 << 20 // bytes
	maxWindows = 1000
	maxNames   = 300_000 // components in all windows together
	maxName    = 256     // bytes
	maxText    = 500     // bytes
)

// CheckText returns an error if a text for experimenters is empty, longer than maxText, or
// not one line of ASCII. Old clients show such texts unchanged.
func CheckText(text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return fmt.Errorf("the text is empty; write one line that experimenters can read")
	case len(text) > maxText:
		return fmt.Errorf("the text has %d bytes; at most %d are shown", len(text), maxText)
	}
	for _, c := range []byte(text) {
		switch {
		case c < ' ' || c == 0x7f:
			return fmt.Errorf("the text must be one line without control characters")
		case c > '~':
			return fmt.Errorf("the text must be plain ASCII, because old clients fail on other characters")
		}
	}
	return nil
}

func isName(name string) bool {
	return len(name) <= maxName && !strings.ContainsFunc(name, unicode.IsControl)
}

// Spread returns the names that an entry of a list stands for: one component, or a range
// such as pc1..pc20 or pc001..pc100. It fails for more than limit names.
func Spread(written string, limit int) ([]string, error) {
	if len(written) > maxName {
		return nil, fmt.Errorf("the name %.40q… is longer than %d bytes", written, maxName)
	}
	r, isRange := nameset.Parse(written)
	switch {
	case !isRange && (written == "" || limit < 1 || strings.ContainsFunc(written, func(r rune) bool { return r <= ' ' || r == ',' || r == 0x7f })):
		return nil, fmt.Errorf("%q is not the name of one component; write a list such as [pc1, pc2], or a range such as pc1..pc4", written)
	case !isRange:
		return []string{written}, nil
	case r.Len() == 0:
		return nil, fmt.Errorf("%q is not a range; write its first and its last name, such as pc1..pc20", written)
	case r.Len() > limit:
		return nil, fmt.Errorf("%q makes %d names, and the limit allows %d more; name fewer", written, r.Len(), max(limit, 0))
	}
	return slices.AppendSeq(make([]string, 0, r.Len()), r.Names()), nil
}
