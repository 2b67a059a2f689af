package experiment

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"patchbay/am/client"
	"patchbay/rspec"
	"patchbay/rspec/step"
)

const aggregate = "urn:publicid:IDN+example.org+authority+cm"

// parseParts returns a request with nodes, written NAME or NAME=TEXT, and links, written
// NAME:NODE,NODE or NAME=TEXT:NODE,NODE.
func parseParts(t testing.TB, parts ...string) *rspec.Request {
	t.Helper()
	var nodes, links strings.Builder
	ends := map[string]string{}
	for _, part := range parts {
		head, members, isLink := strings.Cut(part, ":")
		name, text, _ := strings.Cut(head, "=")
		if !isLink {
			continue
		}
		fmt.Fprintf(&links, `<link client_id=%q><!--%s-->`, name, text)
		for member := range strings.SplitSeq(members, ",") {
			ends[member] += fmt.Sprintf(`<interface client_id="%s:%s"/>`, member, name)
			fmt.Fprintf(&links, `<interface_ref client_id="%s:%s"/>`, member, name)
		}
		links.WriteString("</link>")
	}
	for _, part := range parts {
		if name, text, _ := strings.Cut(part, "="); !strings.Contains(part, ":") {
			// A node has its interfaces in every request, so its text stays equal.
			fmt.Fprintf(&nodes, `<node client_id=%q><!--%s-->%s</node>`, name, text, ends[name])
		}
	}
	r, err := ParseRequest([]byte(`<rspec type="request" xmlns="http://www.geni.net/resources/rspec/3">`+nodes.String()+links.String()+"</rspec>"), aggregate)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestCompare checks the action on each node when a request changes.
func TestCompare(t *testing.T) {
	for _, tt := range []struct {
		name        string
		before, now []string
		have        string // nodes that have slivers; ! after one that failed
		want        string
	}{
		{"first", nil, []string{"a", "b"}, "", "add a, add b"},
		{"the same", []string{"a", "b", "l:a,b"}, []string{"a", "b", "l:a,b"}, "a b", "keep a, keep b"},
		{"one more node", []string{"a"}, []string{"a", "b"}, "a", "keep a, add b"},
		{"one node less", []string{"a", "b"}, []string{"a"}, "a b", "keep a, remove b"},
		{"a changed node alone", []string{"a", "b"}, []string{"a=x", "b"}, "a b", "replace a, keep b"},
		{"a changed node replaces the others on its link", []string{"a", "b", "c", "l:a,b"}, []string{"a=x", "b", "c", "l:a,b"}, "a b c", "replace a, replace b, keep c"},
		{"and those of their links", []string{"a", "b", "c", "d", "l:a,b", "m:b,c"}, []string{"a=x", "b", "c", "d", "l:a,b", "m:b,c"}, "a b c d", "replace a, replace b, replace c, keep d"},
		{"a changed link", []string{"a", "b", "c", "l:a,b"}, []string{"a", "b", "c", "l=x:a,b"}, "a b c", "replace a, replace b, keep c"},
		{"a removed link", []string{"a", "b", "l:a,b"}, []string{"a", "b"}, "a b", "replace a, replace b"},
		{"a node removed from a link", []string{"a", "b", "c", "l:a,b,c"}, []string{"a", "b", "l:a,b"}, "a b c", "replace a, replace b, remove c"},
		{"an expired lease", []string{"a", "b"}, []string{"a", "b"}, "a", "keep a, add b"},
		{"an expired lease on a link", []string{"a", "b", "l:a,b"}, []string{"a", "b", "l:a,b"}, "a", "replace a, add b"},
		{"a failed node", []string{"a", "b"}, []string{"a", "b"}, "a b!", "keep a, replace b"},
		{"slivers of another request", nil, []string{"a"}, "a z", "replace a, remove z"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var before *rspec.Request
			if tt.before != nil {
				before = parseParts(t, tt.before...)
			}
			var have []client.Sliver
			for _, name := range strings.Fields(tt.have) {
				s := client.Sliver{ClientID: strings.TrimSuffix(name, "!"), URN: "urn:" + name, Operational: "geni_ready"}
				if strings.HasSuffix(name, "!") {
					s.Operational = "geni_failed"
				}
				have = append(have, s)
			}
			var got []string
			plan := Compare(before, parseParts(t, tt.now...), have, Nothing)
			for _, c := range plan {
				got = append(got, string(c.Action)+" "+c.Node)
				if (c.Action == Replace || c.Action == Remove) && (c.Why == "" || len(c.Slivers) != 1) {
					t.Errorf("%s %s without reason or sliver: %+v", c.Action, c.Node, c)
				}
			}
			if text := strings.Join(got, ", "); text != tt.want {
				t.Errorf("got  %s\nwant %s", text, tt.want)
			}
		})
	}
}

// TestCompareRelations checks that nodes whose steps refer to each other are created by one
// request.
func TestCompareRelations(t *testing.T) {
	parse := func(db, web string) *rspec.Request {
		t.Helper()
		r, err := ParseRequest([]byte(`<rspec type="request" xmlns="http://www.geni.net/resources/rspec/3" xmlns:s="http://patchbay.example.org/rspec/ext/setup/1">
<node client_id="db"><services><execute shell="sh" command="`+db+`"/></services></node>
<node client_id="web"><services><execute shell="sh" command="`+web+`" s:order="1"><s:relation client_id="db"/></execute></services></node>
<node client_id="other"/></rspec>`), aggregate)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	have := []client.Sliver{{ClientID: "db", URN: "urn:db"}, {ClientID: "web", URN: "urn:web"}, {ClientID: "other", URN: "urn:other"}}
	for _, tt := range []struct{ rule, db, web, want string }{
		{"unchanged", "a", "b", "keep db, keep web, keep other"},
		{"a changed source", "a", "c", "replace db, replace web, keep other"},
		{"a changed target", "c", "b", "replace db, replace web, keep other"},
	} {
		var got []string
		for _, c := range Compare(parse("a", "b"), parse(tt.db, tt.web), have, Nothing) {
			got = append(got, string(c.Action)+" "+c.Node)
		}
		if got := strings.Join(got, ", "); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.rule, got, tt.want)
		}
	}
}

// TestLaterSteps checks that a changed step is reported once.
func TestLaterSteps(t *testing.T) {
	// Steps are COMMAND STAGE NAME OPERATION, with - for none.
	parse := func(list ...string) (steps []step.Step) {
		for _, text := range list {
			f := strings.Fields(text)
			stage, _ := strconv.Atoi(f[1])
			steps = append(steps, step.Step{Kind: step.Execute, Command: f[0], Stage: stage, Name: strings.Trim(f[2], "-"), Operation: strings.Trim(f[3], "-")})
		}
		return steps
	}
	for _, tt := range []struct {
		rule        string
		before, now []string
		want        string
	}{
		{"a new step", []string{"a 0 - -"}, []string{"a 0 - -", "b 1 - -"}, "execute 2 of 2, b, is new and runs"},
		{"a removed step", []string{"a 0 - -", "b 1 - -"}, []string{"a 0 - -"}, "execute 2 of 2, b, is no longer in the request"},
		{"another command", []string{"a 0 - -", "b 1 - -"}, []string{"a 0 - -", "c 1 - -"}, "execute 2 of 2, c, changed and runs again"},
		{"one of several commands", []string{"a 1 - -", "b 1 - -"}, []string{"x 1 - -", "b 1 - -", "c 1 - -"}, "execute 1 of 3, x, changed and runs again; execute 3 of 3, c, is new and runs"},
		{"a command of another stage", []string{"a 1 - -"}, []string{"b 2 - -"}, "execute 1 of 1, b, is new and runs; execute 1 of 1, a, is no longer in the request"},
		{"a named step in another stage", []string{"a 1 web -"}, []string{"b 2 web -"}, "execute 1 of 1, web, changed and runs again"},
		{"another name", []string{"a 1 web -"}, []string{"a 1 db -"}, "execute 1 of 1, db, is new and runs; execute 1 of 1, web, is no longer in the request"},
		{"a step of a later event", []string{"a 0 - stop"}, []string{"b 0 - stop"}, "execute 1 of 1, b, changed"},
		{"a new step of a later event", nil, []string{"b 0 - stop"}, "execute 1 of 1, b, is new"},
		{"another event", []string{"a 0 - stop"}, []string{"a 0 - uninstall"}, "execute 1 of 1, a, is new; execute 1 of 1, a, is no longer in the request"},
	} {
		if got := strings.Join(laterSteps(parse(tt.before...), parse(tt.now...)), "; "); got != tt.want {
			t.Errorf("%s:\n%s, want\n%s", tt.rule, got, tt.want)
		}
	}
}

// TestOtherNamespacesChangeNodes checks that a node with equal text is replaced if a
// namespace prefix has another meaning.
func TestOtherNamespacesChangeNodes(t *testing.T) {
	read := func(space string) *rspec.Request {
		r, err := ParseRequest([]byte(`<rspec type="request" xmlns="http://www.geni.net/resources/rspec/3" xmlns:x="`+space+`"><node client_id="a"><x:y/></node></rspec>`), aggregate)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	have := []client.Sliver{{ClientID: "a", URN: "urn:a"}}
	if got := Compare(read("urn:one"), read("urn:two"), have, Nothing)[0].Action; got != Replace {
		t.Errorf("%s, want %s", got, Replace)
	}
	if got := Compare(read("urn:one"), read("urn:one"), have, Nothing)[0].Action; got != Keep {
		t.Errorf("%s, want %s", got, Keep)
	}
}

// TestParseRequestNeedsNodesOfTheAggregate checks that a request for others only is refused.
func TestParseRequestNeedsNodesOfTheAggregate(t *testing.T) {
	text := `<rspec type="request" xmlns="http://www.geni.net/resources/rspec/3"><node client_id="a" component_manager_id="urn:publicid:IDN+other.example.org+authority+cm"/></rspec>`
	if _, err := ParseRequest([]byte(text), aggregate); err == nil || !strings.Contains(err.Error(), "no node for this aggregate") {
		t.Error(err)
	}
}
