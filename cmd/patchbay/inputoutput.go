package main

import (
	"io"
	"os"
	"path/filepath"

	"patchbay/am/fileowner"
	"patchbay/am/site"
)

// openOutput opens a file that the user named, to write into it.
func openOutput(name string, flags int) (f *os.File, err error) {
	err = fileowner.As(filepath.Dir(name), func() (err error) {
		f, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|flags, 0o644)
		return err
	})
	return f, err
}

// readInput reads a file that the user named; - is standard input.
func readInput(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(os.Stdin)
	}
	text, err := site.ReadRegular(filepath.Clean(name))
	return text, site.OrPiped(err)
}

// toTerminal tells whether w is a terminal.
func toTerminal(w io.Writer) bool {
	f, ok := site.FileOf(w)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
