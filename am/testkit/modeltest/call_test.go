package modeltest

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/api"
	"patchbay/am/api/xmlrpc"
)

// caller is a user with a credential over a slice. It calls version 2 or 3 of the API.
type caller struct {
	site       *site
	who        *user
	slice      string // URN
	credential string
}

// answer is a decoded reply. If the process ended during the call, only unanswered is set.
type answer struct {
	code   am.Code
	detail int
	output string
	value  xmlrpc.Value
	cause  error
	unanswered
}

// unanswered means that the process ended during the call.
type unanswered bool

// sliverReport is the description of a sliver in an answer.
type sliverReport struct {
	urn, client, state, allocation string
	expires, begins                time.Time
	err                            string
}

// v3 calls a method of version 3 for the named slivers; nil means the whole slice.
func (c *caller) v3(method string, named []string, args ...xmlrpc.Value) answer {
	c.site.t.Helper()
	if named == nil {
		named = []string{c.slice}
	}
	return c.call(3, method, append([]xmlrpc.Value{strs(named...), creds(c.credential)}, args...)...)
}

// v2 calls a method of version 2 for the slice.
func (c *caller) v2(method string, args ...xmlrpc.Value) answer {
	c.site.t.Helper()
	return c.call(2, method, append([]xmlrpc.Value{c.slice, strs(c.credential)}, args...)...)
}

// allocate requests nodes in version 3.
func (c *caller) allocate(rspec string, options ...xmlrpc.Member) answer {
	c.site.t.Helper()
	return c.call(3, "Allocate", c.slice, creds(c.credential), rspec, opts(options...))
}

// create requests nodes in version 2.
func (c *caller) create(rspec string, users []xmlrpc.Value, options ...xmlrpc.Member) answer {
	c.site.t.Helper()
	return c.v2("CreateSliver", rspec, users, xmlrpc.Struct(options))
}

// advertised returns the advertisement.
func (c *caller) advertised() answer {
	c.site.t.Helper()
	return c.call(3, "ListResources", creds(c.who.credential), opts())
}

// call makes a call and decodes the answer.
func (c *caller) call(version int, method string, params ...xmlrpc.Value) (a answer) {
	s := c.site
	s.t.Helper()
	body, err := xmlrpc.AppendCall(nil, xmlrpc.Call{Method: method, Params: params})
	if err != nil {
		s.t.Fatal(err)
	}
	resp := s.api.Serve(s.context, version, api.Request{ID: s.nextID(), Chain: c.who.chain, Body: body})
	if s.isDead() {
		return answer{unanswered: true}
	}
	body = resp.Body
	if resp.Gzip {
		z, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			s.t.Fatal(err)
		}
		if body, err = io.ReadAll(z); err != nil {
			s.t.Fatal(err)
		}
	}
	v, err := xmlrpc.DecodeResponse(body, xmlrpc.Limits{})
	if err != nil {
		s.t.Fatalf("%s: no envelope: %v", method, err)
	}
	code, _ := get(v, "code").(xmlrpc.Struct)
	n, ok := get(code, "geni_code").(int)
	if !ok {
		s.t.Fatalf("%s: no geni_code in %v", method, v)
	}
	a = answer{code: am.Code(n), value: get(v, "value"), cause: resp.Event.Err}
	a.detail, _ = get(code, "am_code").(int)
	a.output, _ = get(v, "output").(string)
	return a
}

// slivers returns the slivers that an answer of version 3 describes.
func (a answer) slivers() (all []sliverReport) {
	list, ok := a.value.([]xmlrpc.Value)
	if !ok {
		list, _ = get(a.value, "geni_slivers").([]xmlrpc.Value)
	}
	text := func(v xmlrpc.Value, name string) string { s, _ := get(v, name).(string); return s }
	for _, v := range list {
		expires, _ := time.Parse(time.RFC3339, text(v, "geni_expires"))
		begins, _ := time.Parse(time.RFC3339, text(v, "geni_start_time"))
		all = append(all, sliverReport{text(v, "geni_sliver_urn"), text(v, "geni_client_id"), text(v, "geni_operational_status"), text(v, "geni_allocation_status"), expires, begins, text(v, "geni_error")})
	}
	return all
}

// manifest returns the RSpec of an answer in either version.
func (a answer) manifest() string {
	if s, ok := a.value.(string); ok {
		return s
	}
	s, _ := get(a.value, "geni_rspec").(string)
	return s
}

// get returns a member of a struct; nil if it has no such member.
func get(v xmlrpc.Value, name string) xmlrpc.Value {
	s, _ := v.(xmlrpc.Struct)
	x, _ := s.Get(name)
	return x
}

func strs(s ...string) []xmlrpc.Value {
	list := make([]xmlrpc.Value, len(s))
	for i := range s {
		list[i] = s[i]
	}
	return list
}

func creds(texts ...string) []xmlrpc.Value {
	list := []xmlrpc.Value{}
	for _, t := range texts {
		list = append(list, xmlrpc.Struct{opt("geni_type", "geni_sfa"), opt("geni_version", "3"), opt("geni_value", t)})
	}
	return list
}

// opts returns options with the RSpec version that every method accepts.
func opts(m ...xmlrpc.Member) xmlrpc.Struct {
	return append(xmlrpc.Struct{opt("geni_rspec_version", xmlrpc.Struct{opt("type", "geni"), opt("version", "3")})}, m...)
}

func opt(name string, v xmlrpc.Value) xmlrpc.Member { return xmlrpc.Member{Name: name, Value: v} }

func request(nodes ...string) string {
	b := []byte(`<rspec xmlns="http://www.geni.net/resources/rspec/3" type="request">`)
	for _, n := range nodes {
		b = append(b, n...)
	}
	return string(append(b, "</rspec>"...))
}

// node returns a request for a node of a sliver type on any component.
func node(client, sliverType string) string {
	return `<node client_id="` + client + `"><sliver_type name="` + sliverType + `"/></node>`
}

// linked is node with an interface, which link can join.
func linked(client, sliverType string) string {
	return withInterface(node(client, sliverType), client)
}

func withInterface(node, client string) string {
	return strings.Replace(node, "<sliver_type", `<interface client_id="`+client+`:0"/><sliver_type`, 1)
}

// link returns a link between the interfaces of nodes made by linked.
func link(clients ...string) string {
	text := `<link client_id="of-` + clients[0] + `">`
	for _, c := range clients {
		text += `<interface_ref client_id="` + c + `:0"/>`
	}
	return text + "</link>"
}

// bound returns a request for a node of a sliver type on a component.
func bound(client, sliverType, component string) string {
	return `<node client_id="` + client + `" component_id="` + name("node", component) + `"><sliver_type name="` + sliverType + `"/></node>`
}
