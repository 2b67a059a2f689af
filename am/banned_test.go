package am_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// bans are library calls that are harmful here, or that only a few places may make. A row has
// what is banned, where it is allowed (a package or a file, none if empty), and why. What is
// banned has one of these forms:
//
//	import PATH     an import; PATH/... is all below PATH, too
//	PATH.NAME       the use of a name of a package; NAME* is all that begin so
//	method NAME     a call of a method or function NAME of whatever it be
//	C NAME          a word in C code, and C.NAME in Go; NAME* as above
//	comment TEXT    a comment that begins with TEXT
//	shell           the word -c given to a program or to a shell
//	endless         a call of io.ReadAll whose reader is not an io.LimitReader
//
// Tests, and programs below testkit that only tests run, may do all of it.
const bans = `
import github.com/lestrrat-go/libxml2/... | schemas/xmltree | libxml2 stands behind one wall; a document that is freed twice is handed to two callers
import github.com/lestrrat-go/libxml2/xsd | | Validate overruns a buffer on the stack at an invalid value of more than 1 kB: a crash from outside
import github.com/lestrrat-go/libxml2/dom | | nodes used after Free are garbage without a panic
import github.com/lestrrat-go/libxml2/xpath | | its texts would be made of what clients send
import github.com/lestrrat-go/libxml2/clib | | the raw calls, among them XMLSchemaValidateDocument
import github.com/lestrrat-go/libxml2 | | its ParseFile and ParseHTML read with options of their own
method XMLSchemaValidateDocument | | overruns a buffer on the stack
method AddChild | | a node given to another document is freed twice
method ParseFromFile | | opens what it is told to
github.com/lestrrat-go/libxml2/parser.XMLParseNoEnt | | replaces entities: reads files for whoever sends a document
github.com/lestrrat-go/libxml2/parser.XMLParseDTD* | | loads document types
github.com/lestrrat-go/libxml2/parser.XMLParseXInclude | | reads files
github.com/lestrrat-go/libxml2/parser.XMLParseHuge | | lifts the limits of libxml2
github.com/lestrrat-go/libxml2/parser.XMLParseRecover | | reads on after an error, so that two readers see different documents
github.com/lestrrat-go/libxml2/parser.NewCtxt | | bytes after a NUL are not read
C XML_PARSE_NOENT | | as XMLParseNoEnt
C XML_PARSE_DTD* | | as XMLParseDTDLoad
C XML_PARSE_XINCLUDE | | as XMLParseXInclude
C XML_PARSE_HUGE | | as XMLParseHuge
C XML_PARSE_RECOVER | | as XMLParseRecover
C xmlXInclude* | | reads files
C xmlSubstituteEntitiesDefault | | replaces entities in the whole process
C xmlReadFile | | opens what it is told to
C xmlReadFd | | reads with options of its own
C xmlCtxtReadFile | | opens what it is told to
C xmlParseFile | | opens what it is told to
C xmlParseMemory | | reads with the options of the process
C xmlParseDoc | | reads with the options of the process
C xmlNanoHTTP* | | fetches
C xmlNanoFTP* | | fetches
C xmlXPath* | | its texts would be made of what clients send
C xsltApplyStylesheet | | a transform runs what a document says
C xmlSetExternalEntityLoader | schemas/xmltree/loader.c | one loader, which denies
C xmlSchemaNewParserCtxt | schemas/xmltree/loader.c | schemas are our own
C system | | a shell
C popen | | a shell
C execve | | programs are started in Go, by the listed rooms
C dlopen | | loads code
C gets | | has no bound
C strcpy | | has no bound
C strcat | | has no bound
C sprintf | | has no bound
C vsprintf | | has no bound
C alloca | | a length from outside on the stack
C sscanf | | has no bound
import C | am/server/mtls schemas/xmltree | memory without bounds in two small rooms only
import unsafe | am/server/mtls schemas/xmltree inventory/node/agent inventory/provider/local/sandbox | as cgo; the two others speak with the kernel
comment //go:linkname | | changes what does not belong to us
comment //nolint | | a lint is mended, or excluded in its configuration with a reason
comment //#nosec | | as nolint
comment //go:cgo_ | | flags of the linker
import plugin | | loads code
import encoding/gob | | sizes in a message decide what is allocated
import net/rpc | | gob
import expvar | | adds itself to a server that nobody asked for
import net/http/pprof | | adds itself to a server that nobody asked for
import html/template | am/web | only the pages show HTML
import text/template | am/site/configread.go inventory/local.go inventory/provider/lxd/inventory.go | a template knows nothing of what it writes; these three write YAML of an operator's words, which are quoted first
encoding/xml.Unmarshal | am/client/session/caller.go am/site/check/credential.go credentials/trial/delegation.go | takes the last of repeated elements, names in any namespace, text around comments; for our own files and a client's answers, or signed octets of which nothing is decided
encoding/xml.NewDecoder | am/api/xmlrpc/reader.go rspec/document.go credentials/trial/delegation.go | as Unmarshal; the first two read raw tokens only
encoding/xml.NewTokenDecoder | | as Unmarshal
method DecodeElement | | as Unmarshal
import os/exec | cmd/patchbay/experimenter/web.go inventory/node/inside/inside.go am/client/ownsite/host.go am/executable cmd/patchbay/experimenter/demo.go cmd/patchbay/experimenter/ssh.go inventory/provider/local/behind.go inventory/provider/local/cgroup inventory/provider/local/doctor inventory/provider/local/image inventory/provider/local/linktest inventory/provider/local/node inventory/node/setup inventory/provider/supervisor | who starts programs is a short list
os.StartProcess | inventory/node/agent/apply.go inventory/provider/lxd/run.go | as os/exec; both start this executable again
syscall.StartProcess | | as os/exec
syscall.ForkExec | inventory/node/agent/children.go | PID 1 of a node starts what logs in
syscall.Exec | inventory/provider/local/node/inner.go inventory/node/agent/commands.go inventory/node/agent/sudo.go | the last stage of a node becomes its agent; commands inside of nodes become what their user asked for
golang.org/x/sys/unix.Exec | | as syscall.Exec
shell | inventory/node/agent/commandline.go inventory/node/agent/sudo.go inventory/node/setup/execute.go inventory/provider/local/image/debian.go cmd/patchbay/experimenter/demo.go | words become code; inside a node (the first three) that is what its user asked for, the fourth is one constant, and the last runs the constants that it shows
net/http.Get | | no time limit, no bound, goes where redirects lead
net/http.Post* | | as Get
net/http.Head | | as Get
net/http.Default* | | shared by all that is linked in
net/http.Handle | | the shared multiplexer
net/http.HandleFunc | | the shared multiplexer
net/http.ListenAndServe* | | no time limits
net/http.Serve* | am/server | no time limits; Server is am/server's
net/http.Client | inventory/provider/lxd/rest.go am/client am/site/adminclient.go am/follow/hook/receiver.go inventory/node/setup/http.go | nothing that serves ever fetches; hooks post to where the operator says, commands ask at the Unix socket, and installs run inside of nodes
net/http.Transport | inventory/provider/lxd/rest.go am/client am/site/adminclient.go am/follow/hook/receiver.go inventory/node/setup/http.go inventory/provider/local/testbed/manifest.go | as Client
net/http.NewRequest* | am/web/call.go inventory/provider/lxd/rest.go am/client/client.go am/follow/hook/receiver.go am/site/adminclient.go inventory/provider/local/testbed/manifest.go | as Client; commands ask the manager at its Unix socket, and pages its handlers in the process
net/http.File* | am/web/web.go | shows what is in a folder; the pages show embedded files
net/http.Dir | | shows what is in a folder
net.Dial* | inventory/provider/lxd inventory/node/inside am/client/conformance/login.go am/site/notify.go inventory/provider/local/instance.go inventory/provider/fdsocket/socket.go inventory/node/agent inventory/provider/local/gateway/process.go inventory/provider/local/egress inventory/node/setup/http.go | nothing is ever fetched by the host: local sockets, the probe's login, doors that a keeper opened, installs inside of nodes, name servers of the operator
net.Resolver | | names of clients must not make questions
net.DefaultResolver | am/site/host.go inventory/provider/local/behindendpoint.go | as Resolver; this host's own name, hosts that another provider names, asked by a process without rights
net.Lookup* | | names of clients must not make questions
net.Resolve*Addr | | names of clients must not make questions
import crypto/tls | inventory/provider/lxd/rest.go am/client am/follow/hook/receiver.go am/site/remotemetrics.go am/site/pages.go inventory/node/setup/http.go | cannot read the certificates of most authorities; serving is am/server/mtls's, but for what monitors and browsers, which have ordinary certificates or none
crypto/x509.ParseCertificate* | credentials/cert | one tolerant reader
crypto/x509.SystemCertPool | | whom the host trusts, a federation need not
crypto/x509.NewCertPool | am/client am/follow/hook/receiver.go | one verifier, credentials/cert
import crypto/md5 | inventory/provider/local/image/host.go | broken; there it compares files with what their package shipped
import crypto/sha1 | credentials credentials/cert credentials/dsig | broken; old federations sign with it, and ABAC names keys by it
import crypto/rc4 | | broken
import crypto/des | | broken
import math/rand | | can be told beforehand
import math/rand/v2 | am/follow/hook/limits.go am/work/limits.go credentials/trial inventory/provider/local/vswitch inventory/provider/simulated | can be told beforehand: pauses, serial numbers of credentials, losses of frames, pretended failures; keys and names that must not be told come from crypto/rand
endless | cmd/patchbay/command/files.go am/site/operate/order.go | whoever writes decides how much memory is used; allowed for a user's own terminal, and behind a reader that counts
os.Setenv | | children would inherit it, and C reads it meanwhile
os.Unsetenv | | as Setenv
os.Clearenv | | as Setenv
runtime.SetFinalizer | | frees C memory while it is in use
runtime.AddCleanup | | as SetFinalizer
log.Fatal* | | ends without cleaning up
log.Panic* | | as Fatal
net.ListenUnix* | | who listens at a path must also ask who calls
`

// A ban is a row of bans.
type ban struct {
	what    string
	kind    string
	name    *regexp.Regexp
	allowed []string
	why     string
}

func readBans(t *testing.T) []ban {
	t.Helper()
	var list []ban
	for row := range strings.SplitSeq(strings.TrimSpace(bans), "\n") {
		f := strings.Split(row, "|")
		if len(f) != 3 || strings.TrimSpace(f[2]) == "" {
			t.Fatalf("%s: a row is what, where and why", row)
		}
		b := ban{what: strings.TrimSpace(f[0]), allowed: strings.Fields(f[1]), why: strings.TrimSpace(f[2])}
		kind, name, named := strings.Cut(b.what, " ")
		switch {
		case named:
			b.kind = kind
		case kind == "shell" || kind == "endless":
			b.kind, name = kind, ""
		default:
			b.kind, name = "name", b.what
		}
		pattern := regexp.QuoteMeta(name)
		pattern = strings.ReplaceAll(pattern, `/\.\.\.`, "(/.*)?")
		pattern = strings.ReplaceAll(pattern, `\*`, ".*")
		if b.kind == "comment" {
			pattern += ".*"
		}
		b.name = regexp.MustCompile("^(" + pattern + ")$")
		list = append(list, b)
	}
	return list
}

// allows returns the place of b that permits file, or "".
func (b ban) allows(file string) string {
	for _, at := range b.allowed {
		if at == file || at == path.Dir(file) {
			return at
		}
	}
	return ""
}

// A find is a use of something banned.
type find struct {
	line int
	ban  *ban
}

// A search looks for what is banned in one file.
type search struct {
	bans  []ban
	files *token.FileSet
	finds []find
}

func (s *search) see(line int, kind, name string) {
	for i := range s.bans {
		if b := &s.bans[i]; b.kind == kind && b.name.MatchString(name) && !slices.Contains(s.finds, find{line, b}) {
			s.finds = append(s.finds, find{line, b})
		}
	}
}

var wordsOfC = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)

// commentsOfC also matches strings, in which no comment begins.
var commentsOfC = regexp.MustCompile(`(?s)/\*.*?\*/|//[^\n]*|"(\\.|[^"\\])*"`)

// seeC looks through C code that begins at line.
func (s *search) seeC(text string, line int) {
	text = commentsOfC.ReplaceAllStringFunc(text, func(c string) string { return strings.Repeat("\n", strings.Count(c, "\n")) })
	for l := range strings.SplitSeq(text, "\n") {
		for _, word := range wordsOfC.FindAllString(l, -1) {
			s.see(line, "C", word)
		}
		line++
	}
}

var version = regexp.MustCompile(`^v[0-9]+$`)

func packageName(importPath string) string {
	name := path.Base(importPath)
	if version.MatchString(name) {
		name = path.Base(path.Dir(importPath))
	}
	return name
}

func (s *search) seeGo(name string, text []byte) error {
	f, err := parser.ParseFile(s.files, name, text, parser.ParseComments)
	if err != nil {
		return err
	}
	line := func(n ast.Node) int { return s.files.Position(n.Pos()).Line }
	imports := make(map[string]string)
	for _, i := range f.Imports {
		at, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			return err
		}
		s.see(line(i), "import", at)
		as := packageName(at)
		if i.Name != nil {
			as = i.Name.Name
		}
		if as == "." {
			return fmt.Errorf("%s:%d: an import with a dot hides whose names are used", name, line(i))
		}
		imports[as] = at
	}
	for _, group := range f.Comments {
		for _, c := range group.List {
			s.see(line(c), "comment", c.Text)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GenDecl:
			if n.Tok == token.IMPORT && n.Doc != nil && len(n.Specs) == 1 && n.Specs[0].(*ast.ImportSpec).Path.Value == `"C"` {
				for _, c := range n.Doc.List {
					s.seeC(strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(c.Text, "//"), "/*"), "*/"), line(c))
				}
			}
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Obj == nil && imports[x.Name] != "" {
				if imports[x.Name] == "C" {
					s.see(line(n), "C", n.Sel.Name)
				}
				s.see(line(n), "name", imports[x.Name]+"."+n.Sel.Name)
			}
		case *ast.CallExpr:
			s.seeCall(n, imports)
			s.seeShell(n.Args)
		case *ast.CompositeLit:
			s.seeShell(n.Elts)
		}
		return true
	})
	return nil
}

func (s *search) seeCall(c *ast.CallExpr, imports map[string]string) {
	is := func(e ast.Expr, at, name string) bool {
		sel, ok := e.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		x, ok := sel.X.(*ast.Ident)
		return ok && imports[x.Name] == at && sel.Sel.Name == name
	}
	line := s.files.Position(c.Pos()).Line
	switch f := c.Fun.(type) {
	case *ast.SelectorExpr:
		s.see(s.files.Position(f.Sel.Pos()).Line, "method", f.Sel.Name)
	case *ast.Ident:
		s.see(line, "method", f.Name)
	}
	if is(c.Fun, "io", "ReadAll") {
		if from, ok := c.Args[0].(*ast.CallExpr); !ok || !is(from.Fun, "io", "LimitReader") {
			s.see(line, "endless", "")
		}
	}
}

// seeShell looks for -c, or options that end so, among words beside a word that
// is not written out, which is the command, or beside the name of a shell.
func (s *search) seeShell(words []ast.Expr) {
	for i, w := range words {
		if text, ok := w.(*ast.BasicLit); !ok || text.Kind != token.STRING || !regexp.MustCompile("^[\"`]-[a-z]*c[\"`]$").MatchString(text.Value) {
			continue
		}
		shell := false
		for _, before := range words[:i] {
			if text, ok := before.(*ast.BasicLit); !ok || regexp.MustCompile(`(^|["/])(ba|da|z|k)?sh"$`).MatchString(text.Value) {
				shell = true
			}
		}
		if shell && i+1 < len(words) {
			s.see(s.files.Position(w.Pos()).Line, "shell", "")
		}
	}
}

// look searches the file name, whose suffix says whether it is Go or C.
func look(bans []ban, name string, text []byte) ([]find, error) {
	s := search{bans: bans, files: token.NewFileSet()}
	if path.Ext(name) == ".go" {
		err := s.seeGo(name, text)
		return s.finds, err
	}
	s.seeC(string(text), 1)
	return s.finds, nil
}

func TestNothingBannedIsUsed(t *testing.T) {
	list := readBans(t)
	used := make(map[string]bool) // what is banned and a place that may do it
	looked := 0
	err := filepath.WalkDir("..", func(file string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := e.Name()
		if e.IsDir() {
			if name == "testdata" || name == "testkit" || name == "bin" || len(name) > 2 && name[0] == '.' {
				return filepath.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(name, "_test.go") || !slices.Contains([]string{".go", ".c", ".h"}, path.Ext(name)) {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		file = filepath.ToSlash(strings.TrimPrefix(file, "../"))
		finds, err := look(list, file, text)
		if err != nil {
			return err
		}
		looked++
		for _, f := range finds {
			if at := f.ban.allows(file); at != "" {
				used[f.ban.what+" | "+at] = true
			} else {
				t.Errorf("%s:%d: %s is banned: %s", file, f.line, f.ban.what, f.ban.why)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if looked < 400 {
		t.Errorf("only %d files were looked at", looked)
	}
	for _, b := range list {
		for _, at := range b.allowed {
			if !used[b.what+" | "+at] {
				t.Errorf("%s needs %s no longer; take it from the row", at, b.what)
			}
		}
	}
}

// TestBannedCallsAreFound searches files with banned calls. Each such line ends with a comment "want:" and
// the rows that must forbid it. No other line may be found.
func TestBannedCallsAreFound(t *testing.T) {
	list := readBans(t)
	bitten := make(map[string]bool)
	fixtures, err := filepath.Glob("testdata/banned/*.txt")
	if err != nil || len(fixtures) == 0 {
		t.Fatal(fixtures, err)
	}
	for _, fixture := range fixtures {
		t.Run(filepath.Base(fixture), func(t *testing.T) {
			text, err := os.ReadFile(fixture)
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for i, line := range bytes.Split(text, []byte("\n")) {
				_, rows, ok := strings.Cut(string(line), "want: ")
				if !ok {
					continue
				}
				for row := range strings.SplitSeq(strings.TrimSuffix(rows, " */"), "; ") {
					want = append(want, fmt.Sprintf("%d: %s", i+1, row))
				}
			}
			finds, err := look(list, strings.TrimSuffix(fixture, ".txt"), text)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range finds {
				got = append(got, fmt.Sprintf("%d: %s", f.line, f.ban.what))
				bitten[f.ban.what] = true
			}
			slices.Sort(want)
			slices.Sort(got)
			for _, w := range want {
				if !slices.Contains(got, w) {
					t.Errorf("not found: %s", w)
				}
			}
			for _, g := range got {
				if !slices.Contains(want, g) {
					t.Errorf("found without reason: %s", g)
				}
			}
		})
	}
	for _, b := range list {
		if !bitten[b.what] {
			t.Errorf("no file in testdata/banned shows that %q is found", b.what)
		}
	}
}
