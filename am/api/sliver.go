package api

import (
	"context"

	"patchbay/am"
	"patchbay/am/service"
	"patchbay/am/xmlrpc"
)

// The handlers of the methods on slices and slivers. Each reads its options,
// calls the aggregate, and shapes the value as AM API v3 says for the method:
// Renew, PerformOperationalAction and Delete answer a bare array.

func allocate(ctx context.Context, c *call) (xmlrpc.Value, []string, error) {
	out, err := c.api.agg.Allocate(ctx, c.grant, c.targets.Slice, c.parsed, service.AllocateOptions{Call: c.common(), EndTime: c.endTime})
	return c.withManifest(out, err, false, states)
}

// parseRequest reads the request RSpec. Its memory is reserved until the answer is made.
func parseRequest(ctx context.Context, c *call) error {
	release, err := c.api.agg.Memory().HoldText(c.grant.Caller().Key(), c.rspec)
	if err != nil {
		return err
	}
	c.release = append(c.release, release)
	c.parsed, err = c.api.agg.Memory().Parse(ctx, c.grant.Caller().Key(), []byte(c.rspec), c.api.site.Load().reading)
	if err == nil && len(c.parsed.Findings) > 0 {
		c.event.Findings, c.event.Finding = len(c.parsed.Findings), c.parsed.Findings[0].String()
	}
	return err
}

func provision(ctx context.Context, c *call) (xmlrpc.Value, []string, error) {
	out, err := c.api.agg.Provision(ctx, c.grant, c.targets, service.ProvisionOptions{Call: c.common(), EndTime: c.endTime, Users: c.users})
	return c.withManifest(out, err, false, states)
}

func describe(ctx context.Context, c *call) (xmlrpc.Value, []string, error) {
	out, err := c.api.agg.Describe(ctx, c.grant, c.targets, c.common())
	if err != nil {
		return nil, nil, err
	}
	value, notices, err := c.withManifest(out, nil, c.compressed, details)
	if err != nil {
		return nil, nil, err
	}
	return append(value.(xmlrpc.Struct), xmlrpc.Member{Name: "geni_urn", Value: out.Slice.String()}), notices, nil
}

func renew(ctx context.Context, c *call) (xmlrpc.Value, []string, error) {
	return c.array(c.api.agg.Renew(ctx, c.grant, c.targets, c.until, service.RenewOptions{Call: c.common(), AsLongAsPossible: c.asLongAsPossible}))
}

func status(ctx context.Context, c *call) (xmlrpc.Value, []string, error) {
	out, err := c.api.agg.Status(ctx, c.grant, c.targets, c.common())
	if err != nil {
		return nil, nil, err
	}
	c.note(out)
	return xmlrpc.Struct{
		{Name: "geni_urn", Value: out.Slice.String()},
		{Name: "geni_slivers", Value: slivers(out, details)},
	}, nil, nil
}

func parseAction(_ context.Context, c *call) (err error) {
	c.action, err = am.ParseAction(string(c.action))
	if err == nil && c.action == am.ActionUpdateUsers && !c.hasUsers {
		err = am.Errorf(am.BadArgs, "option geni_users is required by %s: an array of structs with urn and keys", c.action).With(am.MissingArgs)
	}
	return err
}

func performOperationalAction(ctx context.Context, c *call) (xmlrpc.Value, []string, error) {
	o := service.ActionOptions{Call: c.common(), Users: c.users}
	return c.array(c.api.agg.PerformOperationalAction(ctx, c.grant, c.targets, c.action, o))
}

func deleteSlivers(ctx context.Context, c *call) (xmlrpc.Value, []string, error) {
	return c.array(c.api.agg.Delete(ctx, c.grant, c.targets, c.common()))
}

func shutdown(ctx context.Context, c *call) (xmlrpc.Value, []string, error) {
	return true, nil, c.api.agg.Shutdown(ctx, c.grant, c.targets.Slice, c.common())
}

// array is the value of the methods that answer slivers alone.
func (c *call) array(out service.Outcome, err error) (xmlrpc.Value, []string, error) {
	if err != nil {
		return nil, nil, err
	}
	c.note(out)
	return slivers(out, changes), out.Notices, nil
}

// withManifest is the value of the methods that answer an RSpec, too.
func (c *call) withManifest(out service.Outcome, err error, compressed bool, e extent) (xmlrpc.Value, []string, error) {
	if err != nil {
		return nil, nil, err
	}
	c.note(out)
	manifest := string(out.Manifest)
	if compressed {
		manifest = compress(out.Manifest)
	}
	return xmlrpc.Struct{
		{Name: "geni_rspec", Value: manifest},
		{Name: "geni_slivers", Value: slivers(out, e)},
	}, out.Notices, nil
}
