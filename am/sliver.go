package am

import (
	"fmt"
	"net/netip"
	"time"

	"patchbay/am/urn"
)

// Slice is what this aggregate knows of an experimenter's container. It exists
// here while it has slivers or is shut down.
type Slice struct {
	URN     urn.URN
	Created time.Time
	// Serial counts the changes to the slice and its slivers; decisions about
	// the slice expect it unchanged.
	Serial int64
	// Shutdown is when the slice was frozen; zero while it is not.
	Shutdown time.Time `json:",omitzero"`
	// ShutdownBy is who froze it.
	ShutdownBy urn.URN `json:",omitzero"`
	// Bytes and Elements are the sums of those of the slice's documents.
	Bytes    int `json:",omitempty"`
	Elements int `json:",omitempty"`
}

// Sliver is one allocated resource: a reservation on a component, what was
// promised of it, and what was last seen. The record exists until the provider
// has confirmed that nothing is left, so it is the reservation, too.
type Sliver struct {
	URN   urn.URN
	Slice urn.URN
	// ClientID is the name the request gave the node.
	ClientID string
	// Ordinal is the place of the node in its request, from 0.
	Ordinal int
	// Hostname is derived from ClientID and unique in the slice.
	Hostname string
	// Document is the id of the request that asked for the sliver.
	Document string

	Component urn.URN
	// ComponentName and Provider are the component's name and that of its provider
	// when the sliver was bound: whoever made it looks after it, whatever becomes of
	// the inventory. Empty in records of earlier versions until a runner fills them in.
	ComponentName string `json:",omitempty"`
	Provider      string `json:",omitempty"`
	SliverType    string
	Image         string
	// HardwareType, ImageURN and Gateway are what manifests tell of component and
	// image; the gateway, as host:port or user@host:port, is the last one known. Empty
	// where there is none, and in records of earlier versions until they are filled in.
	HardwareType string  `json:",omitempty"`
	ImageURN     urn.URN `json:",omitzero"`
	Gateway      string  `json:",omitempty"`
	// Exclusive says that no other slice may hold a sliver on the component.
	Exclusive bool
	// Amount is what the sliver takes of the component's capacity.
	Amount Amount
	// Interfaces are what its interfaces got, in the order of the request.
	Interfaces []Interface `json:",omitempty"`
	// Setup is what to install and execute when the node is made, installs first,
	// each kind in the order of the request.
	Setup []Step `json:",omitempty"`
	// CopiedLinks are the client_ids of links at the node that the manifest shows
	// and nobody makes: those to nodes of other aggregates.
	CopiedLinks []string `json:",omitempty"`
	// PublicAddress is one of the site's public addresses; zero if it has none.
	PublicAddress netip.Addr `json:",omitzero"`

	Status  Status
	Created time.Time
	Creator urn.URN
	// Speaker is the tool that spoke for the creator; zero if none did.
	Speaker urn.URN `json:",omitzero"`
	// Request is the id of the call that reserved it.
	Request string `json:",omitempty"`
	// Expires is the end of the lease.
	Expires time.Time
	// Told is the end of the lease of whose nearness hooks were told; zero if none.
	// Those who want to know it at least ToldBefore ahead have been told.
	Told       time.Time     `json:",omitzero"`
	ToldBefore time.Duration `json:",omitempty"`
	// Wish is the end of the lease that Allocate was asked for, for Provision
	// to honour; zero if none.
	Wish time.Time `json:",omitzero"`
	// Granted is the end of the lease that an operator gave to a reservation. Provision
	// keeps to it, whatever the limits for experimenters are; zero if none did.
	Granted time.Time `json:",omitzero"`
	// AskedUntil is how long its provider may be asked whether it can make the sliver,
	// before Allocate is answered; zero when it is not.
	AskedUntil time.Time `json:",omitzero"`
	// Restored says that the reservation is from a backup: it may have been made
	// since, so it is not free before its provider has said that nothing is there.
	Restored bool `json:",omitempty"`
	// Frozen slivers belong to a slice that was shut down: they do not expire.
	Frozen bool `json:",omitempty"`

	// Generation counts the promises made; results of older ones are dropped.
	Generation int64
	Desired    Desired
	Observed   Observed `json:",omitzero"`
	// Error is what to tell the experimenter about the last thing that failed.
	Error string `json:",omitempty"`
}

// Live tells whether the sliver still belongs to its slice at time now: it is
// neither released nor past its lease. A frozen sliver stays.
func (s *Sliver) Live(now time.Time) bool {
	return s.Status.Allocation != Unallocated && (s.Frozen || now.Before(s.Expires))
}

// Desired is what methods have promised and the runner makes true.
type Desired struct {
	Present bool
	On      bool
	// RestartSerial grows by one with each restart.
	RestartSerial int       `json:",omitempty"`
	Accounts      []Account `json:",omitempty"`
}

// Account is a login name on a node, whose it is, and the SSH keys that open it.
type Account struct {
	Login string
	User  urn.URN
	Keys  []string
}

// Observed is what the provider last reported of the resource.
type Observed struct {
	// State is the provider's word: pending, changing, ready or failed.
	State   string `json:",omitempty"`
	Message string `json:",omitempty"`
	// Addresses are host addresses as text.
	Addresses []string `json:",omitempty"`
	// Logins are the doors of the node, each host:port or user@host:port.
	Logins []string `json:",omitempty"`
	// Outside is where the node appears to the network outside when it has no
	// address of its own there: each ADDRESS, or ADDRESS:FROM-TO for a range of ports.
	Outside []string `json:",omitempty"`
	// Proxy is a gateway in front of the doors, user@host:port.
	Proxy    string   `json:",omitempty"`
	HostKeys []string `json:",omitempty"`
	// Accounts are the login names that work now.
	Accounts []Account `json:",omitempty"`
	// MACs are hardware addresses by the client_id of the interface.
	MACs map[string]string `json:",omitempty"`
	// Emulators tell by what means links are made as they were asked for, by the
	// client_id of the interface.
	Emulators map[string]string `json:",omitempty"`
	// Services tell what became of Setup, in its order.
	Services []StepReport `json:",omitempty"`
}

// Amount is a quantity of a component's capacity. A zero field takes nothing;
// in a capacity it limits nothing.
type Amount struct {
	// Slots counts slivers.
	Slots int64 `json:",omitempty" yaml:"slots"`
	// Cores counts processor cores.
	Cores int64 `json:",omitempty" yaml:"cores"`
	// Memory is in MiB.
	Memory int64 `json:",omitempty" yaml:"memory"`
	// Disk is in MiB.
	Disk int64 `json:",omitempty" yaml:"disk"`
}

// Add is a + b, field by field.
func (a Amount) Add(b Amount) Amount {
	return Amount{a.Slots + b.Slots, a.Cores + b.Cores, a.Memory + b.Memory, a.Disk + b.Disk}
}

// Sub is a - b, field by field.
func (a Amount) Sub(b Amount) Amount {
	return Amount{a.Slots - b.Slots, a.Cores - b.Cores, a.Memory - b.Memory, a.Disk - b.Disk}
}

// Fits tells how many times need fits into what is left of capacity after
// used, where a zero field of capacity is no limit. The answer is at most limit.
func Fits(capacity, used, need Amount, limit int64) int64 {
	n := limit
	for _, f := range [...][3]int64{
		{capacity.Slots, used.Slots, need.Slots},
		{capacity.Cores, used.Cores, need.Cores},
		{capacity.Memory, used.Memory, need.Memory},
		{capacity.Disk, used.Disk, need.Disk},
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
	// Managers are the URNs by which it could call this aggregate; none in records of
	// earlier versions.
	Managers []urn.URN `json:",omitempty"`
	// Bytes is what it takes of its slice's manifest at most, without what the
	// manifest adds to nodes and links; Elements are its elements. Both are 0 in
	// records of earlier versions; DocumentHead of the store estimates them.
	Bytes    int `json:",omitempty"`
	Elements int `json:",omitempty"`
	Text     []byte
}

// Goal names what a task is to bring about.
type Goal string

// Goals.
const (
	GoalMake    Goal = "make"
	GoalStart   Goal = "start"
	GoalStop    Goal = "stop"
	GoalRestart Goal = "restart"
	GoalUsers   Goal = "users"
	GoalRemove  Goal = "remove"
	// GoalUndo takes away what was made of a sliver that was given up; the sliver stays.
	GoalUndo Goal = "undo"
)

// Removes tells whether the goal is that nothing is left at the provider. Such work
// is never given up.
func (g Goal) Removes() bool { return g == GoalRemove || g == GoalUndo }

// Task is work that a sliver still needs: bring it to its desired state of
// this generation. There is at most one per sliver; a newer promise replaces it.
type Task struct {
	Sliver     urn.URN
	Generation int64
	Goal       Goal
	// Attempt counts failed tries of this generation.
	Attempt int `json:",omitempty"`
	// NotBefore is when to try next.
	NotBefore time.Time `json:",omitzero"`
	Since     time.Time
	// Request is the id of the call that caused the task, for the log.
	Request string `json:",omitempty"`
}

// JournalEntry is one line of the aggregate's memory: who did what to which
// slice, and how it ended.
type JournalEntry struct {
	ID      string
	At      time.Time
	Event   string
	Request string `json:",omitempty"`
	// Method, API and Remote are the call's: its name, its version of the API and
	// the address that it came from; empty where no call did it.
	Method string  `json:",omitempty"`
	API    int     `json:",omitempty"`
	Remote string  `json:",omitempty"`
	Caller urn.URN `json:",omitzero"`
	// Speaker is the tool that spoke for the caller; zero if none did.
	Speaker urn.URN `json:",omitzero"`
	// Operator is who did it on this host; empty if a call or the aggregate did.
	Operator string `json:",omitempty"`
	// Credentials are the SHA-256 sums of the credentials that gave the right.
	Credentials []string `json:",omitempty"`
	Slice       urn.URN
	Slivers     []urn.URN `json:",omitempty"`
	Text        string    `json:",omitempty"`
	// Times is how many calls the entry is of, if it is of several that did the same
	// to the slice one after the other. Then Since is the time of the first, and all
	// else is the last call's.
	Times int       `json:",omitempty"`
	Since time.Time `json:",omitzero"`
}

// SilentText is the error of slivers whose provider has not answered since a time. It is
// shown and never stored.
func SilentText(provider string, since time.Time) string {
	return fmt.Sprintf("its provider %s has not answered since %s, so this may be out of date", provider, since.UTC().Format(time.RFC3339))
}
