package command

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

// OpenOutput opens a file that the user named, with the rights of the folder's owner.
func OpenOutput(name string, flags int) (f *os.File, err error) {
	err = file.AsOwner(filepath.Dir(name), func() (err error) {
		f, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|flags, 0o644)
		return err
	})
	return f, err
}

// WriteDocument writes a file that the user named.
func WriteDocument(file, text string) error {
	f, err := OpenOutput(file, os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// ReadInput reads a file that the user named. The name - is standard input.
func ReadInput(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(os.Stdin)
	}
	text, err := site.ReadRegular(filepath.Clean(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, MissingFile(name)
	}
	return text, site.SuggestPipe(err)
}

// MissingFile is the name of a file that does not exist.
type MissingFile string

func (e MissingFile) Error() string { return "there is no file " + string(e) }
func (e MissingFile) Unwrap() error { return fs.ErrNotExist }

// ToTerminal reports whether the writer is a terminal.
func ToTerminal(w io.Writer) bool {
	f, ok := site.FileOf(w)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// Confirmed asks, and reports whether the answer is yes. If the input or output is not a terminal, it
// returns true without asking.
func Confirmed(input *os.File, output io.Writer, question string) bool {
	return !ToTerminal(input) || !ToTerminal(output) || AnswersYes(input, output, question)
}

// AnswersYes asks, and reports whether the answer is y or yes.
func AnswersYes(in io.Reader, out io.Writer, question string) bool {
	fmt.Fprint(out, question)
	const most = 100 // bytes of an answer
	answer, _ := bufio.NewReader(io.LimitReader(in, most)).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true
	}
	return false
}

// ShownOn returns the document, without control characters if w is a terminal.
func ShownOn(w io.Writer, document string) string {
	if ToTerminal(w) {
		return display.Printable(document)
	}
	return document
}
