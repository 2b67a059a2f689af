package api

import (
	"context"
	"strings"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/service"
	"patchbay/schemas"
)

func handlerOf(run func(context.Context, *call) (service.Outcome, error), convert func(*call, service.Outcome) xmlrpc.Value) handler {
	return func(ctx context.Context, c *call) (xmlrpc.Value, []string, error) {
		out, err := run(ctx, c)
		if err != nil {
			return nil, nil, err
		}
		c.event.Slivers = len(out.Slivers)
		if c.event.Slice.IsZero() {
			c.event.Slice = out.Slice
		}
		return convert(c, out), out.Notices, nil
	}
}

func allocate(ctx context.Context, c *call) (service.Outcome, error) {
	return c.api.agg.Allocate(ctx, c.grant, c.targets.Slice, c.parsed, service.ProvisionOptions{Call: c.serviceCall(), StartTime: c.startTime, EndTime: c.endTime, AtStart: c.atStart, Users: c.users, Change: c.change, Preview: c.preview, Without: c.without})
}

// parseRequest reserves memory until the answer is complete.
func parseRequest(ctx context.Context, c *call) error {
	release, err := c.api.agg.Memory().HoldText(c.grant.Caller().Key(), c.rspec)
	if err != nil {
		return err
	}
	c.release = append(c.release, release)
	if err := c.checkLanguage(); err != nil {
		return err
	}
	c.parsed, err = c.api.agg.Memory().Parse(ctx, c.grant.Caller().Key(), []byte(c.rspec), c.api.site.Load().reading)
	if err == nil && len(c.parsed.Findings) > 0 {
		c.event.Findings, c.event.Finding = len(c.parsed.Findings), c.parsed.Findings[0].String()
	}
	return err
}

// checkLanguage refuses sources of other languages with a hint.
func (c *call) checkLanguage() error {
	text := strings.TrimSpace(c.rspec)
	if text == "" || text[0] == '<' || c.api.cfg.Language == nil {
		return nil
	}
	language := c.api.cfg.Language([]byte(text))
	if language == "" {
		return nil
	}
	return am.Errorf(am.BadVersion, "the rspec is a text in the language %s; compile it first, such as by: patchbay compile FILE, or send it as a template, <source> of %s in an RSpec", language, schemas.Template)
}

func provision(ctx context.Context, c *call) (service.Outcome, error) {
	return c.api.agg.Provision(ctx, c.grant, c.targets, service.ProvisionOptions{Call: c.serviceCall(), EndTime: c.endTime, AtStart: c.atStart, Users: c.users})
}

func describe(ctx context.Context, c *call) (service.Outcome, error) {
	return c.api.agg.Describe(ctx, c.grant, c.targets, c.serviceCall())
}

func renew(ctx context.Context, c *call) (service.Outcome, error) {
	return c.api.agg.Renew(ctx, c.grant, c.targets, c.until, service.RenewOptions{Call: c.serviceCall(), AsLongAsPossible: c.asLongAsPossible, EndTime: c.endTime})
}

func status(ctx context.Context, c *call) (service.Outcome, error) {
	return c.api.agg.Status(ctx, c.grant, c.targets, c.serviceCall())
}

func parseAction(_ context.Context, c *call) (err error) {
	c.action, err = am.ParseAction(string(c.action))
	if err == nil && c.action == am.ActionUpdateUsers && !c.hasUsers {
		err = am.Errorf(am.BadArgs, "option geni_users is required by %s: an array of structs with urn and keys", c.action).With(am.MissingArgs)
	}
	return err
}

func performOperationalAction(ctx context.Context, c *call) (service.Outcome, error) {
	return c.api.agg.PerformOperationalAction(ctx, c.grant, c.targets, c.action, service.ActionOptions{Call: c.serviceCall(), Users: c.users})
}

func deleteSlivers(ctx context.Context, c *call) (service.Outcome, error) {
	return c.api.agg.Delete(ctx, c.grant, c.targets, c.serviceCall())
}

func shutdown(ctx context.Context, c *call) (service.Outcome, error) {
	return service.Outcome{}, c.api.agg.Shutdown(ctx, c.grant, c.targets.Slice, c.serviceCall())
}

// The following functions convert an outcome to the value of the envelope. Renew,
// PerformOperationalAction and Delete return a bare array (AM API v3).

func sliverList(_ *call, out service.Outcome) xmlrpc.Value { return slivers(out, changes) }

func reservedValue(c *call, out service.Outcome) xmlrpc.Value {
	return xmlrpc.Struct{
		{Name: "geni_rspec", Value: manifest(c, out)},
		{Name: "geni_slivers", Value: slivers(out, states)},
	}
}

func describeValue(c *call, out service.Outcome) xmlrpc.Value {
	return xmlrpc.Struct{
		{Name: "geni_rspec", Value: manifest(c, out)},
		{Name: "geni_slivers", Value: slivers(out, details)},
		{Name: "geni_urn", Value: out.Slice.String()},
	}
}

func statusValue(_ *call, out service.Outcome) xmlrpc.Value {
	return xmlrpc.Struct{
		{Name: "geni_urn", Value: out.Slice.String()},
		{Name: "geni_slivers", Value: slivers(out, details)},
	}
}

func manifest(c *call, out service.Outcome) xmlrpc.Value {
	if c.compressed {
		return compress(out.Manifest)
	}
	return string(out.Manifest)
}

func trueValue(*call, service.Outcome) xmlrpc.Value { return true }
