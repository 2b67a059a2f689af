package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/client"
	"patchbay/am/urn"
	"patchbay/rspec"
)

// Phase is a step of an experiment, as users see it.
type Phase string

// Phases, in their order.
const (
	Deleting     Phase = "release nodes"
	Allocating   Phase = "reserve"
	Provisioning Phase = "create nodes"
	Starting     Phase = "start nodes"
)

// Experiment is one slice at one aggregate.
type Experiment struct {
	Client *client.Client
	// Slice is the URN of the slice.
	Slice       string
	Credentials []client.Credential
	// Users get accounts on the nodes.
	Users []client.User
	// Start, if it is not zero, is the time at which what Allocate reserves begins. Then the aggregate provisions
	// and starts it by itself, with accounts for Users.
	Start time.Time
	// Progress is called when a phase begins, and then with the slivers of each
	// answer while it lasts.
	Progress func(Phase, []client.Sliver)
	// InPlace is what the aggregate can do with nodes that exist; see InPlaceOf.
	InPlace InPlace
	// Notices, if not nil, is called with the aggregate's remarks about an allocated request.
	Notices func(string)
	// File is the request as the user wrote it. If another text is sent, such as the request for a
	// source, answers lose their line numbers, and Terms, if not nil, replaces names.
	File  string
	Terms *strings.Replacer
}

// busyTimeout limits the time in which Allocate retries while components are being cleaned.
const busyTimeout = 3 * time.Minute

// Describe returns the manifest and the slivers of the slice. A slice without slivers
// is not an error. Slivers without a client_id get the client_id of their node in the manifest.
func (e *Experiment) Describe(ctx context.Context) (client.Answer, error) {
	a, _, err := e.Client.Describe(ctx, []string{e.Slice}, e.Credentials, client.Options{})
	if am.CodeOf(err) == am.SearchFailed {
		return client.Answer{}, nil
	}
	if err != nil {
		return a, err
	}
	if slices.ContainsFunc(a.Slivers, func(s client.Sliver) bool { return s.ClientID == "" }) {
		m, err := ReadManifest([]byte(a.RSpec), "")
		if err != nil {
			return a, err
		}
		names := map[string]string{}
		for _, n := range m.Nodes {
			names[n.Sliver] = n.Name
		}
		for i := range a.Slivers {
			s := &a.Slivers[i]
			s.ClientID = cmp.Or(s.ClientID, names[s.URN])
		}
	}
	return a, nil
}

// Clear deletes the slivers that a plan replaces or removes, and waits until they no longer
// exist. Call it before Allocate.
func (e *Experiment) Clear(ctx context.Context, p Plan) error {
	if urns := p.delete(); len(urns) > 0 {
		return e.Delete(ctx, urns)
	}
	return nil
}

// Changes reports whether the plan changes nodes in place or adds nodes beside them, in one call.
func (e *Experiment) Changes(p Plan) bool {
	return e.InPlace > Nothing && p.Has(Keep, ChangeInPlace) && p.Has(Add, ChangeInPlace, Replace, Remove)
}

// Preview asks the aggregate whether it would carry out a plan that deletes slivers. Others than
// those that change nodes in place are not asked, since they do not know the question.
func (e *Experiment) Preview(ctx context.Context, p Plan, request *rspec.Request, end time.Time) error {
	without := p.delete()
	if e.InPlace == Nothing || len(without) == 0 {
		return nil
	}
	text, o, err := e.allocation(p, request, end)
	if err != nil || text == "" {
		return err
	}
	o.Preview, o.Without = true, without
	_, err = e.retryBusy(ctx, text, o)
	return err
}

// allocation returns the request and the options of Allocate for a plan; "" if Allocate has nothing
// to do.
func (e *Experiment) allocation(p Plan, request *rspec.Request, end time.Time) (string, client.Options, error) {
	o := client.Options{Start: e.Start, End: end}
	if !e.Start.IsZero() {
		o.AtStart, o.Users = true, e.Users
	}
	switch {
	case e.Changes(p):
		o.Change = true
		return string(request.Text()), o, nil
	case p.Has(Add, Replace):
		text, err := request.Only(p.allocates)
		return string(text), o, err
	}
	return "", o, nil
}

// Allocate carries out a plan after Clear: it allocates the new slivers, and changes the kept ones.
// request is the new request of the plan. If end is zero, the aggregate chooses the end of leases.
func (e *Experiment) Allocate(ctx context.Context, p Plan, request *rspec.Request, end time.Time) error {
	text, o, err := e.allocation(p, request, end)
	if err != nil || text == "" {
		return err
	}
	e.Progress(Allocating, nil)
	output, err := e.retryBusy(ctx, text, o)
	if err == nil && output != "" && e.Notices != nil {
		e.Notices(output)
	}
	return err
}

// retryBusy calls Allocate, again while components are being cleaned: an aggregate is Busy if the request names
// such a component, and TooBig if all free ones are being cleaned. It returns the output.
func (e *Experiment) retryBusy(ctx context.Context, request string, o client.Options) (string, error) {
	for limit := time.Now().Add(busyTimeout); ; {
		_, reply, err := e.Client.Allocate(ctx, e.Slice, e.Credentials, request, o)
		if request != e.File {
			reply = reply.ForSource(e.Terms)
			err = cmp.Or(reply.Err(), err)
		}
		isCleaning := am.CodeOf(err) == am.Busy || am.CodeOf(err) == am.TooBig && strings.Contains(reply.Output, "being cleaned")
		if !isCleaning || time.Now().After(limit) {
			return reply.Output, err
		}
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(time.Second):
		}
	}
}

// Run provisions the allocated slivers of the slice, starts stopped ones, and waits until all are
// ready.
func (e *Experiment) Run(ctx context.Context, end time.Time) error {
	slice := []string{e.Slice}
	status := e.Client.StatusOf(slice, e.Credentials)
	list, err := status(ctx)
	if err != nil {
		return err
	}
	allocated := urnsWhere(list, func(s client.Sliver) bool { return s.Allocation == string(am.Allocated) })
	if len(allocated) > 0 {
		e.Progress(Provisioning, list)
		if _, _, err := e.Client.Provision(ctx, allocated, e.Credentials, client.Options{Users: e.Users, End: end}); err != nil {
			return err
		}
	}
	// Nodes that run steps may wait for a stage of those that are not started yet.
	settled := append(client.Wanted{am.Failed, am.Configuring}, client.Made...)
	if list, err = client.Wait(ctx, status, settled, e.progressOf(Provisioning, settled)); err != nil {
		return err
	}
	stopped := urnsWhere(list, func(s client.Sliver) bool { return s.Operational == string(am.NotReady) })
	if len(stopped) > 0 {
		e.Progress(Starting, list)
		if _, _, err := e.Client.PerformOperationalAction(ctx, stopped, e.Credentials, string(am.ActionStart), client.Options{}); err != nil {
			return err
		}
	}
	_, err = client.Wait(ctx, status, client.Running, e.progressOf(Starting, client.Running))
	return err
}

// progressOf returns a function for client.Wait. The function reports nothing if all
// slivers fulfil the condition goal from the start.
func (e *Experiment) progressOf(phase Phase, goal client.Wanted) func([]client.Sliver) {
	begun := false
	return func(list []client.Sliver) {
		begun = begun || slices.ContainsFunc(list, func(s client.Sliver) bool { return !slices.Contains(goal, am.OperationalState(s.Operational)) })
		if begun {
			e.Progress(phase, list)
		}
	}
}

func urnsWhere(list []client.Sliver, match func(client.Sliver) bool) (urns []string) {
	for _, s := range list {
		if match(s) {
			urns = append(urns, s.URN)
		}
	}
	return urns
}

// Delete deletes slivers, and waits until they no longer exist. If urns contains the URN of the
// slice, Delete deletes all its slivers. Slivers that do not exist are not an error.
func (e *Experiment) Delete(ctx context.Context, urns []string) error {
	e.Progress(Deleting, nil)
	_, _, err := e.Client.Delete(ctx, urns, e.Credentials, client.Options{})
	if am.CodeOf(err) == am.SearchFailed {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = client.Wait(ctx, e.Client.StatusOf(urns, e.Credentials), client.Gone, func(l []client.Sliver) { e.Progress(Deleting, l) })
	return err
}

// Renew sets the end of all leases of the slice, and returns the slivers with the new end.
func (e *Experiment) Renew(ctx context.Context, until time.Time) ([]client.Sliver, error) {
	list, _, err := e.Client.Renew(ctx, []string{e.Slice}, e.Credentials, until, client.Options{})
	return list, err
}

// Request is a request as ParseRequest reads it.
type Request = rspec.Request

// ParseRequest reads a request. aggregate is the URN of the aggregate. ParseRequest fails if the
// request is malformed or has no node for the aggregate; the aggregate checks the rest.
func ParseRequest(text []byte, aggregate string) (*rspec.Request, error) {
	r, err := parseFor(text, aggregate, false)
	if err != nil {
		return nil, err
	}
	if len(r.Nodes) == 0 {
		u, _ := urn.Parse(aggregate)
		return nil, errors.New(r.NoNodesReason(u))
	}
	return r, nil
}

// CheckRequest fails if text is not a valid request RSpec.
func CheckRequest(text []byte) error {
	_, err := rspec.ParseRequest(text, rspec.ReadOptions{CopyCrossLinks: true})
	return err
}

// ParseStored reads the stored request of an earlier Allocate. It returns nil if that fails.
func ParseStored(text []byte, aggregate string) *rspec.Request {
	r, err := parseFor(text, aggregate, true)
	if err != nil {
		return nil
	}
	return r
}

// parseFor reads a request for the aggregate with the given URN. The parameter stored means
// that the aggregate has accepted the request before.
func parseFor(text []byte, aggregate string, stored bool) (*rspec.Request, error) {
	u, err := urn.Parse(aggregate)
	if err != nil {
		return nil, fmt.Errorf("the aggregate sends %.200q as its URN, which is not a URN", aggregate)
	}
	return rspec.ParseRequest(text, rspec.ReadOptions{Managers: []urn.URN{u}, CopyCrossLinks: true, Stored: stored})
}
