package rspec

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// bare are problems without their texts.
type bare struct {
	Kind         Kind
	ClientID     string
	Line, Column int
}

func bareOf(list []Problem) (out []bare) {
	for _, p := range list {
		out = append(out, bare{p.Kind, p.ClientID, p.Line, p.Column})
	}
	return out
}

func refusalOf(t testing.TB, b []byte, o ReadOptions) *RequestError {
	t.Helper()
	r, err := ParseRequest(b, o)
	e, ok := errors.AsType[*RequestError](err)
	if !ok || r != nil {
		t.Fatalf("got %v, %v", r, err)
	}
	return e
}

// marked removes the marks § from a text and returns their positions.
func marked(text string) (plain string, places [][2]int) {
	line, column := 1, 1
	var b strings.Builder
	for _, c := range text {
		switch c {
		case '§':
			places = append(places, [2]int{line, column})
			continue
		case '\n':
			line, column = line+1, 0
		}
		column++
		b.WriteRune(c)
	}
	return b.String(), places
}

func TestAllProblemsAreReported(t *testing.T) {
	in, places := marked(string(request(`
 <link client_id="l"><interface_ref client_id="a:0"/><interface_ref §client_id="nobody"/>
  <link_type §name="gre-tunnel"/>
  <property source_id="a:0" §dest_id="a:0" §capacity="much" §latency="-1"/>
 </link>
 <node client_id="a" §exclusive="maybe"
       §component_id="pc1"><interface client_id="a:0"/>§<interface/>
  <interface client_id="a:1"><ip §address="?"/></interface></node>
 <node §client_id="a">§<sliver_type/></node>
 §<node/>`)))
	e := refusalOf(t, []byte(in), ours())
	want := []bare{
		{BadArgs, "l", 2, 0}, {Unsupported, "l", 3, 0},
		{BadArgs, "l", 4, 0}, {BadArgs, "l", 4, 0}, {BadArgs, "l", 4, 0},
		{BadArgs, "a", 6, 0}, {BadArgs, "a", 7, 0}, {BadArgs, "", 7, 0}, {BadArgs, "a:1", 8, 0},
		{BadArgs, "a", 9, 0}, {BadArgs, "a", 9, 0}, {BadArgs, "", 10, 0},
	}
	for i, at := range places {
		if want[i].Line != at[0] {
			t.Fatalf("mark %d is in line %d", i, at[0])
		}
		want[i].Column = at[1]
	}
	if diff := cmp.Diff(want, bareOf(e.Problems)); diff != "" {
		t.Errorf("%s\n%s", diff, strings.Join(Lines(e.Problems), "\n"))
	}
	for _, p := range e.Problems {
		if p.Msg == "" || p.Remedy == "" || strings.ContainsAny(p.String(), "\r\n") || p.IsRemark() {
			t.Errorf("not a problem with a remedy on one line: %+v", p)
		}
	}
	if e.Problem != e.Problems[0] || e.More != 0 {
		t.Errorf("decided by %v, %d more", e.Problem, e.More)
	}
	text := e.Error()
	for _, line := range []int{2, 3, 4, 6, 7, 8, 9} {
		if !strings.Contains(text, fmt.Sprintf("line %d: ", line)) {
			t.Errorf("line %d is not in %q", line, text)
		}
	}
	if !strings.HasSuffix(text, "\nand 2 more; patchbay check lists them") || strings.Count(text, "\n") != maxShown {
		t.Errorf("got %q", text)
	}
}

func TestPlacesCountTheGivenBytes(t *testing.T) {
	bad := `<node client_id="a" exclusive="?"/>`
	root := `<rspec type="request" xmlns="` + Namespace + `">`
	for _, tt := range []struct {
		rule, in     string
		line, column int
	}{
		{"one line", root + bad + "</rspec>", 1, len(root) + 21},
		{"a byte order mark is no column", "\xef\xbb\xbf" + root + bad + "</rspec>", 1, len(root) + 21},
		{"blanks in front count", "\xef\xbb\xbf\n\n " + root + bad + "</rspec>", 3, 1 + len(root) + 21},
		{"CRLF is one line end", root + "\r\n\r\n" + bad + "\r\n</rspec>", 3, 21},
		{"characters, not bytes", root + "\n<!-- é€😀 -->" + bad + "</rspec>", 2, 12 + 21},
		{"XML 1.1", `<?xml version="1.1"?>` + "\n" + root + "\n" + bad + "</rspec>", 3, 21},
		{"an attribute on its own line", root + "<node client_id='a'\n\texclusive = '?'/></rspec>", 2, 2},
		{"not an attribute that is called so elsewhere", root + "\n<node xmlns:x='urn:x' x:exclusive='1' client_id='a' exclusive='?'/></rspec>", 2, 55 - 2},
		{"a > in an attribute before", root + "\n<node client_id='a>' exclusive='?'/></rspec>", 2, 22},
	} {
		e := refusalOf(t, []byte(tt.in), ours())
		if len(e.Problems) != 1 || e.Line != tt.line || e.Column != tt.column {
			t.Errorf("%s: got %d:%d, want %d:%d (%v)", tt.rule, e.Line, e.Column, tt.line, tt.column, e)
		}
	}
}

func TestTheMostSevereProblemGivesTheCode(t *testing.T) {
	cross := `<node client_id="x"><interface client_id="x:0"/></node><node client_id="y" component_manager_id="` + them + `"><interface client_id="y:0"/></node><link client_id="cross"><interface_ref client_id="x:0"/><interface_ref client_id="y:0"/></link>`
	wrong := `<node client_id="wrong" exclusive="?"/>`
	long := `<node client_id="` + strings.Repeat("l", 257) + `"/>`
	for _, tt := range []struct {
		rule, in string
		kind     Kind
		id       string
	}{
		{"what cannot be done here", cross, Unsupported, "cross"},
		{"what is wrong, before that", cross + wrong, BadArgs, "wrong"},
		{"what is too big, before that", cross + wrong + long, TooBig, ""},
		{"the first of its kind", wrong + `<node client_id="wronger" exclusive="?"/>`, BadArgs, "wrong"},
	} {
		if e := refusalOf(t, request(tt.in), ours()); e.Kind != tt.kind || e.ClientID != tt.id {
			t.Errorf("%s: kind %d of %q", tt.rule, e.Kind, e.ClientID)
		}
	}
}

func TestProblemsAreBounded(t *testing.T) {
	const n = 5000
	var b strings.Builder
	b.WriteString(strings.Repeat("<link client_id='l'><interface_ref client_id='nobody'/></link>\n", 3)) // read last, reported first
	for i := range n {
		fmt.Fprintf(&b, "<node client_id='a%d' exclusive='?'/>\n", i)
	}
	e := refusalOf(t, request(b.String()), ours())
	if len(e.Problems) != maxProblems || e.More != 3+2+n-maxProblems {
		t.Errorf("%d problems and %d more", len(e.Problems), e.More)
	}
	for i, p := range e.Problems[5:] {
		if want := fmt.Sprintf("a%d", i); p.ClientID != want || p.Line != 4+i {
			t.Fatalf("problem %d is about %q in line %d, not %q", 5+i, p.ClientID, p.Line, want)
		}
	}
	if text := e.Error(); strings.Count(text, "line ") < maxShown || len(text) > 2000 || !strings.Contains(text, fmt.Sprintf("and %d more", 3+2+n-maxShown)) {
		t.Errorf("%d bytes: %s", len(text), text)
	}
	_, list := Check(request(b.String()), ours())
	if len(list) != maxProblems {
		t.Errorf("Check reports %d", len(list))
	}
}

func TestEachUseOfADuplicateNameIsReported(t *testing.T) {
	foreign := `<node client_id="a" component_manager_id="` + them + `"/>`
	for _, in := range []string{"<node client_id='a'/>\n" + foreign + "\n" + foreign, foreign + "\n<node client_id='a'/>\n" + foreign} {
		e := refusalOf(t, request(in), ours())
		if len(e.Problems) != 2 || e.Problems[0].Line != 2 || e.Problems[1].Line != 3 || !strings.Contains(e.Problems[1].Msg, "line 1") {
			t.Errorf("got %v", e)
		}
	}
}

func TestCheckReportsRemarksWithProblems(t *testing.T) {
	odd := `<node client_id="f" component_manager_id="odd"/>`
	r, list := Check(request("\n"+odd), ours())
	if r == nil || len(list) != 1 || !list[0].IsRemark() || list[0].Line != 2 || list[0].Column != 21 {
		t.Errorf("got %v, %v", r, list)
	}
	r, list = Check(request("\n<node/>\n"+odd+"\n<node/>"), ours())
	if want := []bare{{BadArgs, "", 2, 1}, {0, "f", 3, 21}, {BadArgs, "", 4, 1}}; r != nil || cmp.Diff(want, bareOf(list)) != "" {
		t.Errorf("got %v, %v", r, list)
	}
	if r, list := Check(request(""), ours()); r == nil || len(list) != 0 {
		t.Errorf("got %v, %v", r, list)
	}
	if r, list := Check(nil, ours()); r != nil || len(list) != 1 || list[0].Kind != BadArgs {
		t.Errorf("got %v, %v", r, list)
	}
}

func TestUnreadableRequestIsOneProblem(t *testing.T) {
	for _, tt := range []struct {
		rule, in string
		line     int
	}{
		{"not well-formed", "<rspec>\n<node></rspec>", 2},
		{"DOCTYPE", "\n<!DOCTYPE rspec><rspec/>", 2},
		{"not UTF-8", "<rspec>\n\xff</rspec>", 2},
		{"an undeclared prefix", "<rspec>\n<x:y/></rspec>", 2},
	} {
		if e := refusalOf(t, []byte(tt.in), ours()); len(e.Problems) != 1 || e.Kind != BadArgs || e.Line != tt.line || e.Remedy == "" {
			t.Errorf("%s: got %v", tt.rule, e)
		}
	}
}

// placed is the text from a line and column on.
func placed(text string, line, column int) (rest string, ok bool) {
	text = strings.TrimPrefix(text, "\xef\xbb\xbf")
	for ; line > 1; line-- {
		if _, text, ok = strings.Cut(text, "\n"); !ok {
			return "", false
		}
	}
	for range column - 1 {
		_, n := utf8.DecodeRuneInString(text)
		if text = text[n:]; text == "" {
			return "", false
		}
	}
	return text, true
}

var tagOrAttribute = regexp.MustCompile(`^(<|[^\s<>="']+\s*=\s*["'])`)

// FuzzCheck checks that every problem has the position of a tag or an attribute, in order. An
// accepted request is read the same when it is stored, and a stored one is always read.
func FuzzCheck(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.request.xml")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	in, _ := marked(string(shaped(property(`capacity="?" latency="0.1" packet_loss="0.5"`) + `<link_type name="odd"/>`)))
	f.Add([]byte("\xef\xbb\xbf\r\n" + in))
	f.Add(request(`<node client_id="a" exclusive="?"><interface client_id="i" component_id="x"><ip address="10.0.0.0" netmask="24"/></interface></node>` + "\n<node component_manager_id='é'/>"))
	f.Add(constrained(`<m:require feature="cpu.count" op="?" value="x"/><m:prefer weight="0"/><sliver_type name="x"><m:require feature="a" value="1" b=""/></sliver_type>`))
	f.Add(constrained(`<m:require feature="cpu.count" op="ge" value="4"/><m:prefer weight="7"><m:require feature="memory.size" op="gt" value="1.5G"/></m:prefer><m:require feature="cpu.count" value="3"/>`))
	f.Add(prepared(`<s:disk size="1G" mount_path="/d"/>`, `<s:parameter name="p" value="1"/><s:step order="1" operation="start"><s:relation client_id="db" on="target"/>YQ==</s:step><execute shell="sh" command="a" s:order="?" s:sudo="0"><s:parameter name="p" value=""/></execute><s:userdata>!</s:userdata>`))
	f.Add(withArtifact(template, `<install url="http://h/x/db.tar" s:artifact="a">`+contextOf(`<b:ContentDeploymentLocation path="/y"/>`)+`</install><execute s:artifact="b" s:background="1"><b:ScriptArtifactProperties><b:ScriptLanguage>sh</b:ScriptLanguage></b:ScriptArtifactProperties></execute>`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, list := Check(text, ours())
		o := ours()
		o.Stored = true
		stored, err := ParseRequest(text, o)
		if len(list) == 1 && (strings.HasPrefix(list[0].Msg, "cannot read the request") || list[0].Kind == TooBig) {
			return
		}
		if err != nil {
			t.Fatalf("not to be read when stored: %v", err)
		}
		if r != nil && summary(r) != summary(stored) {
			t.Fatalf("%s is stored as %s", summary(r), summary(stored))
		}
		for i, p := range list {
			rest, ok := placed(string(text), p.Line, p.Column)
			if !ok || !tagOrAttribute.MatchString(rest) || i > 0 && (p.Line < list[i-1].Line || p.Line == list[i-1].Line && p.Column < list[i-1].Column) {
				t.Fatalf("problem %d, %+v, stands at %.40q\n%s", i, p, rest, text)
			}
		}
		if (r == nil) != slices.ContainsFunc(list, func(p Problem) bool { return !p.IsRemark() }) {
			t.Fatalf("%v, but %v", r, list)
		}
	})
}
