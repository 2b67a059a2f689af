package command

import (
	"io"
	"os"

	"golang.org/x/sys/unix"

	"patchbay/am/site"
	"patchbay/rspec/draw"
	"patchbay/schemas/xmltree"
)

// DrawLimits are larger than the limits of a server, since the document is a local file.
var DrawLimits = xmltree.Limits{Bytes: 64 << 20, Elements: 2_000_000}

// TextOptions returns the width of the terminal, and whether it has colors.
func TextOptions(w io.Writer) (t draw.TextOptions) {
	f, ok := site.FileOf(w)
	if !ok {
		return t
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return t // no terminal
	}
	t.Width = int(size.Col)
	t.Color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return t
}
