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
	common, err := c.common()
	if err != nil {
		return nil, nil, err
	}
	end, err := c.options.moment("geni_end_time")
	if err != nil {
		return nil, nil, err
	}
	start, err := c.options.moment("geni_start_time")
	if err != nil {
		return nil, nil, err
	}
	if start.After(c.now) {
		return nil, nil, am.Errorf(am.Unsupported, "option geni_start_time: reservations in the future are not supported; leave it out")
	}
	done, err := c.api.large.enter(ctx, len(c.rspec))
	if err != nil {
		return nil, nil, err
	}
	defer done()
	req, err := rspec.ParseRequest([]byte(c.rspec), c.api.cfg.Reading)
	if err != nil {
		return nil, nil, err
	}
	if len(req.Findings) > 0 {
		c.event.Findings, c.event.Finding = len(req.Findings), req.Findings[0].String()
	}
	out, err := c.api.agg.Allocate(ctx, c.grant, c.targets.Slice, req, service.AllocateOptions{Call: common, EndTime: end})
	return c.withManifest(out, err, false)
}

func provision(ctx context.Context, c *call) (xmlrpc.Value, []string, error) {
	common, err := c.common()
	if err != nil {
		return nil, nil, err
	}
	if err := c.options.rspecVersion(); err != nil {
		return nil, nil, err
	}
	end, err := c.options.moment("geni_end_time")
	if err != nil {
		return nil, nil, err
	}
	users, err := c.options.users()
	if err != nil {
		return nil, nil, err
	}
	out, err := c.api.agg.Provision(ctx, c.grant, c.targets, service.ProvisionOptions{Call: common, EndTime: end, Users: users})
	return c.withManifest(out, err, false)
}

func describe(ctx context.Context, c *call) (xmlrpc.Value, []string, error) {
	common, err := c.common()
	if err != nil {
		return nil, nil, err
	}
	if err := c.options.rspecVersion(); err != nil {
		return nil, nil, err
	}
	compressed, err := c.options.flag("geni_compressed")
	if err != nil {
		return nil, nil, err
	}
	out, err := c.api.agg.Describe(ctx, c.grant, c.targets, common)
	if err != nil {
		return nil, nil, err
	}
	value, notices, err := c.withManifest(out, nil, compressed)
	if err != nil {
		return nil, nil, err
	}
	return append(value.(xmlrpc.Struct), xmlrpc.Member{Name: "geni_urn", Value: out.Slice.String()}), notices, nil
}

func renew(ctx context.Context, c *call) (xmlrpc.Value, []string, error) {
	common, err := c.common()
	if err != nil {
		return nil, nil, err
	}
	alap, err := c.options.flag("geni_extend_alap")
	if err != nil {
		return nil, nil, err
	}
	return c.array(c.api.agg.Renew(ctx, c.grant, c.targets, c.until, service.RenewOptions{Call: common, AsLongAsPossible: alap}))
}

func status(ctx context.Context, c *call) (xmlrpc.Value, []string, error) {
	common, err := c.common()
	if err != nil {
		return nil, nil, err
	}
	out, err := c.api.agg.Status(ctx, c.grant, c.targets, common)
	if err != nil {
		return nil, nil, err
	}
	c.note(out)
	return xmlrpc.Struct{
		{Name: "geni_urn", Value: out.Slice.String()},
		{Name: "geni_slivers", Value: slivers(out, true)},
	}, nil, nil
}

func performOperationalAction(ctx context.Context, c *call) (xmlrpc.Value, []string, error) {
	common, err := c.common()
	if err != nil {
		return nil, nil, err
	}
	action, err := am.ParseAction(c.action)
	if err != nil {
		return nil, nil, err
	}
	o := service.ActionOptions{Call: common}
	if action == am.ActionUpdateUsers {
		if _, ok := c.options.get("geni_users"); !ok {
			return nil, nil, badOption("geni_users", "%s needs it: an array of structs with urn and keys", action)
		}
		if o.Users, err = c.options.users(); err != nil {
			return nil, nil, err
		}
	}
	return c.array(c.api.agg.PerformOperationalAction(ctx, c.grant, c.targets, action, o))
}

func deleteSlivers(ctx context.Context, c *call) (xmlrpc.Value, []string, error) {
	common, err := c.common()
	if err != nil {
		return nil, nil, err
	}
	return c.array(c.api.agg.Delete(ctx, c.grant, c.targets, common))
}

func shutdown(ctx context.Context, c *call) (xmlrpc.Value, []string, error) {
	common, err := c.common()
	if err != nil {
		return nil, nil, err
	}
	return true, nil, c.api.agg.Shutdown(ctx, c.grant, c.targets.Slice, common)
}

// array is the value of the methods that answer slivers alone.
func (c *call) array(out service.Outcome, err error) (xmlrpc.Value, []string, error) {
	if err != nil {
		return nil, nil, err
	}
	c.note(out)
	return slivers(out, false), out.Notices, nil
}

// withManifest is the value of the methods that answer an RSpec, too.
func (c *call) withManifest(out service.Outcome, err error, compressed bool) (xmlrpc.Value, []string, error) {
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
		{Name: "geni_slivers", Value: slivers(out, true)},
	}, out.Notices, nil
}
