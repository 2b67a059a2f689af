package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestDraw(t *testing.T) {
	dir := t.TempDir()
	request := filepath.Join(dir, "request.xml")
	text := `<rspec xmlns="http://www.geni.net/resources/rspec/3" type="request">
<node client_id="a"><interface client_id="a:0"><ip address="10.0.0.1"/></interface></node>
<node client_id="b"><interface client_id="b:0"/></node>
<link client_id="wire"><interface_ref client_id="a:0"/><interface_ref client_id="b:0"/></link></rspec>`
	if err := os.WriteFile(request, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "other.xml")
	if err := os.WriteFile(other, []byte("<credential/>"), 0o644); err != nil {
		t.Fatal(err)
	}
	picture := filepath.Join(dir, "request.svg")
	for _, c := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"Text", []string{request}, 0, "a:0 10.0.0.1 ──── b:0  wire"},
		{"PlainText", []string{request, "--ascii"}, 0, "a:0 10.0.0.1 ---- b:0  wire"},
		{"SVGToStandardOutput", []string{request, "--svg", "-"}, 0, "<svg xmlns="},
		{"SVGToAFile", []string{request, "--svg", picture}, 0, ""},
		{"NoFolderForIt", []string{request, "--svg", filepath.Join(dir, "no", "where.svg")}, 1, "no such file or directory"},
		{"NoFile", nil, 2, "it takes one argument, the FILE to draw"},
		{"NoSuchFile", []string{filepath.Join(dir, "none.xml")}, 1, "none.xml: no such file or directory"},
		{"NoRSpec", []string{other}, 1, "other.xml: line 1: the document is a <credential>, not an RSpec"},
		{"NoWidth", []string{request, "--width", "-1"}, 2, "--width must be"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out := tell(t, append([]string{"draw"}, c.args...)...)
			if code != c.code {
				t.Errorf("exit status %d, want %d", code, c.code)
			}
			has(t, out, c.want)
		})
	}
	has(t, readFile(t, picture), ">a<", "</svg>")
}
