package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"patchbay/am/display"
	"patchbay/am/file"
	"patchbay/am/site"
)

// openOutput opens a file that the user named, with the rights of the folder's owner.
func openOutput(name string, flags int) (f *os.File, err error) {
	err = file.AsOwner(filepath.Dir(name), func() (err error) {
		f, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|flags, 0o644)
		return err
	})
	return f, err
}

func writeDocument(file, text string) error {
	f, err := openOutput(file, os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// readInput reads a file that the user named. The name - is standard input.
func readInput(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(os.Stdin)
	}
	text, err := site.ReadRegular(filepath.Clean(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, missingFile{name}
	}
	return text, site.SuggestPipe(err)
}

type missingFile struct{ name string }

func (e missingFile) Error() string { return "there is no file " + e.name }
func (e missingFile) Unwrap() error { return fs.ErrNotExist }

func toTerminal(w io.Writer) bool {
	f, ok := site.FileOf(w)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// confirmed reports whether the answer is yes. If the input or output is not a terminal, it
// returns true and asks nothing.
func confirmed(input *os.File, output io.Writer, question string) bool {
	return !toTerminal(input) || !toTerminal(output) || answersYes(input, output, question)
}

// answersYes accepts y and yes.
func answersYes(in io.Reader, out io.Writer, question string) bool {
	fmt.Fprint(out, question)
	const most = 100 // bytes of an answer
	answer, _ := bufio.NewReader(io.LimitReader(in, most)).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true
	}
	return false
}

// shownOn removes control characters only if w is a terminal.
func shownOn(w io.Writer, document string) string {
	if toTerminal(w) {
		return display.Printable(document)
	}
	return document
}
