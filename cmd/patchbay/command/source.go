package command

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

// IsXML reports whether a text is an RSpec, and no source.
func IsXML(text []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(text, "\ufeff \t\r\n"), []byte("<"))
}

// OfferOf returns what a site offers; nothing without a site.
func OfferOf(config *site.Config) (known compile.Options, err error) {
	if config == nil {
		return known, nil
	}
	return config.CompileOptions()
}

// SourceFlags are the flags of all commands that compile sources.
type SourceFlags struct {
	Set    []string
	Values map[string]string
	Result *compile.Result // of the last source
}

// AddFlags adds --set.
func (f *SourceFlags) AddFlags(fs *pflag.FlagSet) {
	fs.StringArrayVar(&f.Set, "set", nil, "a parameter of RADL, NAME=VALUE; may be given several times")
}

// Validate fails for a value of --set that is not NAME=VALUE.
func (f *SourceFlags) Validate() error {
	f.Values = map[string]string{}
	for _, s := range f.Set {
		name, value, ok := strings.Cut(s, "=")
		_, twice := f.Values[name]
		switch {
		case !ok || name == "":
			return fmt.Errorf("--set: %q is not NAME=VALUE", s)
		case twice:
			return fmt.Errorf("--set gives %s twice; give it once", name)
		}
		f.Values[name] = value
	}
	return nil
}

// Compile compiles a source, stores the result in f.Result, and prints its warnings. At a terminal, it
// asks for missing parameters. If the source has mistakes, it prints them and returns an ExitError.
func (f *SourceFlags) Compile(c Console, name string, text []byte, o compile.Options) (*compile.Result, error) {
	if len(f.Set) > 0 && compile.Language(text) == compile.Blueprint {
		return nil, errors.New("--set is for parameters of RADL, and this is a blueprint")
	}
	f.askParameters(c, text)
	err := f.WithFiles(name, o, func(o compile.Options) (err error) {
		f.Result, err = compile.Compile(text, o)
		return err
	})
	if err != nil {
		return nil, f.report(c, name, err)
	}
	PrintProblems(c.Err, name, f.Result.Remarks)
	return f.Result, nil
}

// WithFiles calls do with the parameters and the files beside a source.
func (f *SourceFlags) WithFiles(name string, o compile.Options, do func(compile.Options) error) error {
	o.Parameters = f.Values
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

// Terms returns the names that the last source has for features; nil if none was compiled.
func (f *SourceFlags) Terms() *strings.Replacer {
	if f.Result == nil {
		return nil
	}
	return f.Result.Terms
}

// ListSent lists the files whose content the request has.
func (f *SourceFlags) ListSent(c Console, name string) error {
	if f.Result == nil || len(f.Result.Files) == 0 {
		return nil
	}
	fmt.Fprintln(c.Err, "The request has the content of these files, which everyone can read who may see the slice:")
	t := &Table{Out: c.Err, Indent: "  ", Wide: true}
	for _, file := range f.Result.Files {
		t.Row(filepath.Join(filepath.Dir(name), filepath.FromSlash(file.Name)), display.Size(int64(file.Size)))
	}
	return t.Flush("")
}

// Check prints the mistakes that compile.Check finds in a source, and then returns an ExitError. At a
// terminal, it asks for missing parameters.
func (f *SourceFlags) Check(c Console, name string, text []byte) error {
	f.askParameters(c, text)
	return f.report(c, name, compile.Check(text, compile.Options{Parameters: f.Values}))
}

// CheckText prints the mistakes of a request or a source that others start later, so that nobody can be asked for
// parameters. It then returns an error.
func (f *SourceFlags) CheckText(c Console, name string, text []byte) error {
	if IsXML(text) {
		if _, err := rspec.ParseRequest(text, rspec.ReadOptions{CopyCrossLinks: true}); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}
	if missing := compile.Missing(text, compile.Options{}); len(missing) > 0 {
		return fmt.Errorf("%s: write the values of these parameters into the text: %s", name, display.Line(strings.Join(missing, ", ")))
	}
	return f.report(c, name, compile.Check(text, compile.Options{}))
}

// ErrNoParameters is the error for --set with an RSpec.
var ErrNoParameters = errors.New("--set is for parameters of RADL, and this is an RSpec")

// Request compiles a source, and returns any other text unchanged.
func (f *SourceFlags) Request(c Console, name string, text []byte, o compile.Options) ([]byte, error) {
	if compile.Language(text) == "" && IsXML(text) {
		if len(f.Set) > 0 {
			return nil, ErrNoParameters
		}
		return text, nil
	}
	r, err := f.Compile(c, name, text, o)
	if err != nil {
		return nil, err
	}
	return r.Request, nil
}

// report prints the mistakes of a source, and returns an ExitError in place of them.
func (f *SourceFlags) report(c Console, name string, err error) error {
	if wrong, ok := errors.AsType[*compile.Error](err); ok {
		PrintProblems(c.Err, name, wrong.Problems)
		return ExitError(1)
	}
	return err
}

// askParameters asks for the missing parameters of a source, if there is a terminal, and adds them to
// f.Values.
func (f *SourceFlags) askParameters(c Console, text []byte) {
	if !ToTerminal(os.Stdin) || !ToTerminal(c.Err) {
		return
	}
	const most = 64 << 10 // bytes of all answers
	answers := bufio.NewReader(io.LimitReader(os.Stdin, most))
	for _, name := range compile.Missing(text, compile.Options{Parameters: f.Values}) {
		fmt.Fprintf(c.Err, "%s: ", display.Line(name))
		if answer, err := answers.ReadString('\n'); err == nil {
			f.Values[name] = strings.TrimRight(answer, "\r\n")
		}
	}
}

// PrintProblems prints each problem as FILE:LINE:COLUMN: error: text, or as a warning.
func PrintProblems(w io.Writer, name string, list []rspec.Problem) {
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

// PrintFromTemplate prints the problems of a source that an aggregate's answer names, and reports
// whether there are any.
func PrintFromTemplate(w io.Writer, name, severity, output string) bool {
	list := problemInTemplate.FindAllStringSubmatch(output, -1)
	for _, x := range list {
		printProblem(w, name, x[1], severity, x[2])
	}
	return len(list) > 0
}
