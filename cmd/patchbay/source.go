package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/pflag"

	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/rspec"
	"patchbay/rspec/compile"
)

func isXML(text []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(text, "\ufeff \t\r\n"), []byte("<"))
}

// offerOf returns what a site offers; nothing without a site.
func offerOf(config *site.Config) (known compile.Options, err error) {
	if config == nil {
		return known, nil
	}
	return config.CompileOptions()
}

// sourceFlags are the flags of all commands that compile sources.
type sourceFlags struct {
	Set    []string
	values map[string]string
	result *compile.Result // of the last source
}

func (f *sourceFlags) AddFlags(fs *pflag.FlagSet) {
	fs.StringArrayVar(&f.Set, "set", nil, "a parameter of RADL, NAME=VALUE; may be given several times")
}

func (f *sourceFlags) Validate() error {
	f.values = map[string]string{}
	for _, s := range f.Set {
		name, value, ok := strings.Cut(s, "=")
		_, twice := f.values[name]
		switch {
		case !ok || name == "":
			return fmt.Errorf("--set: %q is not NAME=VALUE", s)
		case twice:
			return fmt.Errorf("--set gives %s twice; give it once", name)
		}
		f.values[name] = value
	}
	return nil
}

// compile prints warnings. If the source has mistakes, it prints them, too, and returns an
// exitError.
func (f *sourceFlags) compile(c console, name string, text []byte, o compile.Options) (*compile.Result, error) {
	if len(f.Set) > 0 && compile.Language(text) == compile.Blueprint {
		return nil, errors.New("--set is for parameters of RADL, and this is a blueprint")
	}
	f.ask(c, text)
	err := f.withFiles(name, o, func(o compile.Options) (err error) {
		f.result, err = compile.Compile(text, o)
		return err
	})
	if err != nil {
		return nil, f.report(c, name, err)
	}
	printProblems(c.err, name, f.result.Remarks)
	return f.result, nil
}

// withFiles calls do with the parameters and the files beside a source.
func (f *sourceFlags) withFiles(name string, o compile.Options, do func(compile.Options) error) error {
	o.Parameters = f.values
	if name == "-" {
		return do(o)
	}
	folder, err := compile.OpenFolder(name)
	if err != nil {
		return err
	}
	defer folder.Close()
	o.Files = folder
	return do(o)
}

// terms returns the names that the last source has for features; nil if none was compiled.
func (f *sourceFlags) terms() *strings.Replacer {
	if f.result == nil {
		return nil
	}
	return f.result.Terms
}

// listSent lists the files whose content the request has.
func (f *sourceFlags) listSent(c console, name string) error {
	if f.result == nil || len(f.result.Files) == 0 {
		return nil
	}
	fmt.Fprintln(c.err, "The request has the content of these files, which everyone can read who may see the slice:")
	t := &table{out: c.err, indent: "  ", wide: true}
	for _, file := range f.result.Files {
		t.row(filepath.Join(filepath.Dir(name), filepath.FromSlash(file.Name)), display.Size(int64(file.Size)))
	}
	return t.flush("")
}

// check reports mistakes of the text as compile does.
func (f *sourceFlags) check(c console, name string, text []byte) error {
	f.ask(c, text)
	return f.report(c, name, compile.Check(text, compile.Options{Parameters: f.values}))
}

var errNoParameters = errors.New("--set is for parameters of RADL, and this is an RSpec")

// request compiles a source, and returns any other text unchanged.
func (f *sourceFlags) request(c console, name string, text []byte, o compile.Options) ([]byte, error) {
	if compile.Language(text) == "" && isXML(text) {
		if len(f.Set) > 0 {
			return nil, errNoParameters
		}
		return text, nil
	}
	r, err := f.compile(c, name, text, o)
	if err != nil {
		return nil, err
	}
	return r.Request, nil
}

// report prints the mistakes of a source, and returns an exitError in place of them.
func (f *sourceFlags) report(c console, name string, err error) error {
	if wrong, ok := errors.AsType[*compile.Error](err); ok {
		printProblems(c.err, name, wrong.Problems)
		return exitError(1)
	}
	return err
}

// ask asks for the missing parameters of a source, if there is a terminal.
func (f *sourceFlags) ask(c console, text []byte) {
	if !toTerminal(os.Stdin) || !toTerminal(c.err) {
		return
	}
	const most = 64 << 10 // bytes of all answers
	answers := bufio.NewReader(io.LimitReader(os.Stdin, most))
	for _, name := range compile.Missing(text, compile.Options{Parameters: f.values}) {
		fmt.Fprintf(c.err, "%s: ", display.Line(name))
		if answer, err := answers.ReadString('\n'); err == nil {
			f.values[name] = strings.TrimRight(answer, "\r\n")
		}
	}
}

func printProblems(w io.Writer, name string, list []rspec.Problem) {
	for _, p := range list {
		place, severity := "", "error"
		if p.Line > 0 {
			place = fmt.Sprintf("%d:%d", p.Line, max(p.Column, 1))
		}
		if p.IsRemark() {
			severity = "warning"
		}
		printProblem(w, name, place, severity, p.Text())
	}
}

// printProblem prints a problem at a place LINE:COLUMN; "" for none.
func printProblem(w io.Writer, name, place, severity, text string) {
	if name == "-" {
		name = "standard input"
	}
	if place != "" {
		name += ":" + place
	}
	fmt.Fprintln(w, display.Printable(fmt.Sprintf("%s: %s: %s", name, severity, text)))
}

// problemInTemplate matches a line of an aggregate's answer about the only template of a request.
var problemInTemplate = regexp.MustCompile(`(?m)^template(?: line (\d+:\d+))?: (.*)$`)

// printFromTemplate prints what an aggregate's answer says about a source, and reports whether it says anything.
func printFromTemplate(w io.Writer, name, severity, output string) bool {
	list := problemInTemplate.FindAllStringSubmatch(output, -1)
	for _, x := range list {
		printProblem(w, name, x[1], severity, x[2])
	}
	return len(list) > 0
}
