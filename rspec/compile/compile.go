package compile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"patchbay/inventory"
	"patchbay/rspec"
	"patchbay/rspec/blueprint"
	"patchbay/rspec/generate"
	"patchbay/rspec/radl"
)

// Languages.
const (
	RADL      = "radl"
	Blueprint = "blueprint"
)

// MaxSource is the maximum size of a source in bytes.
const MaxSource = 1 << 20

// Options has the input of a compilation besides the source. The zero value is useful.
type Options struct {
	// Language is RADL or Blueprint; empty for the language that the text seems to have.
	Language string
	// Parameters replace @input.NAME@ in RADL.
	Parameters map[string]string
	// Site has the components, sliver types and images of the aggregate; nil if they are unknown.
	Site *inventory.Inventory
	// Earlier are sources that were compiled for the slice before, in their order. They define
	// what the source refers to.
	Earlier [][]byte
	// Nodes and Links are the client_ids of the slice's existing nodes and links.
	Nodes, Links []string
	// GivesAddresses means that the aggregate gives addresses of the extension's element cidr by itself,
	// so that the address of a node does not depend on other nodes of the source.
	GivesAddresses bool
	// Library has the types of blueprints; nil for the standard ones.
	Library *blueprint.Library
	// Files are the files beside a blueprint; nil for none.
	Files fs.FS
	// ContentDir is the folder into which a blueprint's larger files are written, and ContentURL
	// the address under which nodes find that folder; empty to refuse larger files.
	ContentDir, ContentURL string
	// Work bounds the compilation; nil for no limit.
	Work *rspec.Work
}

// Result is a compiled source.
type Result struct {
	// Request is a request RSpec.
	Request []byte
	// Source is the source without secrets. Parameters are replaced in it if it differs from
	// the source as given.
	Source []byte
	// Nodes and Links are the client_ids of the request's nodes and links.
	Nodes, Links []string
	// Files are the files of Options.Files of which the request has the content.
	Files []generate.SourceFile
	// Remarks are warnings.
	Remarks []rspec.Problem
	// Terms replaces names of features by those of the source, in texts about the request.
	Terms *strings.Replacer
}

// Error is the refusal of a source.
type Error struct {
	// Problems has all mistakes and warnings, by line.
	Problems []rspec.Problem
	refusal  *rspec.RequestError
}

// Error lists the first mistakes, one on a line.
func (e *Error) Error() string { return e.refusal.Error() }

// Unwrap returns the mistakes as the refusal of a request.
func (e *Error) Unwrap() error { return e.refusal }

// newError returns nil if all problems are warnings.
func newError(all []rspec.Problem) error {
	if refusal := rspec.NewRequestError(all); refusal != nil {
		return &Error{all, refusal}
	}
	return nil
}

// Language returns the language of a text by its content; empty for RSpecs and other texts. It can
// be a language that Compile refuses, with advice.
func Language(text []byte) string {
	if l := foreignLanguage(text); l != "" {
		return l
	}
	switch {
	case bytes.HasPrefix(bytes.TrimLeft(text, "\ufeff \t\r\n"), []byte("<")):
		return ""
	case radl.IsRADL(text):
		return RADL
	case blueprint.IsBlueprint(text):
		return Blueprint
	}
	return ""
}

// Missing returns the names of parameters that a source uses and o does not have.
func Missing(text []byte, o Options) []string {
	if o.language(text) != RADL || len(text) > MaxSource {
		return nil
	}
	return slices.DeleteFunc(radl.Parameters(text), func(name string) bool {
		_, given := o.Parameters[name]
		return given
	})
}

func (o Options) language(text []byte) string {
	if o.Language != "" {
		return o.Language
	}
	return Language(text)
}

// Check returns the mistakes of the text itself, as Compile returns them.
func Check(text []byte, o Options) error {
	_, problems := parse(text, o)
	return newError(problems)
}

// document is a source that was read.
type document interface {
	// withoutSecrets returns the source without secrets as text, or nil if it has none. It must be called before
	// toRequest, which leaves the secrets out.
	withoutSecrets() (source []byte, problems []rspec.Problem)
	toRequest(Options) (*generate.Request, []rspec.Problem)
}

// parse reads a source in its language. It returns no document if the source cannot be compiled further.
func parse(text []byte, o Options) (document, []rspec.Problem) {
	if len(text) > MaxSource {
		return nil, []rspec.Problem{{Kind: rspec.TooBig, Msg: fmt.Sprintf("the source has more than %d bytes", MaxSource), Remedy: "divide it, or put large files on a web server"}}
	}
	switch o.language(text) {
	case RADL:
		return parseRADL(text, o)
	case Blueprint:
		return parseBlueprint(text)
	case "":
		return nil, []rspec.Problem{{Kind: rspec.BadArgs, Msg: "the text is neither RADL nor a blueprint", Remedy: "RADL begins with a keyword such as network or system, a blueprint has the key components, and a request RSpec begins with <rspec"}}
	}
	if problems := refuseForeign(o.language(text), text); problems != nil {
		return nil, problems
	}
	return nil, []rspec.Problem{{Kind: rspec.Unsupported, Msg: fmt.Sprintf("the language %.80q is unknown", o.Language), Remedy: "write radl or blueprint"}}
}

// Compile returns the request for a source. It fails with an *Error if the source has mistakes, or
// takes too much work; and with the error of a context that ends.
// Package rspec accepts every request that Compile returns.
func Compile(text []byte, o Options) (*Result, error) {
	r, err := compileUnchecked(text, o)
	if err != nil {
		return nil, err
	}
	_, err = rspec.ParseRequest(r.Request, rspec.ReadOptions{CopyCrossLinks: true})
	if refusal, ok := errors.AsType[*rspec.RequestError](err); ok && refusal.Kind == rspec.TooBig {
		return nil, newError(append(r.Remarks, rspec.Problem{Kind: rspec.TooBig, Msg: "the result is too large: " + refusal.Msg, Remedy: refusal.Remedy}))
	}
	if err != nil {
		return nil, fmt.Errorf("the compiled request is invalid, which is a bug of this program; please report it: %w", err)
	}
	return r, nil
}

// readSteps is the work of reading a byte of a source.
const readSteps = 4

// ended returns why work had to end; nil if it may go on.
func ended(w *rspec.Work) error {
	if refusal, ok := errors.AsType[*rspec.RequestError](w.Err()); ok {
		return newError(refusal.Problems)
	}
	return w.Err()
}

// compileUnchecked is Compile without the check of the result, which takes longer than the rest.
func compileUnchecked(text []byte, o Options) (*Result, error) {
	for _, t := range append(slices.Clip(o.Earlier), text) {
		if !o.Work.Spend(readSteps * min(len(t), MaxSource)) {
			return nil, ended(o.Work)
		}
	}
	d, problems := parse(text, o)
	if d == nil {
		return nil, newError(problems)
	}
	source, more := d.withoutSecrets()
	problems = append(problems, more...)
	request, more := d.toRequest(o)
	if err := ended(o.Work); err != nil {
		return nil, err
	}
	problems = rspec.ByLine(append(problems, more...))
	if err := newError(problems); err != nil {
		return nil, err
	}
	from := "no site is known, so nothing says what its images have"
	if o.Site != nil {
		from = "compiled for the site " + o.Site.Authority
	}
	request.Comments = append([]string{from}, request.Comments...)
	r := &Result{Request: request.Write(), Source: source, Files: request.Files, Remarks: problems, Terms: strings.NewReplacer(request.Terms...)}
	if source == nil {
		r.Source = text
	}
	for i := range request.Nodes {
		r.Nodes = append(r.Nodes, request.Nodes[i].ClientID)
	}
	for i := range request.Links {
		r.Links = append(r.Links, request.Links[i].ClientID)
	}
	return r, nil
}
