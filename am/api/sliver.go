package api

import (
	"context"

	"patchbay/am"
	"patchbay/am/service"
	"patchbay/am/xmlrpc"
	"patchbay/rspec"
)

// The handlers of the methods on slices and slivers. Each reads its options,
// calls the aggregate, and shapes the value as AM API v3 says for the method:
// Renew, PerformOperationalAction and Delete answer a bare array.

func allocate(ctx context.Context, c *call) (xmlrpc.Value, []string, error) {
	req, err := c.readRequest(ctx)
	if err != nil {
		return nil, nil, err
	}
	out, err := c.api.agg.Allocate(ctx, c.grant, c.targets.Slice, req, service.AllocateOptions{Call: c.common(), EndTime: c.endTime})
	return c.withManifest(out, err, false, states)
}

// readRequest reads the request RSpec. Its memory is reserved until the answer is made.
func (c *call) readRequest(ctx context.Context) (*rspec.Request, error) {
	release, err := c.api.agg.Memory().HoldText(c.grant.Caller().Key(), c.rspec)
	if err != nil {
		return nil, err
	}
	c.release = append(c.release, release)
	req, err := c.api.agg.Memory().Parse(ctx, c.grant.Caller().Key(), []byte(c.rspec), c.api.site.Load().reading)
	if err != nil {
		return nil, c.graver(ctx, err)
	}
	if len(req.Findings) > 0 {
		c.event.Findings, c.event.Finding = len(req.Findings), req.Findings[0].String()
	}
	return req, nil
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

func performOperationalAction(ctx context.Context, c *call) (xmlrpc.Value, []string, error) {
	action, err := am.ParseAction(c.action)
	if err == nil && action == am.ActionUpdateUsers && !c.hasUsers {
		err = am.Errorf(am.BadArgs, "option geni_users is required by %s: an array of structs with urn and keys", action).With(am.MissingArgs)
	}
	if err != nil {
		return nil, nil, c.graver(ctx, err)
	}
	o := service.ActionOptions{Call: c.common(), Users: c.users}
	return c.array(c.api.agg.PerformOperationalAction(ctx, c.grant, c.targets, action, o))
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
