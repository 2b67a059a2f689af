package api

import (
	"regexp"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/urn"
	"patchbay/am/xmlrpc"
)

// call2 calls a method of version 2.
func (c *caller) call2(method string, params ...xmlrpc.Value) answer {
	c.site.t.Helper()
	body, err := xmlrpc.AppendCall(nil, xmlrpc.Call{Method: method, Params: params})
	if err != nil {
		c.site.t.Fatal(err)
	}
	return c.site.serveVersion(Version2, Request{ID: "r2", Chain: c.chain, Body: body})
}

// owned is a slice in the hands of its owner, who calls in both versions.
type owned struct {
	*caller
	slice, cred string
}

func (c *caller) own(name string, lasts time.Duration) owned {
	c.site.t.Helper()
	slice, cred := c.slice(name, lasts)
	return owned{c, slice, cred}
}

// v2 calls a method about the slice, with no options but those given at the end.
func (o owned) v2(method string, args ...xmlrpc.Value) answer {
	o.site.t.Helper()
	params := append([]xmlrpc.Value{o.slice, strs(o.cred)}, args...)
	if len(args) == 0 {
		params = append(params, xmlrpc.Struct{})
	} else if _, ok := args[len(args)-1].(xmlrpc.Struct); !ok {
		params = append(params, xmlrpc.Struct{})
	}
	return o.call2(method, params...)
}

// create makes the slice of a request, without users.
func (o owned) create(rspec string) answer {
	o.site.t.Helper()
	return o.v2("CreateSliver", rspec, []xmlrpc.Value{})
}

func (o owned) allocate(rspec string) answer {
	o.site.t.Helper()
	return o.call("Allocate", o.slice, creds(o.cred), rspec, xmlrpc.Struct{})
}

// words are the states that SliverStatus tells, by client_id, and the whole
// slice's under "". It checks what clients insist on.
func (o owned) words(t testing.TB) map[string]string {
	t.Helper()
	a := o.v2("SliverStatus").want(t, "SliverStatus", am.Success)
	text := func(v xmlrpc.Value, name string) string {
		t.Helper()
		s, ok := get(v, name).(string)
		if !ok {
			t.Fatalf("SliverStatus: %s is %T: %v", name, get(v, name), v)
		}
		return s
	}
	if got := text(a.value, "geni_urn"); got != o.slice {
		t.Errorf("geni_urn %s, want %s", got, o.slice)
	}
	if e := text(a.value, "geni_expires"); e != text(a.value, "pg_expires") || !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`).MatchString(e) {
		t.Errorf("geni_expires %q, pg_expires %q", e, text(a.value, "pg_expires"))
	}
	list, ok := get(a.value, "geni_resources").([]xmlrpc.Value)
	if !ok || len(list) == 0 {
		t.Fatalf("geni_resources: %v", get(a.value, "geni_resources"))
	}
	out := map[string]string{"": text(a.value, "geni_status")}
	for _, v := range list {
		if u, err := urn.Parse(text(v, "geni_urn")); err != nil || u.Type != urn.Sliver {
			t.Errorf("geni_urn of a resource: %v", v)
		}
		text(v, "geni_error")
		out[text(v, "geni_client_id")] = text(v, "geni_status")
	}
	return out
}

func (o owned) wantWords(t testing.TB, what, overall string, nodes ...string) {
	t.Helper()
	got := o.words(t)
	if got[""] != overall || len(got) != len(nodes)/2+1 {
		t.Errorf("%s: %v, want %s over all of %d nodes", what, got, overall, len(nodes)/2)
	}
	for i := 0; i < len(nodes); i += 2 {
		if got[nodes[i]] != nodes[i+1] {
			t.Errorf("%s: node %s is %s, want %s", what, nodes[i], got[nodes[i]], nodes[i+1])
		}
	}
}

func (s *site) at(d time.Duration) string { return formatTime(s.clock().Add(d)) }
