package check

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/schemas/yamlfile"
)

// Checker prints findings and counts the errors among them.
type Checker struct {
	Out      io.Writer
	Err      io.Writer    // receives the messages of providers
	Config   *site.Config // of the checked site; nil for none
	NodeTest NodeTest
	// Parameters are those of RADL.
	Parameters map[string]string
	wrong      int
	siteFailed bool // the configuration cannot be read
	// counted means that all errors are in one document. The report about the document has their
	// number.
	counted bool
	printed []string // the text of each error
}

func (k *Checker) good(what, format string, args ...any) { k.print("ok", what, format, args...) }

func (k *Checker) note(what, format string, args ...any) { k.print("note", what, format, args...) }

func (k *Checker) warn(what, format string, args ...any) { k.print("warning", what, format, args...) }

func (k *Checker) bad(what, format string, args ...any) {
	text := strings.TrimPrefix(what+": ", ": ") + fmt.Sprintf(format, args...)
	if slices.Contains(k.printed, text) {
		return // in a file that was named twice
	}
	k.wrong++
	k.counted = false
	k.printed = append(k.printed, text)
	k.print("error", what, format, args...)
}

func (k *Checker) print(verdict, what, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if what != "" {
		text = what + ": " + text
	}
	fmt.Fprintf(k.Out, "%-8s %s\n", verdict, display.Printable(text))
}

// Errors prints each error that is joined in err.
func (k *Checker) Errors(err error) {
	if f, ok := errors.AsType[*yamlfile.Error](err); ok {
		for _, p := range f.Problems {
			k.bad("", "%s", p)
		}
		return
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range many.Unwrap() {
			k.Errors(e)
		}
		return
	}
	k.bad("", "%v", err)
}

// Verdict prints the number of errors, unless counted is set. It reports whether there are no
// errors.
func (k *Checker) Verdict() bool {
	if k.wrong == 0 {
		return true
	}
	if !k.counted {
		fmt.Fprintf(k.Out, "\n%s.\n", display.Count(k.wrong, "error"))
	}
	return false
}

// NodeTest are the options for a test that creates a node.
type NodeTest struct {
	Component  string
	SliverType string
	Image      string
	Wait       time.Duration
}
