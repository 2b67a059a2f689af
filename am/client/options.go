package client

import (
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
	// Compressed asks for a compressed document; the typed calls unpack it.
	Compressed bool
	// Users are the accounts to make or to change.
	Users []User
	// End is when Allocate and Provision let the lease end.
	End time.Time
}

// Time prints t as the API wants it: UTC, whole seconds.
func Time(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// wire makes the argument; withRSpec says that the method demands the format.
func (o Options) wire(withRSpec bool) xmlrpc.Struct {
	s := xmlrpc.Struct{}
	if withRSpec {
		s = append(s, xmlrpc.Member{Name: "geni_rspec_version", Value: xmlrpc.Struct{{Name: "type", Value: "GENI"}, {Name: "version", Value: "3"}}})
	}
	if o.Compressed {
		s = append(s, xmlrpc.Member{Name: "geni_compressed", Value: true})
	}
	if !o.End.IsZero() {
		s = append(s, xmlrpc.Member{Name: "geni_end_time", Value: Time(o.End)})
	}
	if len(o.Users) > 0 {
		s = append(s, xmlrpc.Member{Name: "geni_users", Value: Users(o.Users)})
	}
	return s
}

// Users makes the value of geni_users, and of users in version 2.
func Users(users []User) []xmlrpc.Value {
	out := make([]xmlrpc.Value, len(users))
	for i, u := range users {
		out[i] = xmlrpc.Struct{{Name: "urn", Value: u.URN}, {Name: "keys", Value: Strings(u.Keys)}}
	}
	return out
}

// Strings makes an array of strings.
func Strings(s []string) []xmlrpc.Value {
	out := make([]xmlrpc.Value, len(s))
	for i := range s {
		out[i] = s[i]
	}
	return out
}
