package client

import (
	"time"

	"patchbay/am/api/xmlrpc"
)

// User is an account on the nodes with its SSH keys.
type User struct {
	URN  string
	Keys []string
}

// Options is the last argument of every method. Zero fields are not sent.
type Options struct {
	// Compressed asks for a compressed document; the typed calls unpack it.
	Compressed bool
	// Users are the accounts to create or to change.
	Users []User
	// Start is the start of a reservation, for Allocate.
	Start time.Time
	// End is the end of leases, for Allocate and Provision, and for Renew of a reservation that begins later.
	End time.Time
	// AtStart makes the aggregate provision and start what begins later by itself. It is for Allocate, and for
	// Provision before the start. Only Patchbay knows it.
	AtStart bool
	// Change makes Allocate change the nodes that the slice has already; see Version.AddsNodes.
	Change bool
	// Preview makes Allocate reserve nothing, and answer as if the slivers in Without were deleted.
	// Aggregates with Version.AddsNodes know it.
	Preview bool
	Without []string
}

// Time formats t as the API requires: UTC, whole seconds.
func Time(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// wire returns the options as they are sent. It adds geni_rspec_version, which some methods require,
// if withRSpec is true.
func (o Options) wire(withRSpec bool) xmlrpc.Struct {
	s := xmlrpc.Struct{}
	if withRSpec {
		s = append(s, xmlrpc.Member{Name: "geni_rspec_version", Value: xmlrpc.Struct{{Name: "type", Value: "GENI"}, {Name: "version", Value: "3"}}})
	}
	if o.Compressed {
		s = append(s, xmlrpc.Member{Name: "geni_compressed", Value: true})
	}
	if !o.Start.IsZero() {
		s = append(s, xmlrpc.Member{Name: "geni_start_time", Value: Time(o.Start)})
	}
	if !o.End.IsZero() {
		s = append(s, xmlrpc.Member{Name: "geni_end_time", Value: Time(o.End)})
	}
	if o.AtStart {
		s = append(s, xmlrpc.Member{Name: "patchbay_provision_at_start", Value: true})
	}
	if o.Change {
		s = append(s, xmlrpc.Member{Name: "patchbay_change", Value: true})
	}
	if o.Preview {
		s = append(s, xmlrpc.Member{Name: "patchbay_preview", Value: Strings(o.Without)})
	}
	if len(o.Users) > 0 {
		s = append(s, xmlrpc.Member{Name: "geni_users", Value: Users(o.Users)})
	}
	return s
}

// Users returns the value of geni_users, which is called users in version 2.
func Users(users []User) []xmlrpc.Value {
	out := make([]xmlrpc.Value, len(users))
	for i, u := range users {
		out[i] = xmlrpc.Struct{{Name: "urn", Value: u.URN}, {Name: "keys", Value: Strings(u.Keys)}}
	}
	return out
}

// Strings returns an XML-RPC array of strings.
func Strings(s []string) []xmlrpc.Value {
	out := make([]xmlrpc.Value, len(s))
	for i := range s {
		out[i] = s[i]
	}
	return out
}
