package api

import (
	"time"

	"patchbay/am/api/xmlrpc"
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

// owned is a slice with its owner, who calls in both versions.
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

func (s *site) at(d time.Duration) string { return FormatTime(s.clock().Add(d)) }
