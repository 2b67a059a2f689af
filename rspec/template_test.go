package rspec

import (
	"encoding/base64"
	"maps"
	"strings"
	"testing"
)

func sourceElement(attributes, content string) string {
	return `<t:source xmlns:t="` + templateSpace + `" ` + attributes + `>` + content + `</t:source>`
}

const (
	forUs  = `language="radl" component_manager_id="urn:publicid:IDN+example.org+authority+cm"`
	forBob = `language="radl" component_manager_id="urn:publicid:IDN+bob.example.org+authority+cm"`
)

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

func TestTemplateRequest(t *testing.T) {
	want := Template{Language: "radl", Text: []byte("deploy a 1 # é"), Parameters: map[string]string{"a": "", "b": "<\"é&\n"}}
	r := mustParse(t, want.Request(ours().Managers[0].String()), ours())
	if len(r.Templates) != 1 || r.Templates[0].Language != want.Language || string(r.Templates[0].Text) != string(want.Text) || !maps.Equal(r.Templates[0].Parameters, want.Parameters) {
		t.Errorf("%+v", r.Templates)
	}
}

func TestTemplatesAreRead(t *testing.T) {
	parameter := func(name, value string) string { return `<t:parameter name="` + name + `" value="` + value + `"/>` }
	for _, tt := range []struct {
		rule, in           string
		templates, expands int // templates to expand, and expanded before
		want               string
	}{
		{"one for us", sourceElement(forUs, encoded("deploy a 1")), 1, 0, ""},
		{"several", sourceElement(forUs, "") + sourceElement(forUs, encoded("x")), 2, 0, ""},
		{"ten", strings.Repeat(sourceElement(forUs, ""), 10), 10, 0, ""},
		{"one for another aggregate is copied", sourceElement(forBob, "%%"), 0, 0, "is copied as it is; if it has passwords, send it"},
		{"a manager that is no URN", sourceElement(`language="radl" component_manager_id="us"`, ""), 0, 0, `no URN, "us"`},
		{"expanded by us", sourceElement(forUs+` expanded="true"`, encoded("x")), 0, 1, ""},
		{"expanded by another", sourceElement(forBob+` expanded="1"`, encoded("x")), 0, 0, ""},
		{"expanded=false is expanded", sourceElement(forUs+` expanded="false"`, ""), 1, 0, ""},
		{"inside a node it is not ours", `<node client_id="n">` + sourceElement(forUs, "%%") + `</node>`, 0, 0, ""},
		{"of another namespace", `<source xmlns="urn:x"/>`, 0, 0, ""},
	} {
		r := mustParse(t, request(tt.in), ours())
		if len(r.Templates) != tt.templates || len(r.Expanded) != tt.expands {
			t.Errorf("%s: %d templates and %d expanded", tt.rule, len(r.Templates), len(r.Expanded))
		}
		if got := strings.Join(Lines(r.Notices), "; "); !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%s: remarks %q, want %q", tt.rule, got, tt.want)
		}
	}
	for _, tt := range []struct {
		rule, in string
		kind     Kind
		want     string
	}{
		{"without a manager", sourceElement(`language="radl"`, ""), BadArgs, `names no aggregate, which would compile it; add component_manager_id="urn:publicid:IDN+example.org+authority+`},
		{"without a language", sourceElement(strings.Replace(forUs, "radl", " ", 1), ""), BadArgs, "without a language"},
		{"no base64", sourceElement(forUs, "%%"), BadArgs, "not base64; encode the source"},
		{"a parameter twice", sourceElement(forUs, parameter("a", "1")+parameter("a", "2")), BadArgs, `"a", which is empty or used twice`},
		{"a parameter without a name", sourceElement(forUs, parameter("", "1")), BadArgs, "empty or used twice"},
		{"a long source", sourceElement(forUs, encoded(strings.Repeat("#", MaxTemplate+3))), TooBig, "more than 262144 bytes"},
		{"long parameters", sourceElement(forUs, parameter("a", strings.Repeat("x", 64<<10))), TooBig, "more than 200 parameters, or more than 65536 bytes"},
		{"eleven", strings.Repeat(sourceElement(forUs, ""), 11), TooBig, "more than 10 templates; put several into one"},
	} {
		_, err := ParseRequest(request(tt.in), ours())
		wrong, _ := err.(*RequestError)
		if wrong == nil || wrong.Kind != tt.kind || !strings.Contains(wrong.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.rule, err, tt.want)
		}
	}
}

func TestTemplateContent(t *testing.T) {
	r := mustParse(t, request("\n"+sourceElement(forUs, "\n "+encoded("deploy @input.S@ 1\n")+"\n <t:parameter name=\"S\" value=\"a &amp; b\"/>")), ours())
	x := r.Templates[0]
	if x.Language != "radl" || string(x.Text) != "deploy @input.S@ 1\n" || !maps.Equal(x.Parameters, map[string]string{"S": "a & b"}) || x.Line != 2 || x.Column != 1 {
		t.Errorf("%+v", x)
	}
}

func TestExpand(t *testing.T) {
	const before = `<!-- mine --><node client_id='x'   /> `
	compiled := `<?xml version="1.0"?>
<rspec xmlns="` + Namespace + `" xmlns:o="` + originSpace + `" xmlns:net="urn:net" type="request">
  <!-- the first that fits -->
  <node client_id="a-0"><o:source language="radl" id="a"/></node>
</rspec>`
	content := `<!-- the first that fits -->
  <node client_id="a-0"><o:source language="radl" id="a"/></node>`
	secret := encoded("password") + `<t:parameter name="p" value="hunter2"/>`
	for _, tt := range []struct {
		rule, root, source string
		result             Expansion
		want               string
	}{
		{"the result follows the template, and the root declares its prefixes", ``, encoded("a"), Expansion{Request: []byte(compiled), Source: []byte("a")},
			`<rspec type="request" xmlns="` + Namespace + `" xmlns:net="urn:net" xmlns:o="` + originSpace + `">` + before + sourceElement(forUs+` expanded="true"`, encoded("a")) + "\n" + content},
		{"a prefix with another meaning is declared on the elements", ` xmlns:o="urn:x" xmlns:net="urn:net"`, encoded("a"), Expansion{Request: []byte(compiled), Source: []byte("a")},
			before + sourceElement(forUs+` expanded="true"`, encoded("a")) + "\n" + strings.Replace(content, `"a-0"`, `"a-0" xmlns:o="`+originSpace+`"`, 1)},
		{"secrets are replaced, with the parameters", ``, secret, Expansion{Request: []byte(compiled), Source: []byte("none")},
			sourceElement(forUs+` expanded="true"`, encoded("none")) + "\n" + content},
		{"a result without content", ` xmlns:o="urn:x"`, "", Expansion{Request: []byte(`<rspec type="request" xmlns="` + Namespace + `"/>`)},
			`xmlns:o="urn:x">` + before + sourceElement(forUs+` expanded="true"`, "") + "\n</rspec>"},
	} {
		text := strings.Replace(string(request(before+sourceElement(forUs, tt.source))), ">", tt.root+">", 1)
		r := mustParse(t, []byte(text), ours())
		got, err := r.Expand([]Expansion{tt.result})
		if err != nil {
			t.Fatal(tt.rule, err)
		}
		if !strings.Contains(string(got), tt.want) || strings.Contains(string(got), "hunter2") {
			t.Errorf("%s:\n%s\nwant\n%s", tt.rule, got, tt.want)
		}
		again := mustParse(t, got, ours())
		if len(again.Templates) != 0 || len(again.Expanded) != 1 {
			t.Errorf("%s: again %d templates and %d expanded", tt.rule, len(again.Templates), len(again.Expanded))
		}
		if n, ok := again.Node("a-0"); strings.Contains(string(tt.result.Request), "a-0") && (!ok || n.Origin.ID != "a") {
			t.Errorf("%s: no node from the source", tt.rule)
		}
	}
}
