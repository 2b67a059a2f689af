package api

import (
	"context"

	"patchbay/am/api/xmlrpc"
	"patchbay/am/service"
)

// This file has the handlers of AM API v2, whose calls are about whole slices.

func listResources2(ctx context.Context, c *call) (xmlrpc.Value, []string, error) {
	if c.slice.IsZero() {
		return listResources(ctx, c)
	}
	return handlerOf(describe, manifest)(ctx, c)
}

func createSliver(ctx context.Context, c *call) (service.Outcome, error) {
	return c.api.agg.CreateSliver(ctx, c.grant, c.targets.Slice, c.parsed, service.ProvisionOptions{Call: c.serviceCall(), StartTime: c.startTime, EndTime: c.endTime, Users: c.users})
}

// renewSliver returns the new end of the lease as output if geni_extend_alap is set.
func renewSliver(ctx context.Context, c *call) (service.Outcome, error) {
	out, err := renew(ctx, c)
	if err == nil && c.asLongAsPossible {
		out.Notices = []string{FormatTime(earliest(out))} // nothing else, because clients parse it as a time
	}
	return out, err
}

func sliverStatus(ctx context.Context, c *call) (service.Outcome, error) {
	return c.api.agg.SliverStatus(ctx, c.grant, c.targets.Slice)
}

func sliverStatus2(_ *call, out service.Outcome) xmlrpc.Value {
	resources := make([]xmlrpc.Value, len(out.Slivers))
	states := make([]string, len(out.Slivers))
	t := newDetailWriter()
	for i := range out.Slivers {
		r := &out.Slivers[i]
		states[i] = status2(r.Status, out.Shutdown)
		resources[i] = t.add(append(xmlrpc.Struct{
			{Name: "geni_urn", Value: r.URN.String()},
			{Name: "geni_status", Value: states[i]},
			{Name: "geni_error", Value: oneLine(r.Error)},
			{Name: "geni_client_id", Value: r.ClientID},
			{Name: "geni_expires", Value: FormatTime(r.Expires)},
		}, windowOf(r)...), r)
	}
	expires := FormatTime(earliest(out))
	return xmlrpc.Struct{
		{Name: "geni_urn", Value: out.Slice.String()},
		{Name: "geni_status", Value: overall(states)},
		{Name: "geni_resources", Value: resources},
		{Name: "geni_expires", Value: expires},
		{Name: "pg_expires", Value: expires},
	}
}
