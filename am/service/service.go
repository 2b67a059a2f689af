package service

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"patchbay/am"
	"patchbay/am/service/maintenance"
	"patchbay/am/service/policy"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/credentials"
	"patchbay/inventory"
	"patchbay/rspec"
)

// Leases are the limits of leases. A lease never outlives the credential of the call
// that requested it.
type Leases struct {
	// Allocated is the lease of a reservation that is not provisioned.
	Allocated time.Duration
	// AllocatedMax is the longest lease that Renew gives a reservation, counted from the call.
	AllocatedMax time.Duration
	// Provisioned is the lease after Provision if no end is requested.
	Provisioned time.Duration
	// ProvisionedMax is the longest lease that Provision and Renew give, counted from the
	// call.
	ProvisionedMax time.Duration
	// Margin is the minimum time between the end of a default lease and the end of the
	// credential, so that a small renewal is possible.
	Margin time.Duration
	// AheadMax is the longest time from a call to the start that it requests; 0: every reservation begins at once.
	AheadMax time.Duration
	// AheadStep is the step of the starts, counted from midnight UTC; 0 for none.
	AheadStep time.Duration
	// NoShow is how long a reservation waits for Provision after its start.
	NoShow time.Duration
	// AheadEntries is the maximum number of slivers of a project that have not begun.
	AheadEntries int
}

// DefaultLeases are the limits of a site that does not configure them.
var DefaultLeases = Leases{
	Allocated: 10 * time.Minute, AllocatedMax: 2 * time.Hour,
	Provisioned: 24 * time.Hour, ProvisionedMax: 30 * 24 * time.Hour,
	Margin:   10 * time.Minute,
	AheadMax: 30 * 24 * time.Hour, NoShow: 30 * time.Minute, AheadEntries: 2000,
}

// Config holds the parts and settings of a Service.
type Config struct {
	Store *store.Store
	// Inventory is the current inventory. See SetInventory.
	Inventory *atomic.Pointer[inventory.Inventory]
	Leases    Leases
	// Plan is the plan of maintenance until SetPlan; nil for none.
	Plan *maintenance.Plan
	// Policy limits the resources of users; nil for no limits.
	Policy *policy.Policy
	// Denied returns the reason why the operators refuse a user or a slice; nil for none. It is for reservations, at whose start
	// nobody presents a credential. It may be nil.
	Denied func(user, slice urn.URN) error
	// GeneratedBy is the attribute generated_by of the documents that the service writes.
	GeneratedBy string
	// EmptyDescribeNotFound makes Describe of a slice without slivers fail with
	// SearchFailed, instead of returning an empty manifest.
	EmptyDescribeNotFound bool
	// ASCIIManifests replaces the non-ASCII characters of requests by character references,
	// for old clients that fail on them.
	ASCIIManifests bool
	// ManifestExtensions are the enabled extensions of manifests: SliverInfo, VNode.
	ManifestExtensions []string
	// AdExtensions are the enabled extensions of advertisements: NITOS.
	AdExtensions []string
	// Reading are the options for reading stored requests. New turns off the checks of requests,
	// because stored requests were accepted before.
	Reading rspec.ReadOptions
	// Runner reconciles the slivers with the store; nil is NoRunner.
	Runner Runner
	// HasStages reports whether a provider carries out steps with stages and operations. Decisions
	// call it, so it does not wait. If it is nil, all providers do.
	HasStages func(provider string) bool
	// ChangesNodes reports whether a provider changes interfaces and steps of existing nodes; nil: all
	// do. Decisions call it.
	ChangesNodes func(provider string) bool
	// Compile compiles a template of a request. For mistakes in its source it fails with an error
	// that wraps a *rspec.RequestError. If Compile is nil, requests with templates are refused.
	Compile func(rspec.Template, Known) (rspec.Expansion, error)
	// Prober runs dry runs for reservations; nil for no dry runs.
	Prober Prober
	// URL returns the URL of the site for clients; nil if it is unknown.
	URL func() string
}

// Runner has the methods of *work.Runner that the service calls. They may be called concurrently.
type Runner interface {
	// Wake says that there is work; it does not block.
	Wake()
	// EndLeases releases the slivers whose lease has ended, and returns when that is done. The
	// service calls it when such slivers may be the reason for a refusal.
	EndLeases(context.Context) error
	// Silent reports whether a provider has not answered for too long, and the time of its last
	// answer.
	Silent(provider string) (since time.Time, silent bool)
	// LiveOutput returns the last output of a running step; "" if it is unknown.
	LiveOutput(sliver urn.URN, step int) string
}

// NoRunner is the Runner of a service whose store no runner works on. All providers count as
// answering.
type NoRunner struct{}

func (NoRunner) Wake()                           {}
func (NoRunner) EndLeases(context.Context) error { return errors.ErrUnsupported }
func (NoRunner) Silent(string) (time.Time, bool) { return time.Time{}, false }
func (NoRunner) LiveOutput(urn.URN, int) string  { return "" }

// Optional extensions of manifests.
const (
	// SliverInfo adds the state and the times of each sliver (ExoGENI's geni_sliver_info).
	SliverInfo = "sliver-info"
	// VNode adds the physical identity of each node (Emulab's vnode).
	VNode = "vnode"
)

// NITOS is an optional extension of advertisements: the times in which nodes are taken, as leases of NITOS.
const NITOS = "nitos"

// Service implements the methods of the AM API. Its methods may be called concurrently.
type Service struct {
	cfg       Config
	memory    *Memory
	offer     atomic.Pointer[offer]
	plan      atomic.Pointer[maintenance.Plan] // see SetPlan
	resumed   atomic.Pointer[time.Time]        // when the service began, or the last lockdown ended
	shown     atomic.Pointer[availability]
	showing   sync.Mutex // held while shown is replaced
	endings   endings
	free      freeCache
	waiting   atomic.Pointer[heldNames] // see waitingNames
	calendar  calendarCache
	searching sync.Mutex // held by findRoom
}

// New returns a Service for the opened store and the inventory of c.
func New(c Config) *Service {
	if c.Leases == (Leases{}) {
		c.Leases = DefaultLeases
	}
	if c.Runner == nil {
		c.Runner = NoRunner{}
	}
	c.Reading.Stored, c.Reading.CheckSchemas = true, false // an accepted request must stay readable
	s := &Service{cfg: c, memory: newMemory(c.Reading.Limits)}
	s.plan.Store(c.Plan)
	s.resume()
	s.offer.Store(&offer{newAdvertiser(c.Inventory.Load(), &c), nil})
	return s
}

// Targets are the targets of a call: the whole slice Slice, or the slivers in Slivers.
type Targets struct {
	Slice   urn.URN
	Slivers []urn.URN
}

// Call identifies a call in journal and log.
type Call struct {
	// Request is the id of the call.
	Request string
	// Method is the called method, API the version of the API, and Remote the client's
	// address.
	Method string
	API    int
	Remote string
	// BestEffort changes as many slivers as possible instead of all or none.
	BestEffort bool
}

// Report describes one sliver after a call of a method.
type Report struct {
	am.Sliver
	// Failed is the reason why a call with best effort did not change the sliver; "" if it did.
	Failed string
	// Plan describes the stage that the sliver waits for, such as "stage 2 of 3, 4 of 6 nodes"; ""
	// if it waits for none.
	Plan string
	// RenewableUntil is the latest end to which the lease can be renewed now; zero if it is not known.
	RenewableUntil time.Time
}

// Outcome is the result of a method.
type Outcome struct {
	Slice   urn.URN
	Slivers []Report
	// Shutdown means that the slice is shut down; only SliverStatus sets it.
	Shutdown bool
	// Manifest is the RSpec, for the methods that return one.
	Manifest []byte
	// Notices are remarks for the experimenter on an accepted request.
	Notices []string
}

// settings are what decisions read outside of the store, and what may change while the site is served.
type settings struct {
	inventory *inventory.Inventory
	plan      *maintenance.Plan
	rules     *policy.Rules
}

func (s *Service) settings() settings {
	return settings{s.Inventory(), s.plan.Load(), s.cfg.Policy.Rules()}
}

// commit runs the decision for the caller of g and stores its changes (see Store.CommitFor). The decision runs again
// if the settings change. If anything was changed, commit wakes the runner, because there may be a new task or an
// earlier end of a lease. It fails with ServerBusy if other calls keep changing what a long decision depends on.
func (s *Service) commit(ctx context.Context, g credentials.Grant, isShort bool, d store.Decision) error {
	changed := false
	err := s.cfg.Store.CommitFor(ctx, g.Caller().Key(), isShort, func(v *store.View) (cs store.ChangeSet, err error) {
		before := s.settings()
		cs, err = d(v)
		for err != nil && s.settings() != before { // a refusal must not depend on half of a reload
			before = s.settings()
			cs, err = d(v)
		}
		v.DependOn(func() bool { return s.settings() == before })
		changed = !cs.Empty()
		return cs, err
	})
	switch {
	case errors.Is(err, store.ErrContended):
		return &am.Error{Code: am.ServerBusy, Msg: "other calls keep changing what this call depends on; try again", Err: err}
	case err == nil && changed:
		s.cfg.Runner.Wake()
	}
	return err
}

// shortBytes is the maximum size of a request, or of the slivers in a slice, about which a decision is short.
const shortBytes = 16 << 10

// isSmall reports whether a slice has so few slivers that a decision about them is short.
func (s *Service) isSmall(slice urn.URN) (isSmall bool) {
	err := s.cfg.Store.Read(func(v *store.View) error { isSmall = v.SliverBytes(slice, nil) <= shortBytes; return nil })
	return err == nil && isSmall
}

// commitUrgent does what commit does, for decisions that end something in a slice. If others keep changing what such
// a decision depends on, it runs in the commit.
func (s *Service) commitUrgent(ctx context.Context, g credentials.Grant, slice urn.URN, d store.Decision) error {
	err := s.commit(ctx, g, !slice.IsZero() && s.isSmall(slice), d)
	if errors.Is(err, store.ErrContended) {
		if err = s.cfg.Store.Commit(ctx, d); err == nil {
			s.cfg.Runner.Wake()
		}
	}
	return err
}

// journal adds the journal entry of a call that has changed the slivers.
func journal(cs *store.ChangeSet, v *store.View, g credentials.Grant, c Call, event, text string, slice urn.URN, slivers []am.Sliver) {
	e := am.JournalEntry{
		At: v.Now().UTC(), Event: event, Request: c.Request, Method: c.Method, API: c.API, Remote: c.Remote,
		Caller: g.Caller(), Speaker: g.Speaker(), Credentials: g.Fingerprints(), Slice: slice, Text: text,
	}
	for _, x := range slivers {
		e.Slivers = append(e.Slivers, x.URN)
		if event == "Allocate" || event == "CreateSliver" {
			e.Types = append(e.Types, x.TypeText())
		}
	}
	cs.Log(e)
}

// countChange increments the serial number of a slice. Call it when slivers of the slice change.
func countChange(cs *store.ChangeSet, v *store.View, u urn.URN) error {
	slice, _, err := v.Slice(u)
	if errors.Is(err, store.ErrNotFound) {
		slice = am.Slice{URN: u, Created: v.Now().UTC()}
	} else if err != nil {
		return err
	}
	slice.Serial++
	cs.PutSlice(slice)
	return nil
}

// queueTask adds a task for the sliver, which work.(*loop).scan reads, and increments the sliver's generation. The caller
// must store the sliver.
func queueTask(cs *store.ChangeSet, v *store.View, x *am.Sliver, goal am.Goal, c Call) {
	x.Generation++
	cs.PutTask(am.Task{Sliver: x.URN, Generation: x.Generation, Goal: goal, Since: v.Now().UTC(), Request: c.Request})
}
