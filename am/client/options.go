package client

import (
	"cmp"
	"time"

	"patchbay/am/xmlrpc"
)

// User is somebody who is to log in, and the SSH keys to do it with.
type User struct {
	URN  string
	Keys []string
}

// Options is the last argument of every method. Zero fields are not sent.
type Options struct {
	// Available asks ListResources for what is free only.
	Available bool
	// Compressed asks for a compressed document; the typed calls unpack it.
	Compressed bool
	// BestEffort asks for an outcome of each sliver, instead of all or nothing.
	BestEffort bool
	// ExtendALAP asks Renew for as long as possible.
	ExtendALAP bool
	// EndTime is how long the slivers should live.
	EndTime time.Time
	// Users are the accounts to make or to change.
	Users []User
	// RSpecType and RSpecVersion choose the document's format where a method
	// demands that; empty means GENI 3.
	RSpecType, RSpecVersion string
	// Extra members are sent, too, and instead of others of their names.
	Extra xmlrpc.Struct
}

// Time prints t as the API wants it: UTC, whole seconds.
func Time(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// wire makes the argument; withRSpec says that the method demands the format.
func (o Options) wire(withRSpec bool) xmlrpc.Struct {
	s := xmlrpc.Struct{}
	set := func(name string, v xmlrpc.Value) {
		if _, replaced := o.Extra.Get(name); !replaced {
			s = append(s, xmlrpc.Member{Name: name, Value: v})
		}
	}
	if withRSpec {
		set("geni_rspec_version", xmlrpc.Struct{
			{Name: "type", Value: cmp.Or(o.RSpecType, "GENI")},
			{Name: "version", Value: cmp.Or(o.RSpecVersion, "3")},
		})
	}
	for _, f := range []struct {
		name string
		on   bool
	}{
		{"geni_available", o.Available},
		{"geni_compressed", o.Compressed},
		{"geni_best_effort", o.BestEffort},
		{"geni_extend_alap", o.ExtendALAP},
	} {
		if f.on {
			set(f.name, true)
		}
	}
	if !o.EndTime.IsZero() {
		set("geni_end_time", Time(o.EndTime))
	}
	if len(o.Users) > 0 {
		users := make([]xmlrpc.Value, len(o.Users))
		for i, u := range o.Users {
			users[i] = xmlrpc.Struct{{Name: "urn", Value: u.URN}, {Name: "keys", Value: list(u.Keys)}}
		}
		set("geni_users", users)
	}
	return append(s, o.Extra...)
}

// list makes an array of strings.
func list(s []string) []xmlrpc.Value {
	out := make([]xmlrpc.Value, len(s))
	for i := range s {
		out[i] = s[i]
	}
	return out
}
