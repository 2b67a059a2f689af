package client

import "patchbay/am/xmlrpc"

// Credential is one credential as a call carries it.
type Credential struct {
	// Type is geni_sfa or geni_abac; empty means geni_sfa.
	Type string
	// Version of the type; empty means 3.
	Version string
	// Text is the signed document.
	Text string
}

// Credentials makes the argument of version 3 out of creds.
func Credentials(creds []Credential) []xmlrpc.Value {
	out := make([]xmlrpc.Value, len(creds))
	for i, c := range creds {
		out[i] = xmlrpc.Struct{
			{Name: "geni_type", Value: or(c.Type, "geni_sfa")},
			{Name: "geni_version", Value: or(c.Version, "3")},
			{Name: "geni_value", Value: c.Text},
		}
	}
	return out
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
