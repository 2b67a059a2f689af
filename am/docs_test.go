package am_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// maxLines are the documents that must stay short, and their limits.
var maxLines = map[string]int{"ARCHITECTURE.md": 250, "README.md": 150}

// The documents that name Go identifiers.
var namingDocuments = []string{"ARCHITECTURE.md", "cmd/patchbay/guide/divergences.md"}

const decisionsHeading = "# Decisions"

// source is what the documentation tests know of the tree, by package path
// relative to the module: the declared names, and the comment of doc.go.
type source struct {
	names map[string]map[string]bool
	docs  map[string]*packageDoc
}

type packageDoc struct {
	file, text string
	line       int
	main       bool
}

// TestDocuments checks that every Go name in ARCHITECTURE.md, in
// guide/divergences.md and in the decisions of packages exists, that each package
// has a doc.go with a first sentence, and that documents stay short. If you
// rename a function, change the row that names it.
func TestDocuments(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	src := readSource(t, root)
	for _, name := range namingDocuments {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, p := range src.checkMarkdown(root, string(text)) {
			t.Errorf("%s:%s", name, p)
		}
	}
	for name, most := range maxLines {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Error(err)
		} else if n := strings.Count(string(text), "\n"); n > most {
			t.Errorf("%s has %d lines; at most %d", name, n, most)
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(src.names)) {
		for _, p := range src.checkDoc(pkg) {
			t.Error(p)
		}
	}
}

// TestDocumentsFindsMistakes shows each kind of mistake to TestDocuments.
func TestDocumentsFindsMistakes(t *testing.T) {
	src := source{
		names: map[string]map[string]bool{"am/store": {"Store": true, "Store.Commit": true, "commit": true}, "am": {}},
		docs:  map[string]*packageDoc{},
	}
	const head = "| Text | What | Where |\n|---|---|---|\n"
	for text, want := range map[string]string{
		head + "| a | b | `am/store.(*Store).Commit`, `am/store.commit` |\n": "",
		head + "| a | b | `am/store.Comit` |\n":                              "3: am/store has no Comit",
		head + "| a | b | `am/storage.Commit` |\n":                           "3: no package am/storage",
		head + "| a | b | commit |\n":                                        "3: the column Where names nothing",
		head + "| a | b | `commit` |\n":                                      "3: commit is no PACKAGE.NAME and no file",
		"see `am/store.Commit`\n":                                            "1: am/store has no Commit",
		"see `am/no_test.go`, not `patchbay.yaml` or `am_code`\n":            "1: no file am/no_test.go",
	} {
		if got := strings.Join(src.checkMarkdown(t.TempDir(), text), "\n"); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"Package store keeps records.\n": "",
		"Package store keeps records":    "d:7: the package's comment does not begin with a sentence about store",
		"It keeps records.\n":            "d:7: the package's comment does not begin with a sentence about store",
		"Package store is.\n\n# Decisions\n\n  - a: b,\n    for c: [Store.Commit].\n  - d: e: [commit], [patchbay/am/store.Store]\n": "",
		"Package store is.\n\n# Decisions\n\n  - a: b: [Comit]\n":                                                                    "d:11: am/store has no Comit",
		"Package store is.\n\n# Decisions\n\n  - a: b\n":                                                                             `d:11: a decision ends with [Name], not "b"`,
		"Package store is.\n\n# Decisions\n\nSome text.\n":                                                                           "d:11: a decision is one item of a list",
	} {
		src.docs["am/store"] = &packageDoc{"d", text, 7, false}
		if got := strings.Join(src.checkDoc("am/store"), "\n"); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	if got := strings.Join(src.checkDoc("am"), "\n"); got != "am: no package comment" {
		t.Errorf("without doc.go: %q", got)
	}
}

var (
	quoted    = regexp.MustCompile("`[^`]+`")
	goName    = regexp.MustCompile(`^([a-z][\w/-]*)\.([\w.()*]+)$`)
	fileName  = regexp.MustCompile(`^[\w./-]*\.(go|md|sh|py|xsd|yaml|json|txt|txtar)$`)
	topFolder = regexp.MustCompile(`^(am|cmd|credentials|inventory|rspec|schemas)[/.]`)
	linked    = regexp.MustCompile(`\[([^]\s]+)\]`)
	ending    = regexp.MustCompile(`(?:\[[^]\s]+\](?:, | and )?)+\.?$`)
)

// checkMarkdown returns what is wrong with the names in a document, each after
// its line.
func (s *source) checkMarkdown(root, text string) (problems []string) {
	where := false // whether the last column of the table holds names
	for i, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, "|") {
			where = false
		}
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		last := cells[len(cells)-1]
		switch {
		case strings.HasPrefix(line, "|") && last == "Where":
			where = true
			continue
		case strings.HasPrefix(line, "|--"):
			continue
		}
		if where && !quoted.MatchString(last) {
			problems = append(problems, fmt.Sprintf("%d: the column Where names nothing", i+1))
		}
		for _, q := range quoted.FindAllString(line, -1) {
			name := strings.Trim(q, "`")
			if p := s.checkName(root, name, where && strings.Contains(last, q)); p != "" {
				problems = append(problems, fmt.Sprintf("%d: %s", i+1, p))
			}
		}
	}
	return problems
}

// checkName returns what is wrong with a name in backquotes. Unless it must be one, what
// does not look like a file or a name of a package here is left alone.
func (s *source) checkName(root, name string, must bool) string {
	if !must && !topFolder.MatchString(name) {
		return ""
	}
	if fileName.MatchString(name) {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil && (must || strings.Contains(name, "/")) {
			return "no file " + name
		}
		return ""
	}
	m := goName.FindStringSubmatch(name)
	switch {
	case m != nil:
		return s.find(m[1], m[2])
	case s.names[name] != nil:
		return ""
	case must:
		return name + " is no PACKAGE.NAME and no file"
	case strings.Contains(name, "/") && !strings.ContainsAny(name, " *…"):
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			return "no package or file " + name
		}
	}
	return ""
}

// find returns why a package does not have a name, in the form F, T.M or (*T).M.
func (s *source) find(pkg, name string) string {
	names, ok := s.names[pkg]
	if !ok {
		return "no package " + pkg
	}
	if name = strings.NewReplacer("(", "", ")", "", "*", "").Replace(name); !names[name] {
		return pkg + " has no " + name
	}
	return ""
}

// checkDoc returns what is wrong with a package's doc.go.
func (s *source) checkDoc(pkg string) (problems []string) {
	d := s.docs[pkg]
	if d == nil {
		return []string{pkg + ": no package comment"}
	}
	base := path.Base(pkg)
	first, _, _ := strings.Cut(d.text, "\n\n")
	begins := regexp.MustCompile(`(?s)^Package ` + base + ` .*[.:](\s|$)`)
	if d.main {
		begins = regexp.MustCompile(`(?s)^(Command )?(?i:` + base + `) .*[.:](\s|$)`)
	}
	if !begins.MatchString(first + "\n") {
		problems = append(problems, fmt.Sprintf("%s:%d: the package's comment does not begin with a sentence about %s", d.file, d.line, base))
	}
	in, item, at := false, "", 0
	check := func() {
		if item == "" {
			return
		}
		end := ending.FindString(item)
		if end == "" {
			problems = append(problems, fmt.Sprintf("%s:%d: a decision ends with [Name], not %q", d.file, at, item[strings.LastIndexByte(item, ' ')+1:]))
		}
		for _, m := range linked.FindAllStringSubmatch(end, -1) {
			name, in := m[1], pkg
			if other, ok := strings.CutPrefix(name, module); ok {
				in, name, _ = strings.Cut(other, ".")
			}
			if p := s.find(in, name); p != "" {
				problems = append(problems, fmt.Sprintf("%s:%d: %s", d.file, at, p))
			}
		}
		item = ""
	}
	for i, line := range strings.Split(d.text, "\n") {
		switch {
		case line == decisionsHeading:
			in = true
		case !in || line == "":
		case strings.HasPrefix(line, "#"):
			in = false
		case strings.HasPrefix(line, "  - "):
			check()
			item, at = line, d.line+i
		case item != "" && strings.HasPrefix(line, "    "):
			item += " " + strings.TrimSpace(line)
		default:
			problems = append(problems, fmt.Sprintf("%s:%d: a decision is one item of a list", d.file, d.line+i))
		}
	}
	check()
	return problems
}

// readSource parses every Go file of the module but those under testdata, which
// are no part of it.
func readSource(t *testing.T, root string) *source {
	t.Helper()
	s := &source{names: make(map[string]map[string]bool), docs: make(map[string]*packageDoc)}
	files := token.NewFileSet()
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && p != root && (strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"testdata", "bin", "dist"}, d.Name())):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(p, ".go"):
			return nil
		}
		file, err := parser.ParseFile(files, p, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		pkg := filepath.ToSlash(filepath.Dir(rel))
		if s.names[pkg] == nil {
			s.names[pkg] = make(map[string]bool)
		}
		for _, d := range file.Decls {
			declare(s.names[pkg], d)
		}
		// A package of one file may have its comment there.
		if test := strings.HasSuffix(p, "_test.go"); file.Doc != nil && !test && (d.Name() == "doc.go" || s.docs[pkg] == nil) {
			s.docs[pkg] = &packageDoc{rel, file.Doc.Text(), files.Position(file.Doc.Pos()).Line, file.Name.Name == "main"}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// declare adds what a declaration names: F, T, T.M, and T.F for fields and for
// methods of interfaces.
func declare(names map[string]bool, d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			names[d.Name.Name] = true
		} else {
			names[receiver(d.Recv.List[0].Type)+"."+d.Name.Name] = true
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.ValueSpec:
				for _, n := range spec.Names {
					names[n.Name] = true
				}
			case *ast.TypeSpec:
				names[spec.Name.Name] = true
				var fields *ast.FieldList
				switch t := spec.Type.(type) {
				case *ast.StructType:
					fields = t.Fields
				case *ast.InterfaceType:
					fields = t.Methods
				default:
					continue
				}
				for _, f := range fields.List {
					for _, n := range f.Names {
						names[spec.Name.Name+"."+n.Name] = true
					}
				}
			}
		}
	}
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
