package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
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
	"patchbay/inventory"
	"patchbay/rspec"
	"patchbay/rspec/compile"
)

const compileLong = `Compile RADL or a blueprint to a request RSpec, and print it. Its comments explain each
decision, such as how a node gets an application. The aggregate chooses images and sliver
types.

The language is detected from the content. up, check, draw, call Allocate and call
CreateSliver take such files directly; compile shows what they send.

--against names what the aggregate offers: an inventory.yaml. The default is the site of
--config, PATCHBAY_CONFIG or the current folder. Without a site, images must have all
applications.

--set gives values to parameters of RADL, @input.NAME@. At a terminal, compile asks for
missing ones.

--with names earlier sources of the same slice, in their order. They define what FILE only
refers to, and their nodes and links count as existing: numbers of nodes go on, and new
nodes join existing links. Each may be RADL or a blueprint. The result is for a further
Allocate.

A blueprint may name files beside it, or be a ZIP with heat.yaml and these files. With
--content DIR --content-url URL, files of more than 64 KiB are written into the folder DIR
under their SHA-256. Serve that folder at the URL: the nodes fetch the files from there,
and check them.

Mistakes and warnings are written as FILE:LINE:COLUMN to standard error. After a mistake
the exit status is 1, and nothing is printed. FILE may be - for standard input.`

type compileOptions struct {
	site    siteFlag
	source  sourceFlags
	Against string
	With    []string
	Output  string
	File    string

	ContentDir, ContentURL string
}

func (o *compileOptions) AddFlags(fs *pflag.FlagSet) {
	o.site.AddFlags(fs)
	o.source.AddFlags(fs)
	fs.StringVar(&o.Against, "against", "", "what the aggregate offers: an inventory (default: the site of --config, if there is one)")
	fs.StringArrayVar(&o.With, "with", nil, "an earlier source of the slice; may be given several times")
	fs.StringVar(&o.ContentDir, "content", "", "a folder for the larger files of a blueprint; with --content-url")
	fs.StringVar(&o.ContentURL, "content-url", "", "the http or https URL at which nodes find the folder of --content")
	fs.StringVarP(&o.Output, "output", "o", "", "write the request to this file, instead of printing")
}

func (o *compileOptions) Validate(args []string) (err error) {
	if o.File, err = oneArgument(args, "the FILE to compile"); err != nil {
		return err
	}
	if (o.ContentDir == "") != (o.ContentURL == "") {
		return errors.New("--content and --content-url go together")
	}
	return o.source.Validate()
}

func (o *compileOptions) Run(_ context.Context, c console) error {
	text, err := readInput(o.File)
	if err != nil {
		return err
	}
	if isXML(text) && !compile.IsForeign(text) {
		return fmt.Errorf("%s: this is XML, not RADL; an RSpec needs no compilation", o.File)
	}
	with, err := o.offer()
	if err != nil {
		return err
	}
	with.ContentDir, with.ContentURL = o.ContentDir, o.ContentURL
	sources := map[string][][]byte{} // by language: they define names for those in the same one
	compileNext := func(name string, text []byte) (*compile.Result, error) {
		with.Language = cmp.Or(compile.Language(text), compile.RADL) // the mistakes explain RADL best
		with.Earlier = sources[with.Language]
		flags := o.source
		if with.Language == compile.Blueprint && len(o.With) > 0 {
			flags = sourceFlags{} // the parameters are those of the sources in RADL
		}
		r, err := flags.compile(c, name, text, with)
		if err != nil {
			return nil, err
		}
		sources[with.Language] = append(sources[with.Language], text)
		with.Nodes, with.Links = append(with.Nodes, r.Nodes...), append(with.Links, r.Links...)
		return r, nil
	}
	for _, name := range o.With {
		earlier, err := readInput(name)
		if err != nil {
			return err
		}
		if _, err := compileNext(name, earlier); err != nil {
			return err
		}
	}
	r, err := compileNext(o.File, text)
	if err != nil {
		return err
	}
	if o.Output != "" {
		return writeDocument(o.Output, string(r.Request))
	}
	_, err = io.WriteString(c.out, shownOn(c.out, string(r.Request)))
	return err
}

// offer returns what the aggregate offers, if that is known.
func (o *compileOptions) offer() (known compile.Options, err error) {
	config, err := o.site.Optional()
	if err != nil {
		return known, err
	}
	known, err = offerOf(config)
	if o.Against == "" || err != nil {
		return known, err
	}
	text, err := readInput(o.Against)
	if err != nil {
		return known, err
	}
	if isXML(text) {
		return known, fmt.Errorf("%s: this is XML; --against takes an inventory, such as inventory.yaml", o.Against)
	}
	authority := "example.org"
	if config != nil {
		authority = config.Authority
	}
	known.Site, err = inventory.Parse(text, o.Against, authority)
	return known, err
}

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
