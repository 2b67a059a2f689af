package am

import (
	"fmt"
	"net/netip"
	"time"

	"patchbay/am/urn"
	"patchbay/rspec/step"
)

// Slice is this aggregate's record of an experimenter's slice. The record exists
// while the slice has slivers here or is shut down.
type Slice struct {
	URN     urn.URN
	Created time.Time
	// Serial counts the changes to the slice and its slivers. It is in the slice's record, so
	// a decision that has read the record runs again after a change.
	Serial int64
	// Shutdown is the time when the slice was frozen; zero while it is not.
	Shutdown time.Time `json:",omitzero"`
	// ShutdownBy is the user who froze the slice, or ShutdownOperator the operator.
	ShutdownBy       urn.URN `json:",omitzero"`
	ShutdownOperator string  `json:",omitempty"`
	// Bytes and Elements are the sums of these fields of the slice's documents.
	Bytes    int `json:",omitempty"`
	Elements int `json:",omitempty"`
	// Definitions are the ids of documents without slivers, whose templates define what later
	// requests refer to. They exist while the slice has slivers, and at least until DefinedUntil.
	Definitions  []string  `json:",omitempty"`
	DefinedUntil time.Time `json:",omitzero"`
}

// ProjectOf returns the project of a slice: the authority in its URN. The trial authority, too, gives each project an authority
// of its own.
func ProjectOf(slice urn.URN) string { return slice.Authority }

// Sliver is one allocated resource: the reservation of a component, its desired state, and the
// state that was last observed. The record exists, and the component stays reserved, until the
// provider has confirmed that no part of the resource is left.
type Sliver struct {
	URN   urn.URN
	Slice urn.URN
	// ClientID is the node's name in its request.
	ClientID string
	// Ordinal is the place of the node in its request, from 0.
	Ordinal int
	// Hostname is derived from ClientID or a DNS name, and unique in the slice.
	Hostname string
	// DNSName is the requested DNS name whose first part is Hostname; empty if there is none.
	DNSName string `json:",omitempty"`
	// Document is the id of the request document with the node.
	Document string

	Component urn.URN
	// ComponentName and Provider are the names of the component and its provider when
	// the sliver was bound. That provider stays responsible for the sliver when the
	// inventory changes. Both are empty in records of earlier versions until they are filled in.
	ComponentName string `json:",omitempty"`
	Provider      string `json:",omitempty"`
	SliverType    string
	Image         string
	// HardwareType, ImageURN and Gateway are copies from the inventory for manifests. Gateway is
	// the last known gateway, as host:port or user@host:port. A field is empty if the sliver has no
	// such value, and in a record of an earlier version until it is filled in.
	HardwareType string  `json:",omitempty"`
	ImageURN     urn.URN `json:",omitzero"`
	Gateway      string  `json:",omitempty"`
	// Exclusive means that no other slice may hold a sliver on the component.
	Exclusive bool
	// Amount is the part of the component's capacity that the sliver takes.
	Amount Amount
	// Features are the values that the node's constraints got.
	Features []Feature `json:",omitempty"`
	// Interfaces are in the order of the request.
	Interfaces []Interface `json:",omitempty"`
	// Setup lists the steps of the node in the order of step.Plan.
	Setup []step.Step `json:",omitempty"`
	// SetupLimit is the longest time from the first node that is ready for steps to the end of
	// the plan; 0: the default.
	SetupLimit time.Duration `json:",omitempty"`
	// System is the name of the node in the source of its request, and Number counts the nodes of
	// that name. Without a source, System is empty and Number is Ordinal.
	System string `json:",omitempty"`
	Number int    `json:",omitempty"`
	// IsMaster marks the master of the slice's playbooks.
	IsMaster bool `json:",omitempty"`
	// Added means that a change of the slice added the sliver: the plan of its document waits until
	// it is provisioned.
	Added bool `json:",omitempty"`
	// SetupBegan is the time when the plan of the sliver's document began, or when
	// patchbay_setup continued it; zero before, and when the plan has ended.
	SetupBegan time.Time `json:",omitzero"`
	// SetupDone means that the plan has ended once, and the journal says so.
	SetupDone bool `json:",omitempty"`
	// SetupStopped is the reason why no further steps of the plan run; empty if they do.
	SetupStopped string `json:",omitempty"`
	// CopiedLinks are the client_ids of the node's links to nodes of other aggregates:
	// the manifest shows them, but no link is created.
	CopiedLinks []string `json:",omitempty"`
	// PublicAddress is the sliver's public address, one of the site's; zero if the sliver has
	// none.
	PublicAddress netip.Addr `json:",omitzero"`

	Status  Status
	Created time.Time
	Creator urn.URN
	// Speaker is the tool that called on behalf of the creator; zero if there was none.
	Speaker urn.URN `json:",omitzero"`
	// Request is the id of the call that reserved the sliver.
	Request string `json:",omitempty"`
	// Expires is the time at which the sliver is released if no call prolongs it: the end of the lease, and for a
	// reservation that is not provisioned, the time until which it waits for Provision.
	Expires time.Time
	// The sliver holds its component from Begins until Ends. Begins is zero if it began when it was
	// reserved. Begun means that the aggregate has begun the sliver; until then, it does not expire before Ends.
	Begins time.Time `json:",omitzero"`
	Ends   time.Time `json:",omitzero"`
	Begun  bool      `json:",omitempty"`
	// AutoProvision means that the sliver is provisioned when it begins, with the accounts of Desired.
	AutoProvision bool `json:",omitempty"`
	// Asked means that the request allows no other component, or only together with other nodes.
	Asked bool `json:",omitempty"`
	// NotifiedEnd is the end of the lease in the last notice to hooks; zero if there was no
	// notice. The notice went to all hooks that ask for a notice NotifiedBefore or longer
	// before the end.
	NotifiedEnd    time.Time     `json:",omitzero"`
	NotifiedBefore time.Duration `json:",omitempty"`
	// RequestedEnd is the end of the lease that the Allocate call requested; zero if it
	// requested none. Provision uses it.
	RequestedEnd time.Time `json:",omitzero"`
	// Granted is the end of the lease that an operator set for a reservation; zero if no
	// operator set one. Provision keeps it even beyond the limits for experimenters.
	Granted time.Time `json:",omitzero"`
	// ProbedUntil is the time when the sliver's dry run ends at the latest; zero if no dry run
	// is in progress. In a dry run, the provider checks whether it can create the sliver.
	// Allocate returns after the dry run.
	ProbedUntil time.Time `json:",omitzero"`
	// Restored means that the record is from a backup. The sliver may have been provisioned after
	// the backup, so its component becomes free only after the provider has reported that no
	// resource exists.
	Restored bool `json:",omitempty"`
	// Frozen means that the slice was shut down. A frozen sliver does not expire.
	Frozen bool `json:",omitempty"`

	// Generation counts changes of the desired state; results for older generations are
	// dropped.
	Generation int64
	Desired    Desired
	Observed   Observed `json:",omitzero"`
	// Error describes the last failure to the experimenter.
	Error string `json:",omitempty"`
}

// TypeText names the sliver's type for lists: with the hardware type if it has the component alone.
func (s *Sliver) TypeText() string {
	if s.Exclusive && s.HardwareType != "" && s.HardwareType != s.SliverType {
		return s.SliverType + " " + s.HardwareType
	}
	return s.SliverType
}

// Live reports whether the sliver still belongs to its slice at the time now. A released sliver
// does not. A sliver with an ended lease does only if it is frozen.
func (s *Sliver) Live(now time.Time) bool {
	return s.Status.Allocation != Unallocated && (s.Frozen || now.Before(s.ReleaseTime()))
}

// Start returns the time at which the sliver began or begins.
func (s *Sliver) Start() time.Time { return LaterOf(s.Created, s.Begins) }

// Waits reports whether the sliver has not begun yet.
func (s *Sliver) Waits() bool {
	return !s.Begins.IsZero() && !s.Begun && s.Status.Allocation != Unallocated
}

// ReleaseTime returns the time at which the sliver is released if nothing changes: Expires, or Ends until it has begun. A
// reservation that no dry run has confirmed yet ends at Expires.
func (s *Sliver) ReleaseTime() time.Time {
	if s.Waits() && s.ProbedUntil.IsZero() {
		return s.Ends
	}
	return s.Expires
}

// SetEnd sets the end of the lease.
func (s *Sliver) SetEnd(t time.Time) { s.Expires, s.Ends = t, t }

// Desired is the state that calls have requested. The runner reconciles the resource with it.
type Desired struct {
	Present bool
	On      bool
	// RestartSerial grows by one with each restart.
	RestartSerial int `json:",omitempty"`
	// ChangeSerial grows by one with each change of Interfaces or Setup of a provisioned sliver.
	ChangeSerial int       `json:",omitempty"`
	Accounts     []Account `json:",omitempty"`
	// Stage is the highest stage of Setup that may run. The runner raises it when the stage
	// before has ended on all nodes of the document. It is -1 at the lowest.
	Stage int `json:",omitempty"`
	// Uninstall means that the steps for step.Uninstall are done before the removal.
	Uninstall bool `json:",omitempty"`
}

// Account is a login name on a node, with the user and the user's SSH keys.
type Account struct {
	Login string
	User  urn.URN
	Keys  []string
}

// Observed is the resource's state, as last reported by the provider.
type Observed struct {
	// State is the provider's word: pending, changing, ready or failed.
	State   string `json:",omitempty"`
	Message string `json:",omitempty"`
	// Addresses are host addresses as text.
	Addresses []string `json:",omitempty"`
	// Logins are the node's SSH endpoints, each host:port or user@host:port.
	Logins []string `json:",omitempty"`
	// Outside lists the addresses under which the outside network sees a node without a
	// public address: each ADDRESS, or ADDRESS:FROM-TO for a range of ports.
	Outside []string `json:",omitempty"`
	// Proxy is the gateway in front of the logins, as user@host:port.
	Proxy    string   `json:",omitempty"`
	HostKeys []string `json:",omitempty"`
	// Accounts are the login names that work now.
	Accounts []Account `json:",omitempty"`
	// MACs maps the client_id of an interface to its hardware address.
	MACs map[string]string `json:",omitempty"`
	// Emulators maps the client_id of an interface to the mechanism that shapes its link.
	Emulators map[string]string `json:",omitempty"`
	// Capabilities are items that package match parses, such as "cpu.count=8", sorted.
	Capabilities []string `json:",omitempty"`
	// Services are the results of the steps of Setup, in the same order.
	Services []StepReport `json:",omitempty"`
	// Stage is the stage that the provider knows; see Desired.Stage.
	Stage int `json:",omitempty"`
	// ChangeSerial is the change that the provider knows; see Desired.ChangeSerial.
	ChangeSerial int `json:",omitempty"`
}

// Feature is the value of one feature, such as 4 for cpu.count.
type Feature struct{ Feature, Value string }

// FoundComponent is what the nodes on a component have reported about the component.
type FoundComponent struct {
	URN            urn.URN
	Name, Provider string // the names when it was found
	// Capabilities are those of the last node that reported any; see Observed.
	Capabilities []string
}

// Amount is a quantity of a component's capacity. A zero field takes nothing. In a component's
// capacity, a zero field means no limit.
type Amount struct {
	// Slots counts slivers.
	Slots int64 `json:",omitempty" yaml:"slots"`
	// Cores counts processor cores.
	Cores int64 `json:",omitempty" yaml:"cores"`
	// GPUs counts graphics processors.
	GPUs int64 `json:",omitempty" yaml:"gpus"`
	// Memory is in MiB.
	Memory int64 `json:",omitempty" yaml:"memory"`
	// Disk is in MiB.
	Disk int64 `json:",omitempty" yaml:"disk"`
}

// Add returns a + b, field by field.
func (a Amount) Add(b Amount) Amount {
	return Amount{a.Slots + b.Slots, a.Cores + b.Cores, a.GPUs + b.GPUs, a.Memory + b.Memory, a.Disk + b.Disk}
}

// Sub returns a - b, field by field.
func (a Amount) Sub(b Amount) Amount {
	return Amount{a.Slots - b.Slots, a.Cores - b.Cores, a.GPUs - b.GPUs, a.Memory - b.Memory, a.Disk - b.Disk}
}

// Times returns n times a, field by field.
func (a Amount) Times(n int64) Amount {
	return Amount{n * a.Slots, n * a.Cores, n * a.GPUs, n * a.Memory, n * a.Disk}
}

// Fits returns how many times demand fits into capacity minus usage, but at most limit. A zero
// field of capacity is no limit.
func Fits(capacity, usage, demand Amount, limit int64) int64 {
	n := limit
	for _, f := range [...][3]int64{
		{capacity.Slots, usage.Slots, demand.Slots},
		{capacity.Cores, usage.Cores, demand.Cores},
		{capacity.GPUs, usage.GPUs, demand.GPUs},
		{capacity.Memory, usage.Memory, demand.Memory},
		{capacity.Disk, usage.Disk, demand.Disk},
	} {
		if f[0] > 0 && f[2] > 0 {
			n = min(n, max(0, f[0]-f[1])/f[2])
		}
	}
	return n
}

// Document is a request as it was received; manifests are made from it.
type Document struct {
	ID       string
	Slice    urn.URN
	Received time.Time
	// Managers are the URNs of this aggregate that the request could use; empty in
	// records of earlier versions.
	Managers []urn.URN `json:",omitempty"`
	// Bytes is the maximum size of the document's part of the slice's manifest, without the
	// parts that the manifest adds to nodes and links. Elements is the number of the document's
	// XML elements. Both are 0 in records of earlier versions; store.View.DocumentHead
	// estimates them.
	Bytes    int `json:",omitempty"`
	Elements int `json:",omitempty"`
	// Sources is the size of the sources of its templates, in bytes.
	Sources int `json:",omitempty"`
	Text    []byte
}

// Goal is the kind of change that a task makes.
type Goal string

// Goals.
const (
	GoalMake    Goal = "make"
	GoalStart   Goal = "start"
	GoalStop    Goal = "stop"
	GoalRestart Goal = "restart"
	GoalUsers   Goal = "users"
	// GoalSetup continues the setup of a node that is on.
	GoalSetup  Goal = "setup"
	GoalRemove Goal = "remove"
	// GoalUndo removes the resources of a sliver that failed; the sliver's record stays.
	GoalUndo Goal = "undo"
)

// Removes reports whether the goal is to remove everything that the sliver has at its
// provider. The runner retries such a task until it succeeds.
func (g Goal) Removes() bool { return g == GoalRemove || g == GoalUndo }

// Task is pending work: reconcile a sliver's resource with the desired state of this
// generation. A sliver has at most one task; the task of a newer generation replaces it.
type Task struct {
	Sliver     urn.URN
	Generation int64
	Goal       Goal
	// Attempt counts failed attempts of this generation.
	Attempt int `json:",omitempty"`
	// NotBefore is the earliest time of the next attempt.
	NotBefore time.Time `json:",omitzero"`
	// Since is the time at which the task was created.
	Since time.Time
	// Request is the id of the call that caused the task, for the log.
	Request string `json:",omitempty"`
}

// JournalEntry records one change of a slice: the user, the method and the result.
type JournalEntry struct {
	ID      string
	At      time.Time
	Event   string
	Request string `json:",omitempty"`
	// Method, API and Remote describe the call: its name, the version of the API and the
	// client's address. They are empty if the change was not made by a call.
	Method string  `json:",omitempty"`
	API    int     `json:",omitempty"`
	Remote string  `json:",omitempty"`
	Caller urn.URN `json:",omitzero"`
	// Speaker is the tool that called on behalf of the caller; zero if there was none.
	Speaker urn.URN `json:",omitzero"`
	// Operator is the user of this host who made the change; empty if a call or the
	// aggregate made it.
	Operator string `json:",omitempty"`
	// Credentials are the SHA-256 sums of the credentials that authorized the call.
	Credentials []string `json:",omitempty"`
	Slice       urn.URN
	Slivers     []urn.URN `json:",omitempty"`
	// Types are the types of Slivers, in their order; only in entries of reservations.
	Types []string `json:",omitempty"`
	Text  string   `json:",omitempty"`
	// Times is the number of successive identical calls that the entry stands for, or 0 for a
	// single call. If Times is not 0, Since is the time of the first call, and all other fields
	// describe the last call.
	Times int       `json:",omitempty"`
	Since time.Time `json:",omitzero"`
}

// SilentText returns the error text of a sliver whose provider has not answered since
// lastAnswer. The text appears only in answers to calls; it is never stored.
func SilentText(provider string, lastAnswer time.Time) string {
	return fmt.Sprintf("its provider %s has not answered since %s, so this may be out of date", provider, lastAnswer.UTC().Format(time.RFC3339))
}
