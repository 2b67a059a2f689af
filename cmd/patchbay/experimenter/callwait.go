package experimenter

import (
	"context"
	"fmt"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/client"
	"patchbay/am/client/experiment"
	"patchbay/am/display"
	"patchbay/cmd/patchbay/command"
)

// wantedStates are the final states of slivers, by method or action.
var wantedStates = map[string]client.Wanted{
	"Provision": client.Made, "CreateSliver": client.Running, "Delete": client.Gone, "DeleteSliver": client.Gone,
	"geni_start": client.Running, "geni_restart": client.Running, "geni_stop": client.Stopped,
	"geni_update_users": {am.Ready, am.NotReady}, string(am.ActionSetup): {am.Ready, am.NotReady},
}

// wanted returns nil without --wait. It fails if --wait does not support the call.
func (o *callOptions) wanted(r *callRequest) (client.Wanted, error) {
	if !o.Wait {
		return nil, nil
	}
	for _, what := range []string{r.method, r.action()} {
		if wanted, ok := wantedStates[what]; ok {
			return wanted, nil
		}
	}
	return nil, fmt.Errorf("--wait goes with Provision, start, stop, restart, update_users, setup, Delete, CreateSliver and DeleteSliver, not with %s", strings.Join(append([]string{o.method}, r.args...), " "))
}

// wait waits until all slivers of the call have wanted states, and prints each change. It returns the
// reply that describes them, or the reply of the call if the slivers are deleted.
func (o *callOptions) wait(ctx context.Context, c command.Console, manager *client.Client, r *callRequest, wanted client.Wanted, reply client.Reply) (client.Reply, error) {
	if o.flags.Changed("timeout") {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.Timeout, fmt.Errorf("the state was not reached within %s (--timeout); the site continues", o.Timeout))
		defer cancel()
	}
	_, slivers := r.targets()
	query := callRequest{api: r.api, method: "Status", args: slivers, me: r.me, now: r.now}
	if r.api == 2 {
		query.method = "SliverStatus"
	}
	params, err := query.params()
	if err != nil {
		return reply, err
	}
	status := func(ctx context.Context) ([]client.Sliver, error) {
		reply, err := manager.Call(ctx, query.method, params...)
		if err == nil && reply.Code != am.SearchFailed { // that means: no slivers are left
			err = reply.Err()
		}
		return sliversOf(reply), err
	}
	start, last := time.Now(), ""
	_, err = client.Wait(ctx, status, wanted, func(list []client.Sliver) {
		if now := formatSliverStates(list); now != last {
			fmt.Fprintf(c.Err, "[%.1fs] %s\n", time.Since(start).Seconds(), now)
			last = now
		}
	})
	if err != nil || len(wanted) == 0 { // client.Gone
		return reply, err
	}
	if r.api == 3 {
		query.method = "Describe"
		if params, err = query.params(); err != nil {
			return reply, err
		}
	}
	if reply, err = manager.Call(ctx, query.method, params...); err != nil {
		return reply, err
	}
	return reply, reply.Err()
}

func sliversOf(reply client.Reply) (list []client.Sliver) {
	for _, s := range readValue(reply.Value).slivers {
		state := memberText(s, "geni_operational_status")
		if state == "" { // version 2
			state = "geni_" + memberText(s, "geni_status")
		}
		services, _ := client.ParseServices(s) // --json shows malformed ones
		list = append(list, client.Sliver{URN: sliverURN(answer{}, s), ClientID: memberText(s, "geni_client_id"), Operational: state, Error: memberText(s, "geni_error"), Plan: client.PlanIn(memberText(s, "geni_resource_status")), Services: services})
	}
	return list
}

// formatSliverStates returns a text such as "2 configuring, 1 ready; stage 2 of 3, 4 of 6 nodes", or
// "gone" without slivers.
func formatSliverStates(list []client.Sliver) string {
	counts := map[string]int{}
	for _, s := range list {
		counts[display.Line(strings.TrimPrefix(s.Operational, "geni_"))]++
	}
	if len(counts) == 0 {
		return "gone"
	}
	return strings.TrimSuffix(command.FormatStates(counts)+"; "+experiment.Plans(list), "; ")
}
