package rspec

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestLimitsAreNamed(t *testing.T) {
	many := func(n int, s string) string { return strings.Repeat(s, n) }
	for _, tt := range []struct {
		rule     string
		in       string
		l        Limits
		msg, key string
	}{
		{"bytes", "", Limits{Bytes: 20}, "20 bytes", "bytes"},
		{"elements", many(10, "<x/>"), Limits{Elements: 5}, "5 elements", "elements"},
		{"comments are counted with them", many(10, "<!-- -->"), Limits{Elements: 5}, "5 elements", "elements"},
		{"depth", many(10, "<x>") + many(10, "</x>"), Limits{Depth: 5}, "5 levels", "depth"},
		{"attributes of an element", `<x a="" b="" c=""/>`, Limits{Attributes: 2}, "2 attributes", "attributes"},
		{"attributes of all", many(5, `<x a="" b="" c="" d="" e=""/>`), Limits{Elements: 6}, "12 attributes", "elements"},
		{"namespaces in one place", `<x xmlns:a="u:a"><x xmlns:b="u:b"/></x>`, Limits{Namespaces: 2}, "2 namespace declarations", "namespaces"},
		{"name of a namespace", `<x xmlns:a="urn:` + many(43, "a") + `"/>`, Limits{NamespaceBytes: 46}, "46 bytes in the name of a namespace", "namespace_bytes"},
		{"nodes", many(3, `<node/>`), Limits{Nodes: 2}, "2 nodes", "nodes"},
		{"foreign nodes are counted", many(3, `<node component_manager_id="`+them+`"/>`), Limits{Nodes: 2}, "2 nodes", "nodes"},
		{"links", many(3, `<link/>`), Limits{Links: 2}, "2 links", "links"},
		{"interfaces of all nodes", many(2, `<node>`+many(2, "<interface/>")+`</node>`), Limits{Interfaces: 3}, "3 interfaces", "interfaces"},
		{"client_id of a node", `<node client_id="abcd"/>`, Limits{ClientID: 3}, "3 bytes", "client_id"},
		{"client_id of an interface", `<node client_id="a"><interface client_id="abcd"/></node>`, Limits{ClientID: 3}, "3 bytes", "client_id"},
		{"client_id of a link", `<node client_id="a"><interface client_id="b"/></node><link client_id="abcd"><interface_ref client_id="b"/></link>`, Limits{ClientID: 3}, "3 bytes", "client_id"},
		{"client_id in bytes", `<node client_id="éé"/>`, Limits{ClientID: 3}, "3 bytes", "client_id"},
		{"addresses of an interface", `<node client_id="a"><interface client_id="b"><ip address="10.0.0.1"/><ip address="10.0.0.2"/><ip address="10.0.0.3"/></interface></node>`, Limits{Addresses: 2}, "2 addresses", "addresses"},
		{"services of a node", `<node client_id="a"><services>` + many(2, `<execute/>`) + `</services><services><install/></services></node>`, Limits{Services: 2}, "2 steps, such as installs and executes", "services"},
		{"steps of a node that others have for it", `<node client_id="a"><services><execute shell="sh" command="x"/></services></node><node client_id="b"><services xmlns:s="` + setupSpace + `">` +
			many(2, `<execute shell="sh" command="x" s:order="1"><s:relation client_id="a" on="target"/></execute>`) + `</services></node>`, Limits{Services: 2}, "\"a\" has more than 2 steps, with those of relations", "services"},
		{"command of an execute", `<node client_id="a"><services><execute shell="sh" command="abcd"/></services></node>`, Limits{Command: 3}, "3 bytes", "command"},
		{"url of an install", `<node client_id="a"><services><install url="data:,abcd" install_path="/"/></services></node>`, Limits{Command: 9}, "9 bytes", "command"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			o := ours()
			o.Limits = tt.l
			r, err := ParseRequest(request(tt.in), o)
			e, ok := errors.AsType[*RequestError](err)
			if !ok || r != nil || e.Kind != TooBig || len(e.Problems) != 1 {
				t.Fatalf("got %v, %v", r, err)
			}
			if !strings.Contains(e.Msg, tt.msg) || e.Remedy == "" || strings.Contains(e.Remedy, "limits.rspec."+tt.key) != slices.Contains(settable, tt.key) {
				t.Errorf("%q does not name %q, or its key %s wrongly: %s", e, tt.msg, tt.key, e.Remedy)
			}
			wide := ours()
			if _, problems := Check(request(tt.in), wide); len(problems) > 0 && problems[0].Kind == TooBig {
				t.Errorf("too big without that limit: %v", problems)
			}
		})
	}
}

func TestLimitsAtTheirValueAreKept(t *testing.T) {
	o := ours()
	o.Limits = Limits{Nodes: 1, Links: 1, Interfaces: 2, ClientID: 3, Addresses: 1, Elements: 9, Depth: 4, Attributes: 2, Services: 1, Command: 1}
	mustParse(t, request(`<node client_id="abc"><interface client_id="a:0"><ip address="10.0.0.1"/></interface><interface client_id="a:1"/><services><execute shell="sh" command="a"/></services></node><link client_id="lan"><interface_ref client_id="a:0"/></link>`), o)
}

func TestDepthIsLimited(t *testing.T) {
	o := ours()
	o.Limits.Depth = 1000
	in := request(strings.Repeat("<x>", 300) + strings.Repeat("</x>", 300))
	_, err := ParseRequest(in, o)
	if e, ok := errors.AsType[*RequestError](err); !ok || e.Kind != TooBig || strings.Contains(e.Remedy, "raise") {
		t.Errorf("got %v", err)
	}
}

func TestLimitsValidate(t *testing.T) {
	mistakes := func(l Limits) (list []string) {
		l.Validate(func(key, format string, args ...any) { list = append(list, key+": "+fmt.Sprintf(format, args...)) })
		return list
	}
	if bad := append(mistakes(Limits{}), mistakes(DefaultLimits())...); bad != nil {
		t.Error(bad)
	}
	bad := strings.Join(mistakes(Limits{Nodes: -1, Depth: 1000}), "\n")
	if !strings.Contains(bad, "limits.rspec.nodes: -1 is not") || !strings.Contains(bad, "limits.rspec.depth: 1000 is not possible; give a number from 1 to 240") {
		t.Error(bad)
	}
	if (Limits{}).withDefaults() != DefaultLimits() {
		t.Error("a zero field is not the default")
	}
}

// TestTwoRequestsAreValidatedAtOneTime fills a gate and sends another request through it.
func TestTwoRequestsAreValidatedAtOneTime(t *testing.T) {
	if cap(schemaChecks.slots) != 2 || schemaChecks.maxWait <= 0 {
		t.Errorf("%d at one time, for %v", cap(schemaChecks.slots), schemaChecks.maxWait)
	}
	g := semaphore{make(chan struct{}, 2), 100 * time.Millisecond}
	third := true
	g.run(func() {
		g.run(func() { third = g.run(func() {}) })
	})
	if third {
		t.Error("a third passes")
	}
	func() {
		defer func() { _ = recover() }()
		g.run(func() { panic("mine") })
	}()
	if len(g.slots) != 0 || !g.run(func() {}) {
		t.Error("no request passes after all others have left")
	}
}

// TestLongNamespaceNamesAreRefused checks that long names are refused in new requests, and that
// stored requests are still read, without validation by schemas.
func TestLongNamespaceNamesAreRefused(t *testing.T) {
	in := []byte(`<rspec xmlns="` + Namespace + `" type="request" xmlns:z="urn:` + strings.Repeat("u", 20_000) + `"><node client_id="a"/>` + strings.Repeat("<z:a/>", 3000) + `</rspec>`)
	o := ours()
	o.CheckSchemas = true
	_, err := ParseRequest(in, o)
	if e, ok := errors.AsType[*RequestError](err); !ok || e.Kind != TooBig || e.Problems[0].Line != 1 {
		t.Errorf("got %.200v", err)
	}
	o.Stored = true
	if r := mustParse(t, in, o); len(r.Nodes) != 1 || len(r.Findings) != 1 || !strings.Contains(r.Findings[0].Msg, "not validated") {
		t.Errorf("got %v", r.Findings)
	}
}

func TestOnlySmallRequestsAreValidated(t *testing.T) {
	o := ours()
	o.CheckSchemas = true
	odd := func(size int) []byte { return request(`<node client_id="a" odd="` + strings.Repeat("x", size) + `"/>`) }
	if r := mustParse(t, odd(1), o); len(r.Findings) != 1 || r.Findings[0].Line == 0 {
		t.Errorf("got %v", r.Findings)
	}
	if r := mustParse(t, odd(maxSchemaCheck), o); r.Findings != nil {
		t.Errorf("judged: %v", r.Findings)
	}
	if r := mustParse(t, odd(1), ours()); r.Findings != nil {
		t.Errorf("judged without being asked: %v", r.Findings)
	}
}
