//go:build ignore

// count prints the size of each package: lines and tokens of its code and of
// its tests, as go/scanner reads them, without comments and blank lines.
//
//	go run .ci/count.go [DIR]
//
// Then it lists the functions, except those of tests, that are over 80 lines long or
// have a cyclomatic complexity over 25.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"log"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// size holds the number of lines and tokens: of code at index 0, of tests at index 1.
type size struct{ lines, tokens [2]int }

func (s *size) add(o size) {
	for i := range s.lines {
		s.lines[i] += o.lines[i]
		s.tokens[i] += o.tokens[i]
	}
}

func main() {
	log.SetFlags(0)
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	packages := map[string]size{}
	var long []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		kind := 0
		if strings.HasSuffix(path, "_test.go") {
			kind = 1
		}
		var s size
		s.lines[kind], s.tokens[kind] = count(src)
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		sum := packages[dir]
		sum.add(s)
		packages[dir] = sum
		if kind == 0 {
			long = append(long, large(path, src)...)
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	var sum size
	fmt.Printf("%-36s %8s %9s %8s %9s\n", "package", "code", "tokens", "tests", "tokens")
	row := func(name string, s size) {
		fmt.Printf("%-36s %8d %9d %8d %9d\n", name, s.lines[0], s.tokens[0], s.lines[1], s.tokens[1])
	}
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		row(dir, packages[dir])
		sum.add(packages[dir])
	}
	row("all", sum)
	for _, f := range long {
		fmt.Println(f)
	}
}

// count returns the number of lines that have a token, and the number of tokens.
func count(src []byte) (lines, tokens int) {
	fset := token.NewFileSet()
	file := fset.AddFile("", -1, len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, 0)
	seen := map[int]bool{}
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			return len(seen), tokens
		}
		if tok == token.SEMICOLON && text == "\n" {
			continue // inserted by the scanner at the end of a line
		}
		tokens++
		first := file.Line(pos)
		for i := range strings.Count(text, "\n") + 1 {
			seen[first+i] = true
		}
	}
}

// large lists the functions of a file that are too long or too complex.
func large(path string, src []byte) (all []string) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, src, 0)
	if err != nil {
		log.Fatal(err)
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		lines := fset.Position(f.End()).Line - fset.Position(f.Pos()).Line + 1
		paths := 1
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
				paths++
			case *ast.CaseClause:
				if n.List != nil {
					paths++
				}
			case *ast.CommClause:
				if n.Comm != nil {
					paths++
				}
			case *ast.BinaryExpr:
				if n.Op == token.LAND || n.Op == token.LOR {
					paths++
				}
			}
			return true
		})
		if lines > 80 || paths > 25 {
			all = append(all, fmt.Sprintf("%s: %s: %d lines, complexity %d", path, f.Name.Name, lines, paths))
		}
	}
	return all
}
