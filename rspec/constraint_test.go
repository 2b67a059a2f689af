package rspec

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"patchbay/rspec/match"
)

// constrained returns a request with a node "a" that has the constraints; m: is their prefix.
func constrained(inside string) []byte {
	return request(`<node client_id="a" xmlns:m="` + matchSpace + `">` + inside + `</node>`)
}

func TestConstraintsAreRead(t *testing.T) {
	type list = []match.Constraint
	cpu := func(op match.Op) list { return list{{Feature: "cpu.count", Op: op, Value: "4"}} }
	const most = match.MaxConstraints
	for _, tt := range []struct {
		rule, in string
		require  list
		prefer   []match.Preference
		remark   string
	}{
		{"none", ``, nil, nil, ""},
		{"without op", `<m:require feature="cpu.count" value="4"/>`, cpu(match.Equal), nil, ""},
		{"op as a sign", `<m:require feature="cpu.count" op="&gt;=" value="4"/>`, cpu(match.AtLeast), nil, ""},
		{"eq", `<m:require feature="cpu.count" op="eq" value="4"/>`, cpu(match.Equal), nil, ""},
		{"lt", `<m:require feature="cpu.count" op="lt" value="4"/>`, cpu(match.Less), nil, ""},
		{"le", `<m:require feature="cpu.count" op="le" value="4"/>`, cpu(match.AtMost), nil, ""},
		{"gt", `<m:require feature="cpu.count" op="gt" value="4"/>`, cpu(match.Greater), nil, ""},
		{"ge", `<m:require feature="cpu.count" op=" ge " value=" 4 "/>`, cpu(match.AtLeast), nil, ""},
		{"contains", `<m:require feature="cpu.count" op="contains" value="4"/>`, cpu(match.Contains), nil, ""},
		{"in the sliver type, in document order", `<m:require feature="gpu.count" value="0"/><sliver_type name="vm"><disk_image name="i"/><m:require feature="cpu.count" value="4"/></sliver_type><m:require feature="price" op="lt" value="1.5"/>`,
			list{{Feature: "gpu.count", Op: match.Equal, Value: "0"}, cpu(match.Equal)[0], {Feature: "price", Op: match.Less, Value: "1.5"}}, nil, ""},
		{"not in a second sliver type", `<sliver_type name="vm"/><sliver_type name="vm"><m:require feature="cpu.count" value="4"/></sliver_type>`, nil, nil, "several sliver_types"},
		{"preferences", `<m:prefer weight="1"><m:require feature="cpu.count" value="4"/></m:prefer><m:prefer weight=" 1000000 "><m:require feature="cpu.count" op="ge" value="4"/></m:prefer>`,
			nil, []match.Preference{{Weight: 1, Constraints: cpu(match.Equal)}, {Weight: 1_000_000, Constraints: cpu(match.AtLeast)}}, ""},
		{"a preference against a requirement", `<m:require feature="cpu.count" value="4"/><m:prefer weight="1"><m:require feature="cpu.count" op="gt" value="4"/></m:prefer>`,
			cpu(match.Equal), []match.Preference{{Weight: 1, Constraints: cpu(match.Greater)}}, ""},
		{"as many as possible", strings.Repeat(`<m:require feature="cpu.count" value="4"/>`, most-1) + `<m:prefer weight="1"><m:require feature="cpu.count" value="4"/></m:prefer>`,
			repeated(cpu(match.Equal)[0], most-1), []match.Preference{{Weight: 1, Constraints: cpu(match.Equal)}}, ""},
		{"pasted from a manifest or an advertisement", `<m:granted feature="cpu.count" value="4"/><m:capability feature="cpu.count" min="1" max="4"/>`, nil, nil, ""},
		{"unknown element", `<m:requires feature="cpu.count" value="4"/>`, nil, nil, "unknown element <requires>; use require or prefer"},
		{"unknown element in a preference", `<m:prefer weight="1"><m:require feature="cpu.count" value="4"/><m:prefer/></m:prefer>`, nil, []match.Preference{{Weight: 1, Constraints: cpu(match.Equal)}}, "unknown element <prefer> in a preference"},
		{"unknown attribute", `<m:require feature="cpu.count" value="4" unit="x"/>`, cpu(match.Equal), nil, `<require> with an unknown attribute "unit"; use feature, op, value`},
		{"element of another namespace", `<require feature="cpu.count" value="x"/><x:require xmlns:x="urn:x"/>`, nil, nil, ""},
		{"inside another element", `<services><m:require feature="" value=""/></services>`, nil, nil, ""},
	} {
		r := mustParse(t, constrained(tt.in), ours())
		n := r.Nodes[0]
		if d := cmp.Diff(tt.require, n.Require) + cmp.Diff(tt.prefer, n.Prefer); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.rule, d)
		}
		if (n.Match != nil) != (len(tt.require)+len(tt.prefer) > 0) {
			t.Errorf("%s: Match is %v", tt.rule, n.Match)
		}
		if remarks := strings.Join(Lines(r.Notices), "; "); tt.remark == "" && remarks != "" || !strings.Contains(remarks, tt.remark) {
			t.Errorf("%s: remarks %q, want %q", tt.rule, remarks, tt.remark)
		}
	}
	foreign := `<node client_id="b" component_manager_id="` + them + `"><require xmlns="` + matchSpace + `" op="?"/></node>`
	if r := mustParse(t, request(foreign), ours()); len(r.Notices) != 0 {
		t.Errorf("a node of another aggregate: %v", r.Notices)
	}
}

func repeated(c match.Constraint, n int) (list []match.Constraint) {
	for range n {
		list = append(list, c)
	}
	return list
}

func TestConstraintsAreRefused(t *testing.T) {
	const good = `<m:require feature="cpu.count" op="ge" value="4"/>`
	for _, tt := range []struct{ rule, in, want string }{
		{"no feature", `§<m:require value="4"/>`, `node "a" has a constraint without a feature; add one`},
		{"name of a feature", `§<m:require feature="cpu count" value="4"/>`, `"cpu count" is not the name of a feature`},
		{"long name of a feature", `§<m:require feature="` + strings.Repeat("x", 65) + `" value="4"/>`, `has more than 64 bytes`},
		{"unknown op", `<m:require feature="cpu.count" §op="==" value="4"/>`, `a constraint on "cpu.count" with op="=="; use eq, lt, le, gt, ge or contains`},
		{"empty op", `<m:require feature="cpu.count" §op="" value="4"/>`, `with op=""`},
		{"no value", `§<m:require feature="cpu.count"/>`, `a constraint on "cpu.count" without a value; add`},
		{"empty value", `<m:require feature="cpu.count" §value=" "/>`, `without a value`},
		{"value of two lines", `<m:require feature="os" §value="a&#10;b"/>`, `control characters; write one line`},
		{"long value", `§<m:require feature="os" value="` + strings.Repeat("x", 257) + `"/>`, `the value has more than 256 bytes`},
		{"no number", `§<m:require feature="cpu.count" value="many"/>`, `node "a" has a wrong constraint: cpu.count: "many" is not a number; correct`},
		{"order of texts", `§<m:require feature="os" op="lt" value="debian"/>`, `only = and contains are possible`},
		{"no value satisfies it", `§<m:require feature="cpu.count" op="lt" value="0"/>`, `no value satisfies cpu.count < 0; correct`},
		{"contradiction", good + `<m:require feature="gpu.count" value="1"/>§<m:require feature="cpu.count" op="lt" value="4"/>`,
			`no value satisfies both cpu.count >= 4 and cpu.count < 4; change one of the two`},
		{"contradiction with the sliver type", good + `<sliver_type name="x">§<m:require feature="cpu.count" value="3"/></sliver_type>`, `both cpu.count >= 4 and cpu.count = 3`},
		{"mistake in a preference", `§<m:prefer weight="1"><m:require feature="cpu.count" value="x"/></m:prefer>`, `cpu.count: "x" is not a number`},
		{"contradiction in a preference", good + `§<m:prefer weight="1">` + good + `<m:require feature="cpu.count" value="3"/></m:prefer>`, `both cpu.count >= 4 and cpu.count = 3`},
		{"no weight", `§<m:prefer>` + good + `</m:prefer>`, `a preference with weight=""; write a whole number from 1 to 1000000`},
		{"weight 0", `<m:prefer §weight="0">` + good + `</m:prefer>`, `weight="0"`},
		{"large weight", `<m:prefer §weight="1000001">` + good + `</m:prefer>`, `weight="1000001"`},
		{"weight with a fraction", `<m:prefer §weight="1.5">` + good + `</m:prefer>`, `weight="1.5"`},
		{"empty preference", `§<m:prefer weight="1"/>`, `a preference without a constraint; add a require to it`},
		{"too many", strings.Repeat(good, match.MaxConstraints) + `§` + good, `node "a" has more than 64 constraints; leave some out`},
		{"too many in preferences", strings.Repeat(`<m:prefer weight="1">`+good+`</m:prefer>`, match.MaxConstraints) + `<m:prefer weight="1">§` + good + `</m:prefer>`, `more than 64 constraints`},
		{"too many empty preferences", strings.Repeat(`<m:prefer weight="1"/>`, match.MaxConstraints) + `§<m:prefer weight="1"/>`, `more than 64 constraints`},
	} {
		in, places := marked(string(constrained("\n" + tt.in)))
		e := refusalOf(t, []byte(in), ours())
		if len(e.Problems) != 1 || e.Kind != BadArgs || e.ClientID != "a" || !strings.Contains(e.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.rule, e, tt.want)
		}
		if got := [2]int{e.Line, e.Column}; got != places[0] {
			t.Errorf("%s: at %v, want %v", tt.rule, got, places[0])
		}
		stored := ours()
		stored.Stored = true
		if n := mustParse(t, []byte(in), stored).Nodes[0]; n.Match != nil || n.Require != nil || n.Prefer != nil {
			t.Errorf("%s: a stored request has %v, %v", tt.rule, n.Require, n.Prefer)
		}
	}
}

func TestManyConstraintsAreOneMistake(t *testing.T) {
	in := constrained(strings.Repeat(`<m:require feature="cpu.count" op="ge" value="4"/>`, 50_000))
	if e := refusalOf(t, in, ours()); len(e.Problems) != 1 {
		t.Errorf("%d problems", len(e.Problems))
	}
}

// A manifest copies the constraints and replaces the values granted before.
func TestGrantedValuesAreReplaced(t *testing.T) {
	const require = `<m:require feature="cpu.count" op="ge" value="4"/>`
	in := mustParse(t, constrained(require+`<m:granted feature="cpu.count" value="7"/>`), ours())
	for _, tt := range []struct {
		granted []Granted
		want    string
	}{
		{nil, ""},
		{[]Granted{{"cpu.count", "4"}, {"disk.0.os.name", `a "<b>`}},
			fmt.Sprintf(`<granted xmlns=%[1]q feature="cpu.count" value="4"/><granted xmlns=%[1]q feature="disk.0.os.name" value="a &quot;&lt;b&gt;"/>`, matchSpace)},
	} {
		f := facts(0)
		f.Granted = tt.granted
		got := mustWrite(t, options(), Part{Request: in, Nodes: map[string]NodeFacts{"a": f}})
		if !strings.Contains(got, require+tt.want+"</node>") || strings.Contains(got, matchSchema) != (tt.want != "") {
			t.Errorf("%v: %s", tt.granted, got)
		}
	}
}
