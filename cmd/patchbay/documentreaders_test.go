package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"unicode/utf16"

	"golang.org/x/sys/unix"

	"patchbay/am/site"
	"patchbay/am/urn"
	"patchbay/am/xmlrpc"
	"patchbay/credentials"
	"patchbay/credentials/testdata/pki"
	"patchbay/inventory"
	"patchbay/inventory/local"
	"patchbay/inventory/provider"
	"patchbay/rspec"
	"patchbay/rspec/draw"
	"patchbay/schemas"
	"patchbay/schemas/xmltree"
)

// fetchDetector counts connections to an address and opens of a file that only documents
// name.
type fetchDetector struct {
	url, file   string
	connections atomic.Int64
	listener    net.Listener
	watch       int
}

func newFetchDetector(t *testing.T) *fetchDetector {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &fetchDetector{url: "http://" + l.Addr().String(), file: filepath.Join(t.TempDir(), "trap"), listener: l}
	if err := os.WriteFile(p.file, []byte("<!ELEMENT r ANY>"), 0o644); err != nil {
		t.Fatal(err)
	}
	if p.watch, err = unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.InotifyAddWatch(p.watch, p.file, unix.IN_OPEN); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.connections.Add(1)
			io.WriteString(c, "HTTP/1.0 404 Not Found\r\n\r\n")
			c.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
		unix.Close(p.watch)
	})
	return p
}

// accesses returns the connections and opens since the last call. Its own connection is
// last in the listener's queue.
func (p *fetchDetector) accesses(t *testing.T) (connections, files int) {
	t.Helper()
	c, err := net.Dial("tcp", p.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(io.Discard, c) // until it was accepted and counted
	c.Close()
	if err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 64<<10)
	switch n, err := unix.Read(p.watch, buffer); {
	case err == nil:
		files = n / unix.SizeofInotifyEvent // the watch is on the file, so no name follows
	case !errors.Is(err, unix.EAGAIN):
		t.Fatal(err)
	}
	return int(p.connections.Swap(0)) - 1, files
}

// documentReader is a part of the program that reads documents.
type documentReader struct {
	name string
	// good is a document that it accepts.
	good string
	open func(text []byte) error
	// client says that it reads answers of the client's own server, or its own files; it
	// ignores document types.
	client bool
	// tool says that it is an operator's tool, which reads the largest advertisements.
	tool bool
}

func documentReaders(t *testing.T) []documentReader {
	t.Helper()
	root := pki.Authority(t, nil, "urn:publicid:IDN+example.net+authority+sa", "rsa1")
	user := pki.User(t, root, "urn:publicid:IDN+example.net+user+alice", "rsa2")
	slice := pki.User(t, root, "urn:publicid:IDN+example.net+slice+first", "rsa3")
	authorizer := credentials.New(pki.Anchors(root), credentials.Config{})
	caller := authorizer.Identify(pki.Raw(user), pki.Now)
	credential := pki.Credential{
		Owner: []*pki.Entity{user}, Target: []*pki.Entity{slice}, Signer: []*pki.Entity{root}, Privileges: []string{"*"},
	}.Signed(t)
	request := `<rspec type="request" xmlns="` + rspec.Namespace + `"><node client_id="a"><sliver_type name="vm"/></node></rspec>`
	manager := rspec.ReadOptions{Managers: []urn.URN{urn.MustParse("urn:publicid:IDN+example.org+authority+cm")}, CheckSchemas: true}
	if _, err := programs(); err != nil { // from the folder of the source
		t.Fatal(err)
	}
	t.Chdir(t.TempDir()) // a folder without a site, which check would use
	check := func(name string) func(text []byte) error {
		file := filepath.Join(t.TempDir(), name)
		return func(text []byte) error {
			if err := os.WriteFile(file, text, 0o644); err != nil {
				t.Fatal(err)
			}
			if code, out := runCommand(t, "check", file); code != 0 {
				return errors.New(out)
			}
			return nil
		}
	}
	return []documentReader{
		{"call", `<methodCall><methodName>GetVersion</methodName><params><param><value>x</value></param></params></methodCall>`, func(text []byte) error {
			_, err := xmlrpc.DecodeCall(text, xmlrpc.Limits{})
			return err
		}, false, false},
		{"answer", `<methodResponse><params><param><value>x</value></param></params></methodResponse>`, func(text []byte) error {
			_, err := xmlrpc.DecodeResponse(text, xmlrpc.Limits{})
			return err
		}, false, false},
		{"request", request, func(text []byte) error {
			_, err := rspec.ParseRequest(text, manager)
			return err
		}, false, false},
		{"credential", credential, func(text []byte) error {
			_, err := authorizer.Authorize(caller, []credentials.Presented{{Type: "geni_sfa", Version: "3", Text: string(text)}}, "", credentials.RightAllocate, pki.Now)
			return err
		}, false, false},
		{"schema", request, func(text []byte) error {
			_, err := xmltree.Validate(text, schemas.Request, xmltree.Limits{})
			return err
		}, false, false},
		{"drawing", request, func(text []byte) error {
			p, err := draw.Read(text, drawLimits)
			if err != nil {
				return err
			}
			return errors.Join(draw.SVG(io.Discard, p), draw.Text(io.Discard, p, draw.TextOptions{}))
		}, false, false},
		{"check of a request", request, check("request.xml"), false, true},
		{"look into a credential", credential, func(text []byte) error { _, err := readCredential(text); return err }, true, false},
		{"names in a manifest", request, func(text []byte) error { _, err := nodesOf(string(text), ""); return err }, false, false},
	}
}

var (
	declaration = regexp.MustCompile(`^<\?xml[^>]*\?>\s*`)
	firstTag    = regexp.MustCompile(`^<([a-zA-Z-]+)([^>]*)>`)
)

// insertion is a text to insert into a good document; %h is the detector's URL, %f its
// file.
type insertion struct{ rule, before, attributes, inside string }

func (a insertion) insertInto(good string, p *fetchDetector) string {
	names := strings.NewReplacer("%h", p.url, "%f", p.file)
	m := firstTag.FindStringSubmatchIndex(declaration.ReplaceAllString(good, ""))
	good = declaration.ReplaceAllString(good, "")
	return names.Replace(a.before) + good[:m[3]] + names.Replace(a.attributes) + good[m[3]:m[1]] + names.Replace(a.inside) + good[m[1]:]
}

var documentTypes = []insertion{
	{"a document type", `<!DOCTYPE r>`, "", ""},
	{"a document type after a declaration", `<?xml version="1.0"?><!DOCTYPE r>`, "", ""},
	{"a document type after a comment", `<!-- c --><!DOCTYPE r [ ]>`, "", ""},
	{"an external document type", `<!DOCTYPE r SYSTEM "%h/r.dtd">`, "", ""},
	{"a document type in a file", `<!DOCTYPE r SYSTEM "file://%f">`, "", ""},
	{"a document type by a path", `<!DOCTYPE r SYSTEM "%f">`, "", ""},
	{"a public document type", `<!DOCTYPE r PUBLIC "-//X//Y//EN" "%h/r.dtd">`, "", ""},
	{"an external entity", `<!DOCTYPE r [<!ENTITY x SYSTEM "%h/x">]>`, "", "&x;"},
	{"an entity that is a file", `<!DOCTYPE r [<!ENTITY x SYSTEM "file://%f">]>`, "", "&x;"},
	{"an external entity that nobody uses", `<!DOCTYPE r [<!ENTITY x SYSTEM "%h/x">]>`, "", ""},
	{"a parameter entity", `<!DOCTYPE r [<!ENTITY % p SYSTEM "%h/p"> %p;]>`, "", ""},
	{"a parameter entity that is a file", `<!DOCTYPE r [<!ENTITY % p SYSTEM "file://%f"> %p;]>`, "", ""},
	{"a parameter entity that tells a file", `<!DOCTYPE r [<!ENTITY % a SYSTEM "file://%f"><!ENTITY % b "<!ENTITY c SYSTEM '%h/%a;'>"> %b;]>`, "", "&c;"},
	{"an entity of our own", `<!DOCTYPE r [<!ENTITY x "y">]>`, "", "&x;"},
	{"an entity in an attribute", `<!DOCTYPE r [<!ENTITY x "y">]>`, ` z="&x;"`, ""},
	{"attributes by default", `<!DOCTYPE r [<!ATTLIST methodCall a CDATA "b">]>`, "", ""},
	{"a notation", `<!DOCTYPE r [<!NOTATION n SYSTEM "%h/n"><!ENTITY u SYSTEM "%h/u" NDATA n>]>`, "", ""},
	{"entities that multiply", nestedEntities(10), "", "&l9;"},
	{"a large entity often", `<!DOCTYPE r [<!ENTITY x "` + strings.Repeat("x", 50_000) + `">]>`, "", strings.Repeat("&x;", 50_000)},
	{"an entity that holds itself", `<!DOCTYPE r [<!ENTITY a "&b;"><!ENTITY b "&a;">]>`, "", "&a;"},
	{"an entity that was not declared", "", "", "&x;"},
	{"a declaration outside of a document type", "", "", `<!ENTITY x SYSTEM "%h/x">`},
	{"a document type inside of the document", "", "", `<!DOCTYPE r SYSTEM "%h/r.dtd">`},
}

// nestedEntities returns a document type with entities that each refer to the one before.
func nestedEntities(times int) string {
	text := `<!DOCTYPE r [<!ENTITY l0 "ha">`
	for i := 1; i < 10; i++ {
		text += fmt.Sprintf(`<!ENTITY l%d "%s">`, i, strings.Repeat(fmt.Sprintf("&l%d;", i-1), times))
	}
	return text + "]>"
}

// externalReferences name external documents. Some readers accept them, but none may
// fetch them.
var externalReferences = []insertion{
	{"inclusion of a file", "", "", `<i:include xmlns:i="http://www.w3.org/2001/XInclude" href="file://%f" parse="text"/>`},
	{"inclusion of a page", "", "", `<i:include xmlns:i="http://www.w3.org/2001/XInclude" href="%h/i"><i:fallback/></i:include>`},
	{"whereabouts of schemas", "", ` xmlns:s="http://www.w3.org/2001/XMLSchema-instance" s:schemaLocation="` + rspec.Namespace + ` %h/s.xsd urn:x file://%f"`, ""},
	{"whereabouts of a schema without a namespace", "", ` xmlns:s="http://www.w3.org/2001/XMLSchema-instance" s:noNamespaceSchemaLocation="%h/s.xsd"`, ""},
	{"a style sheet", `<?xml-stylesheet type="text/xsl" href="%h/s.xsl"?><?xml-stylesheet type="text/css" href="file://%f"?>`, "", ""},
	{"a model", `<?xml-model href="%h/m.rng"?>`, "", ""},
	{"a catalogue", `<?oasis-xml-catalog catalog="file://%f"?>`, "", ""},
	{"a base", "", ` xml:base="%h/b/"`, ""},
	{"a link", "", ` xmlns:x="http://www.w3.org/1999/xlink" x:type="simple" x:href="%h/x" x:actuate="onLoad"`, ""},
	{"a namespace that is a page", "", ` xmlns:x="%h/ns"`, ""},
}

func toUTF16(order binary.AppendByteOrder, mark bool) func(string) []byte {
	return func(text string) (out []byte) {
		if mark {
			text = "\ufeff" + text
		}
		for _, u := range utf16.Encode([]rune(text)) {
			out = order.AppendUint16(out, u)
		}
		return out
	}
}

func declareEncoding(name, inside string) func(string) []byte {
	return func(text string) []byte {
		return []byte(`<?xml version="1.0" encoding="` + name + `"?>` + insertion{inside: inside}.insertInto(text, &fetchDetector{}))
	}
}

// encodings are other ways to write a good document.
var encodings = map[string]func(text string) []byte{
	"UTF-16 with a mark, little end first": toUTF16(binary.LittleEndian, true),
	"UTF-16 with a mark, big end first":    toUTF16(binary.BigEndian, true),
	"UTF-16 without a mark":                toUTF16(binary.BigEndian, false),
	"UTF-16 that is declared":              declareEncoding("UTF-16", ""),
	"Latin 1":                              declareEncoding("ISO-8859-1", "<!-- \xe9 -->"),
	"Latin 1 that is only declared":        declareEncoding("ISO-8859-1", ""),
	"UTF-7":                                declareEncoding("UTF-7", "<!-- +ADw- -->"),
	"EBCDIC":                               declareEncoding("EBCDIC-CP-US", ""),
	"an encoding that is a file":           declareEncoding("/etc/passwd", ""),
	"a byte that is no UTF-8":              declareEncoding("UTF-8", "<!-- \xff -->"),
	"overlong UTF-8":                       declareEncoding("UTF-8", "<!-- \xc0\xbc -->"),
	"half of a pair":                       declareEncoding("UTF-8", "<!-- \xed\xa0\x80 -->"),
	"NUL":                                  declareEncoding("UTF-8", "\x00"),
}

// largeDocuments exceed the limits of every reader.
var largeDocuments = []insertion{
	{"depth", "", "", strings.Repeat("<a>", 500_000) + strings.Repeat("</a>", 500_000)},
	{"depth without ends", "", "", strings.Repeat("<a>", 1_000_000)},
	{"attributes of one element", "", attributesText(20_000), ""},
	{"namespaces of one element", "", strings.ReplaceAll(attributesText(20_000), " a", " xmlns:a"), ""},
	{"namespaces around an element", "", "", nestNamespaces(2000)},
	{"elements", "", "", strings.Repeat("<a/>", 2_100_000)},
	{"elements with attributes", "", "", strings.Repeat("<a b=''/>", 2_100_000)},
}

func nestNamespaces(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `<a xmlns:p%d="u:u">`, i)
	}
	return b.String() + strings.Repeat("</a>", n)
}

func attributesText(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, ` a%d="u:u"`, i)
	}
	return b.String()
}

// TestHostileDocumentsAtAllReaders proves that every reader refuses hostile documents and
// fetches nothing that they name.
func TestHostileDocumentsAtAllReaders(t *testing.T) {
	p := newFetchDetector(t)
	tried := 0
	refuse := func(t *testing.T, d documentReader, rule string, text []byte) {
		t.Helper()
		tried++
		err := d.open(text)
		switch {
		case err == nil && !d.client:
			t.Errorf("%s is let in", rule)
		case err != nil && len(err.Error()) > 4096:
			t.Errorf("%s: the refusal has %d bytes", rule, len(err.Error()))
		}
	}
	for _, d := range documentReaders(t) {
		t.Run(d.name, func(t *testing.T) {
			if err := d.open([]byte(d.good)); err != nil {
				t.Fatalf("the good document is refused: %v", err)
			}
			if text := (insertion{before: `<?xml version="1.0" encoding="utf-8"?><!-- é -->`}).insertInto(d.good, p); d.open([]byte(text)) != nil {
				t.Errorf("UTF-8 is refused: %v", d.open([]byte(text)))
			}
			for _, a := range documentTypes {
				refuse(t, d, a.rule, []byte(a.insertInto(d.good, p)))
			}
			for rule, write := range encodings {
				if strings.HasPrefix(rule, "Latin 1") && (d.name == "call" || d.name == "answer") {
					continue // accepted: XML-RPC in ISO-8859-1
				}
				refuse(t, d, rule, write(declaration.ReplaceAllString(d.good, "")))
			}
			for _, a := range externalReferences {
				tried++
				_ = d.open([]byte(a.insertInto(d.good, p)))
			}
			if !d.client {
				for _, a := range largeDocuments {
					if d.tool && strings.HasPrefix(a.rule, "elements") {
						continue
					}
					refuse(t, d, a.rule, []byte(a.insertInto(d.good, p)))
				}
			}
			if d.name == "credential" {
				for _, at := range []string{"%h/c", "file://%f", "%f", "#xpointer(/)", ""} {
					to := strings.NewReplacer("%h", p.url, "%f", p.file).Replace(at)
					refuse(t, d, "a reference to "+at, []byte(strings.Replace(d.good, `URI="#ref0"`, `URI="`+to+`"`, 1)))
				}
			}
			if connections, files := p.accesses(t); connections != 0 || files != 0 {
				t.Errorf("%d connections were made and the file was opened %d times", connections, files)
			}
		})
	}
	t.Logf("%d documents", tried)
}

// TestFetchDetectorDetects proves that the detector sees a connection, an open, and a
// reader that fetches.
func TestFetchDetectorDetects(t *testing.T) {
	p := newFetchDetector(t)
	if connections, files := p.accesses(t); connections != 0 || files != 0 {
		t.Errorf("untouched: %d connections, %d files", connections, files)
	}
	c, err := net.Dial("tcp", p.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if _, err := os.ReadFile(p.file); err != nil {
		t.Fatal(err)
	}
	if connections, files := p.accesses(t); connections != 1 || files != 1 {
		t.Errorf("touched: %d connections, %d files", connections, files)
	}
	lint, err := exec.LookPath("xmllint")
	if err != nil {
		return
	}
	for _, a := range documentTypes {
		if a.rule != "an entity that is a file" {
			continue
		}
		cmd := exec.Command(lint, "--noent", "-")
		cmd.Stdin = strings.NewReader(a.insertInto("<r></r>", p))
		cmd.Run()
		if _, files := p.accesses(t); files == 0 {
			t.Error("a reader that replaces entities did not open the file")
		}
	}
}

// TestSettingsThatMultiply proves that readers of YAML refuse nested aliases.
func TestSettingsThatMultiply(t *testing.T) {
	bomb := "l0: &l0 [ha, ha, ha, ha, ha, ha, ha, ha, ha, ha]\n"
	for i := 1; i < 12; i++ {
		bomb += fmt.Sprintf("l%d: &l%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*l%d, ", i-1), 10), ", "))
	}
	circle := "a: &a\n  b: *a\n"
	deep := strings.Repeat("[", 200_000)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	readers := map[string]func(text string) error{
		"configuration": func(text string) error { _, err := site.ParseConfig("patchbay.yaml", []byte(text)); return err },
		"inventory": func(text string) error {
			_, err := inventory.Parse([]byte(text), "inventory.yaml", "example.org")
			return err
		},
		"components": func(text string) error {
			_, err := inventory.Parse([]byte("components:\n"+indent(text)), "inventory.yaml", "example.org")
			return err
		},
		"settings of local nodes": func(text string) error { _, err := local.ReadSettings(file("local.yaml", text)); return err },
		"metadata of a provider": func(text string) error {
			program := file("rack.prov", "#!/bin/sh\nexit 1\n")
			file("rack.yaml", "provider:\n"+indent(text))
			_, err := provider.Open(program, nil)
			return err
		},
		"check": func(text string) error {
			if code, out := runCommand(t, "check", file("some.yaml", text)); code != 0 {
				return errors.New(out)
			}
			return nil
		},
	}
	for name, read := range readers {
		for rule, text := range map[string]string{"aliases of aliases": bomb, "an alias of what is around it": circle, "depth": deep} {
			t.Run(name+"/"+rule, func(t *testing.T) {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				err := read(text)
				runtime.ReadMemStats(&after)
				if err == nil {
					t.Error("was read")
				} else if len(err.Error()) > 64<<10 {
					t.Errorf("the refusal has %d bytes", len(err.Error()))
				}
				if used := after.TotalAlloc - before.TotalAlloc; used > 256<<20 {
					t.Errorf("%d MiB were allocated for %d bytes", used>>20, len(text))
				}
			})
		}
	}
}

func indent(text string) string { return "  " + strings.ReplaceAll(text, "\n", "\n  ") }
