package client

import (
	"cmp"

	"patchbay/am/api/xmlrpc"
)

// Credential is one credential as a call carries it.
type Credential struct {
	// Type is geni_sfa or geni_abac; empty means geni_sfa.
	Type string
	// Version is the version of Type; empty means 3.
	Version string
	// Text is the signed document.
	Text string
}

// Credentials returns the credentials argument of AM API version 3.
func Credentials(creds []Credential) []xmlrpc.Value {
	out := make([]xmlrpc.Value, len(creds))
	for i, c := range creds {
		out[i] = xmlrpc.Struct{
			{Name: "geni_type", Value: cmp.Or(c.Type, "geni_sfa")},
			{Name: "geni_version", Value: cmp.Or(c.Version, "3")},
			{Name: "geni_value", Value: c.Text},
		}
	}
	return out
}
