package api

import (
	"context"

	"patchbay/am"
	"patchbay/am/xmlrpc"
)

const (
	rspecNamespace = "http://www.geni.net/resources/rspec/3"
	opstate        = "http://www.geni.net/resources/rspec/ext/opstate/1"
	userExtension  = "http://www.geni.net/resources/rspec/ext/user/1"
	proxyExtension = "http://jfed.iminds.be/proxy/1.0"
)

// versionValue is what GetVersion answers. geni_single_allocation is an int
// because that is the one form all known clients read.
func versionValue(c Config) xmlrpc.Struct {
	rspecVersion := func(schema string, extensions ...xmlrpc.Value) []xmlrpc.Value {
		return []xmlrpc.Value{xmlrpc.Struct{
			{Name: "type", Value: "GENI"},
			{Name: "version", Value: "3"},
			{Name: "schema", Value: rspecNamespace + "/" + schema},
			{Name: "namespace", Value: rspecNamespace},
			{Name: "extensions", Value: append([]xmlrpc.Value{}, extensions...)},
		}}
	}
	credentialType := func(version string) xmlrpc.Value {
		return xmlrpc.Struct{{Name: "geni_type", Value: "geni_sfa"}, {Name: "geni_version", Value: version}}
	}
	return xmlrpc.Struct{
		{Name: "geni_api", Value: 3},
		{Name: "geni_api_versions", Value: xmlrpc.Struct{{Name: "3", Value: c.PublicURL + "/am/3.0"}}},
		{Name: "geni_request_rspec_versions", Value: rspecVersion("request.xsd", userExtension, proxyExtension)},
		{Name: "geni_ad_rspec_versions", Value: rspecVersion("ad.xsd", opstate)},
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
