package api

import (
	"context"
	"fmt"
	"slices"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
	"patchbay/rspec"
)

func (c Config) url(version int) string { return fmt.Sprintf("%s/am/%d.0", c.PublicURL, version) }

// versionValues returns the answers of GetVersion, by the version of the URL. requests and
// advertisements are the RSpec extensions.
// geni_single_allocation is an int, because all known clients accept that.
func versionValues(c Config, requests, advertisements []string) map[int]xmlrpc.Struct {
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
	credentialType := func(name, version string) xmlrpc.Value {
		return xmlrpc.Struct{{Name: "geni_type", Value: name}, {Name: "geni_version", Value: version}}
	}
	all := xmlrpc.Struct{
		{Name: "geni_api_versions", Value: xmlrpc.Struct{{Name: "2", Value: c.url(Version2)}, {Name: "3", Value: c.url(Version3)}}},
		{Name: "geni_request_rspec_versions", Value: rspecVersion(rspec.RequestSchema, requests)},
		{Name: "geni_ad_rspec_versions", Value: rspecVersion(rspec.AdSchema, advertisements)},
		{Name: "geni_handles_speaksfor", Value: true},
		{Name: "geni_am_type", Value: []xmlrpc.Value{am.AMType}},
		{Name: "geni_am_code", Value: c.SoftwareVersion},
		{Name: "geni_am_code_version", Value: c.SoftwareVersion},
		{Name: "geni_urn", Value: c.Manager.String()},
		{Name: "urn", Value: c.Manager.String()},
	}
	return map[int]xmlrpc.Struct{
		Version2: append(xmlrpc.Struct{{Name: "geni_api", Value: Version2}}, all...),
		Version3: append(xmlrpc.Struct{
			{Name: "geni_api", Value: Version3},
			{Name: "geni_single_allocation", Value: 0},
			{Name: "geni_allocate", Value: "geni_many"},
			{Name: "geni_credential_types", Value: []xmlrpc.Value{credentialType("geni_sfa", "3"), credentialType("geni_sfa", "2"), credentialType("geni_abac", "1")}},
		}, all...),
	}
}

// getVersion answers GetVersion, which needs no credentials and accepts any certificate.
// patchbay_change says what the option of that name of Allocate can do: 1 adds nodes to what exists, 2
// also changes nodes in place. patchbay_ahead has the limits of reservations that begin later; sites without such reservations
// leave it out. During a lockdown, the answer has the member patchbay_lockdown and a text in output.
func getVersion(_ context.Context, c *call) (xmlrpc.Value, []string, error) {
	v := c.api.site.Load().versions[c.version]
	if l := c.api.agg.Leases(); l.AheadMax > 0 {
		v = append(slices.Clip(v), xmlrpc.Member{Name: "patchbay_ahead", Value: xmlrpc.Struct{
			{Name: "max_seconds", Value: int(l.AheadMax.Seconds())}, {Name: "step_seconds", Value: int(l.AheadStep.Seconds())},
		}})
	}
	if c.version == Version3 {
		change := 1
		if c.api.agg.ChangesNodes() {
			change = 2
		}
		v = append(slices.Clip(v), xmlrpc.Member{Name: "patchbay_change", Value: change})
	}
	text := c.api.agg.Lockdown()
	if text == "" {
		return v, nil, nil
	}
	return append(slices.Clip(v), xmlrpc.Member{Name: "patchbay_lockdown", Value: text}), []string{"no new work is accepted for now: " + text}, nil
}
