package service

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"patchbay/am"
	"patchbay/am/binder"
	"patchbay/am/maintenance"
	"patchbay/am/policy"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/credentials"
	"patchbay/rspec"
)

// Leases are the limits of leases. A lease never outlives the credential that
// asked for it.
type Leases struct {
	// Allocated is how long a reservation lasts that was not provisioned.
	Allocated time.Duration
	// AllocatedMax is how far Renew may prolong a reservation, from now.
	AllocatedMax time.Duration
	// Provisioned is the lease after Provision when none is asked for.
	Provisioned time.Duration
	// ProvisionedMax is the longest lease, from now.
	ProvisionedMax time.Duration
	// Margin is how far before its credential a default lease ends, so that a
	// small renewal still works.
	Margin time.Duration
}

// DefaultLeases are the leases of a site that says nothing.
var DefaultLeases = Leases{
	Allocated: 10 * time.Minute, AllocatedMax: 2 * time.Hour,
	Provisioned: 24 * time.Hour, ProvisionedMax: 30 * 24 * time.Hour,
	Margin: 10 * time.Minute,
}

// Config is what a Service is made of.
type Config struct {
	Store *store.Store
	// Index has the inventory in force, and what is free of it. See SetInventory.
	Index  *binder.Index
	Leases Leases
	// Policy says who may have what; nil lets everybody have everything.
	Policy *policy.Policy
	// GeneratedBy signs the documents we write.
	GeneratedBy string
	// EmptyDescribeNotFound answers SearchFailed to Describe of a slice without
	// slivers, instead of an empty manifest.
	EmptyDescribeNotFound bool
	// ASCIIManifests replaces a client's non-ASCII characters by references,
	// for old clients that fail on them.
	ASCIIManifests bool
	// ManifestExtensions are what manifests tell beside the core: SliverInfo,
	// VNode.
	ManifestExtensions []string
	// Reading is how requests are read; stored ones are read again without its rules.
	Reading rspec.ReadOptions
	// Wake tells the runner that there is work; it must not block.
	Wake func()
	// EndLeases ends the leases that are over and were not ended yet, and returns when
	// that is done. It is called when something is refused that they may hold. Nil has
	// callers come again.
	EndLeases func(context.Context) error
	// Silent reports whether a provider has not answered for too long, and when it last did.
	// Nil means that all answer.
	Silent func(provider string) (since time.Time, silent bool)
	// Prober asks providers before slivers are promised; nil asks nobody.
	Prober Prober
	// Settled is the revision up to which all entries of the journal have their lines
	// in the audit; entries of Renew up to there are joined if they repeat each other.
	// Nil joins none.
	Settled func() store.Rev
}

// Extensions that manifests may have beside the core.
const (
	// SliverInfo tells the life of each sliver (ExoGENI's geni_sliver_info).
	SliverInfo = "sliver-info"
	// VNode tells the physical identity of each node (Emulab's vnode).
	VNode = "vnode"
)

// Service has the methods. All may be called at the same time.
type Service struct {
	cfg     Config
	memory  *Memory
	offer   atomic.Pointer[offer]
	plan    atomic.Pointer[maintenance.Plan] // see SetPlan
	endings endings
}

// New makes a Service over opened rooms.
func New(c Config) *Service {
	if c.Leases == (Leases{}) {
		c.Leases = DefaultLeases
	}
	if c.Wake == nil {
		c.Wake = func() {}
	}
	c.Reading.Stored, c.Reading.Judge = true, false // what was accepted once stays readable
	s := &Service{cfg: c, memory: newMemory(c.Reading.Limits)}
	s.offer.Store(&offer{newAdvertiser(c.Index.Inventory(), &c), nil})
	return s
}

// Targets is what a call is about: a whole slice, or some of its slivers.
type Targets struct {
	Slice   urn.URN
	Slivers []urn.URN
}

// Call identifies the call for journal and log.
type Call struct {
	// Request is the id of the call.
	Request string
	// Method is its name, API the version of the API that it came by, and Remote
	// the address that it came from.
	Method string
	API    int
	Remote string
	// BestEffort asks for what is possible instead of all or nothing.
	BestEffort bool
}

// Report is one sliver as a method found or left it.
type Report struct {
	am.Sliver
	// Failed says why this sliver was not changed, under best effort.
	Failed string
}

// Outcome is the result of a method.
type Outcome struct {
	Slice   urn.URN
	Slivers []Report
	// Shutdown says that the slice is shut down; only SliverStatus tells.
	Shutdown bool
	// Manifest is the RSpec, for the methods that give one.
	Manifest []byte
	// Notices are remarks on what was accepted, for the experimenter.
	Notices []string
}

// largeSlice is from how many bytes of its slivers' records a slice is large: decoding
// them takes some milliseconds.
const largeSlice = 256 << 10

// commit runs a decision about the targets, and wakes the runner if it changed anything:
// there may be a task, or a lease that ends sooner than all others.
//
// In a large slice the decision runs on a view of its own first: the committer, for which
// all other changes wait, need not read the slice only to refuse. So a decision may run
// twice.
func (s *Service) commit(ctx context.Context, g credentials.Grant, t Targets, d store.Decision) error {
	err := s.cfg.Store.Read(func(v *store.View) error {
		if v.SliverBytes(t.Slice, t.Slivers) < largeSlice {
			return nil
		}
		if _, err := d(v); err != nil {
			return err
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	changed := false
	err = s.cfg.Store.CommitFor(ctx, g.Caller().Key(), func(v *store.View) (store.ChangeSet, error) {
		cs, err := d(v)
		changed = !cs.Empty()
		return cs, err
	})
	if err == nil && changed {
		s.cfg.Wake()
	}
	return err
}

// journal adds the line of a mutating call.
func journal(cs *store.ChangeSet, v *store.View, g credentials.Grant, c Call, event, text string, slice urn.URN, slivers []am.Sliver) {
	e := am.JournalEntry{
		At: v.Now().UTC(), Event: event, Request: c.Request, Method: c.Method, API: c.API, Remote: c.Remote,
		Caller: g.Caller(), Speaker: g.Speaker(), Credentials: g.Fingerprints(), Slice: slice, Text: text,
	}
	for _, x := range slivers {
		e.Slivers = append(e.Slivers, x.URN)
	}
	cs.Log(e)
}

// touch records that a slice's slivers change: it counts the slice's serial up.
func touch(cs *store.ChangeSet, v *store.View, u urn.URN) error {
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

// promise raises a sliver's generation and leaves the task that makes it true.
func promise(cs *store.ChangeSet, v *store.View, x *am.Sliver, goal am.Goal, c Call) {
	x.Generation++
	cs.PutTask(am.Task{Sliver: x.URN, Generation: x.Generation, Goal: goal, Since: v.Now().UTC(), Request: c.Request})
}
