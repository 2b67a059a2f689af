package main

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckReadsRequestsAsTheSiteWould(t *testing.T) {
	dir := made(t)
	request := func(body string) string {
		return `<rspec type="request" xmlns="http://www.geni.net/resources/rspec/3">` + "\n" + body + "\n</rspec>"
	}
	for _, c := range []struct {
		name, text string
		code       int
		want       string
	}{
		{"Good", demoRequest, 0, "3 nodes and 1 link for this site"},
		{"NotWellFormed", request("<node>"), 1, "request.xml:3:1: "},
		{"UnknownSliverType", request(`<node client_id="a"><sliver_type name="mainframe"/></node>`), 1, "mainframe"},
		{"SomebodyElses", request(`<node client_id="a" component_manager_id="urn:publicid:IDN+other.example.org+authority+cm"/>`), 1, "urn:publicid:IDN+testbed.example.org+authority+cm"},
		{"TwiceTheSameName", request("<node client_id=\"a\"/>\n<node client_id=\"a\"/>"), 1, "request.xml:3:7: "},
		{"OldVersion", `<rspec type="request" xmlns="http://www.protogeni.net/resources/rspec/2"/>`, 1, "GENI version 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "request.xml")
			write(t, file, c.text)
			code, out := tell(t, "check", "--config", dir, file)
			if code != c.code {
				t.Errorf("exit status %d, want %d", code, c.code)
			}
			has(t, out, c.want)
			if strings.Contains(out, ": line ") {
				t.Errorf("the line is told twice: %s", out)
			}
		})
	}
}
