package api

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/store"
)

// TestAnEmptyRequestReservesNothing (S3): an RSpec without nodes and links succeeds without
// slivers, and output says so. The manifest has the extensions of the request. Nothing is stored.
func TestAnEmptyRequestReservesNothing(t *testing.T) {
	w := newWorld(t, "empty", request(), "extensions", request(`<sliver xmlns="urn:openflow"/>`), "a", `<node client_id="a"/>`).play("alice owns s1 24h")
	before := w.everything(t)
	for text, says := range map[string]string{
		"$empty":      `'nothing is reserved: the request is empty; add a <node>' !"urn:openflow"`,
		"$extensions": `'nothing is reserved: the request has no nodes, only <sliver>; add a <node>' 1*'<sliver xmlns="urn:openflow"/>'`,
	} {
		w.play(`
			alice Allocate s1 ` + text + ` -> ` + says + ` 1*'type="manifest"' #0
			alice CreateSliver s1 ` + text + ` -> ` + says + ` 1*'type="manifest"' !"client_id"
			alice Status s1 -> SEARCHFAILED
			alice Allocate s1 ` + text + ` geni_end_time=-1h -> BADARGS
		`)
	}
	if after := w.everything(t); after != before {
		t.Errorf("the store has changed: %s, was %s", after, before)
	}
	w.play(`
		alice Allocate s1 $a
		alice Allocate s1 $empty
		alice Status s1 -> 1*"geni_sliver_urn"
		alice CreateSliver s1 $empty -> ALREADYEXISTS
	`)
}

// TestRefusedRequests checks that a refused Allocate or CreateSliver leaves nothing in the slice or
// the store, and that a valid request succeeds afterwards.
func TestRefusedRequests(t *testing.T) {
	on := func(host, id, more string) string {
		return `<node client_id="` + id + `" component_id="urn:publicid:IDN+` + authority + `+node+` + host + `"` + more
	}
	link := func(inner string) string {
		return request(on("h1", "a", "")+`><interface client_id="a:0"/></node>`, on("h2", "b", "")+`><interface client_id="b:0"/></node>`,
			`<link client_id="l">`+inner+`<interface_ref client_id="a:0"/><interface_ref client_id="b:0"/></link>`)
	}
	many := request(strings.Repeat(`<node client_id="n"/>`, 19))
	for i := range 19 {
		many = strings.Replace(many, `"n"`, fmt.Sprintf(`"n%d"`, i), 1)
	}
	w := setting{inventory: strings.Replace(switched, "vlans: [100..199]", "vlans: [100]\nshared_vlans: [{name: closed, tag: 7, restricted: true}]", 1)}.world(t,
		"good", request(`<node client_id="a"/>`), "across", across("1000")).play(`
		alice owns s1 24h
		alice owns s2 24h
		alice CreateSliver s2 $across
		settle
	`)
	before := w.everything(t)
	for _, tt := range []struct{ rspec, want string }{
		{"hello", "BADARGS"},
		{"", "BADARGS"},
		{"<x/>", "BADARGS"},
		{strings.Replace(w.texts["$good"], `"request"`, `"manifest"`, 1), `BADARGS "request"`},
		{request(`<node/>`), `BADARGS "client_id"`},
		{request(`<node client_id="x"/>`, `<node client_id="x"/>`), `BADARGS '"x"'`},
		{`<rspec xmlns="http://www.protogeni.net/resources/rspec/2" type="request"/>`, "BADVERSION"},
		{many, "TOOBIG code.am_code=<int>26"},
		{link(`<property source_id="a:0" dest_id="b:0" capacity="2000000"/>`), "TOOBIG code.am_code=<int>25"},
		{request(on("h1", "a", ` exclusive="true"/>`)), "REFUSED"},
		{link(`<link_shared_vlan xmlns="http://www.protogeni.net/resources/rspec/ext/shared-vlan/1" name="closed"/>`), "REFUSED"},
		{request(`<link client_id="l"/>`), `SEARCHFAILED "only <link>; add a <node>"`},
		{request(`<node client_id="a" component_manager_id="urn:publicid:IDN+other.example.org+authority+cm"/>`), "SEARCHFAILED"},
		{request(`<node client_id="a"/>`, `<node client_id="b"><sliver_type name="quantum"/></node>`), `SEARCHFAILED "vm"`},
		{request(`<node client_id="a"/>`, on("h9", "b", "/>")), `SEARCHFAILED "h9"`},
		{link(`<link_type name="stitched"/>`), "UNSUPPORTED"},
		{link(""), "VLAN_UNAVAILABLE code.am_code=<int>24"},
	} {
		t.Run(tt.rspec, func(t *testing.T) {
			w.texts["$bad"] = tt.rspec
			w.previewsAlways = !strings.Contains("TOOBIG REFUSED", strings.Fields(tt.want)[0]) // these depend on s2
			w.play("alice Allocate s1 $bad -> " + tt.want + "\nalice CreateSliver s1 $bad -> " + tt.want + "\nalice SliverStatus s1 -> SEARCHFAILED\nalice Status s1 -> SEARCHFAILED")
			if after := w.everything(t); after != before {
				t.Errorf("the store has changed: %s, was %s", after, before)
			}
			w.play("alice CreateSliver s1 $good\nalice DeleteSliver s1\nsettle")
		})
	}
	w.previewsAlways = false
	w.play(`
		alice CreateSliver s1 $good with=none -> FORBIDDEN
		alice CreateSliver s1 $good with=user -> FORBIDDEN
		alice CreateSliver s1 $good with=s2 -> FORBIDDEN code.am_code=<int>22
		alice CreateSliver s1 $good geni_end_time=-1h -> BADARGS code.am_code=<int>19
	`)
	crowd := make([]xmlrpc.Value, maxUsers+1)
	for i := range crowd {
		crowd[i] = user(fmt.Sprintf("urn:publicid:IDN+example.org+user+u%d", i), testKey)
	}
	for rule, params := range map[string][2]xmlrpc.Value{
		"the request is no string": {7, strs()}, "users left out": {w.texts["$good"], opts()}, "users are no structs": {w.texts["$good"], strs("alice")}, "too many users": {w.texts["$good"], crowd},
	} {
		w.who("alice").ask(2, "CreateSliver", w.urns["s1"], strs(w.creds["s1"]), params[0], params[1], opts()).want(t, rule, am.BadArgs)
	}
	if after := w.everything(t); after != before {
		t.Errorf("the store has changed: %s, was %s", after, before)
	}
}

// TestCreateSliverIsOneWrite checks that CreateSliver writes to the store once, and that nothing is
// stored when this write fails. A power failure therefore cannot separate Allocate, Provision and
// start.
func TestCreateSliverIsOneWrite(t *testing.T) {
	writes, broken := 0, false
	s := setting{fault: func() error {
		writes++
		if broken {
			return errors.New("the power is off")
		}
		return nil
	}}.site(t)
	x := s.user("alice").own("s1", 24*time.Hour)
	broken = true
	writes = 0
	x.create(request(node("a"), node("b"))).want(t, "without power", am.DBError)
	s.wantNothing(t, "without power")
	x.v2("SliverStatus").want(t, "SliverStatus", am.SearchFailed)
	broken = false
	if writes != 1 {
		t.Errorf("CreateSliver tried %d writes, want 1", writes)
	}
	writes = 0
	x.create(request(node("a"), node("b"))).want(t, "with power", am.Success)
	if writes != 1 {
		t.Errorf("CreateSliver wrote %d times, want once", writes)
	}
	// The write has two slivers with tasks to create and start them.
	err := s.store.Read(func(v *store.View) error {
		return v.Slivers(func(m am.Sliver) bool {
			task, _, err := v.Task(m.URN)
			if err != nil || task.Goal != am.GoalMake || task.Generation != m.Generation || !m.Desired.Present || !m.Desired.On || m.Status.Allocation != am.Provisioned {
				t.Errorf("sliver %+v, task %+v, %v", m, task, err)
			}
			return true
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}

func callBody(t testing.TB, method string, params ...xmlrpc.Value) []byte {
	t.Helper()
	body, err := xmlrpc.AppendCall(nil, xmlrpc.Call{Method: method, Params: params})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// everything returns the contents of the store as a line.
func (s *site) everything(t testing.TB) string {
	t.Helper()
	var b strings.Builder
	err := s.store.Read(func(v *store.View) error {
		return errors.Join(
			v.Slices(func(x am.Slice) bool { fmt.Fprintf(&b, "slice %s; ", x.URN.Name); return true }),
			v.Slivers(func(x am.Sliver) bool {
				fmt.Fprintf(&b, "sliver %s %s gen %d; ", x.Slice.Name, x.ClientID, x.Generation)
				return true
			}),
			v.Tasks(func(x am.Task) bool { fmt.Fprintf(&b, "task %s; ", x.Goal); return true }),
		)
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func (s *site) wantNothing(t testing.TB, when string) {
	t.Helper()
	if left := s.everything(t); left != "" {
		t.Errorf("%s is left: %s", when, left)
	}
}
