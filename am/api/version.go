package api

import (
	"context"

	"patchbay/am"
	"patchbay/am/xmlrpc"
	"patchbay/rspec"
)

// versionValue is what GetVersion answers. geni_single_allocation is an int
// because that is the one form all known clients read.
func versionValue(c Config, agg Aggregate) xmlrpc.Struct {
	rspecVersion := func(schema string, extensions []string) []xmlrpc.Value {
		names := make([]xmlrpc.Value, len(extensions))
		for i, x := range extensions {
			names[i] = x
		}
		return []xmlrpc.Value{xmlrpc.Struct{
			{Name: "type", Value: "GENI"},
			{Name: "version", Value: "3"},
			{Name: "schema", Value: schema},
			{Name: "namespace", Value: rspec.Namespace},
			{Name: "extensions", Value: names},
		}}
	}
	credentialType := func(version string) xmlrpc.Value {
		return xmlrpc.Struct{{Name: "geni_type", Value: "geni_sfa"}, {Name: "geni_version", Value: version}}
	}
	requests, advertisements := agg.RSpecExtensions()
	return xmlrpc.Struct{
		{Name: "geni_api", Value: 3},
		{Name: "geni_api_versions", Value: xmlrpc.Struct{{Name: "3", Value: c.PublicURL + "/am/3.0"}}},
		{Name: "geni_request_rspec_versions", Value: rspecVersion(rspec.RequestSchema, requests)},
		{Name: "geni_ad_rspec_versions", Value: rspecVersion(rspec.AdSchema, advertisements)},
		{Name: "geni_credential_types", Value: []xmlrpc.Value{credentialType("3"), credentialType("2")}},
		{Name: "geni_single_allocation", Value: 0},
		{Name: "geni_allocate", Value: "geni_many"},
		{Name: "geni_handles_speaksfor", Value: false},
		{Name: "geni_am_type", Value: []xmlrpc.Value{am.AMType}},
		{Name: "geni_am_code", Value: c.SoftwareVersion},
		{Name: "geni_am_code_version", Value: c.SoftwareVersion},
		{Name: "geni_urn", Value: c.Manager.String()},
		{Name: "urn", Value: c.Manager.String()},
	}
}

// getVersion needs no credentials, and no certificate that anybody vouches for.
func getVersion(_ context.Context, c *call) (xmlrpc.Value, []string, error) {
	return c.api.version, nil, nil
}
