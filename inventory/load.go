package inventory

import (
	"fmt"
	"os"
	"strings"
)

// Problem is one mistake in an inventory file.
type Problem struct {
	File string
	Line int // 0: the file as a whole
	Msg  string
}

func (p Problem) String() string {
	if p.Line == 0 {
		return fmt.Sprintf("%s: %s", p.File, p.Msg)
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Msg)
}

// FileError says all that is wrong with an inventory file, in the order of its
// lines.
type FileError struct{ Problems []Problem }

func (e *FileError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Load reads an inventory file of the site authority. An error is what the
// file system says, or a *FileError.
func Load(file, authority string) (*Inventory, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read the inventory: %w", err)
	}
	return Parse(text, file, authority)
}
