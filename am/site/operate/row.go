package operate

import (
	"slices"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/urn"
)

// Slice is a row of the list of slices.
type Slice struct {
	URN     urn.URN   `json:"urn"`
	Created time.Time `json:"created"`
	// Slivers counts the slivers that have neither been released nor expired.
	Slivers int `json:"slivers"`
	// States counts all slivers by state, including expired slivers and those being removed.
	States map[string]int `json:"states,omitempty"`
	// Expires is the earliest end of a lease, Last the latest; both are omitted if there are
	// no slivers.
	Expires time.Time `json:"expires,omitzero"`
	Last    time.Time `json:"last_expires,omitzero"`
	// Begins is the first start of slivers that have not begun; Waiting counts these.
	Begins  time.Time `json:"begins,omitzero"`
	Waiting int       `json:"waiting,omitempty"`
	Users   []urn.URN `json:"users,omitempty"`
	// Shutdown is the time at which the slice was shut down, ShutdownBy the user or ShutdownOperator
	// the operator who did it.
	Shutdown         time.Time `json:"shutdown,omitzero"`
	ShutdownBy       urn.URN   `json:"shutdown_by,omitzero"`
	ShutdownOperator string    `json:"shutdown_operator,omitempty"`
}

// WhoShutDown names the user or the operator who shut the slice down.
func (s *Slice) WhoShutDown() string { return whoShutDown(s.ShutdownBy, s.ShutdownOperator) }

func whoShutDown(user urn.URN, operator string) string {
	if operator != "" {
		return "operator " + operator
	}
	return user.String()
}

// Sliver is a row of the list of slivers.
type Sliver struct {
	URN      urn.URN `json:"urn"`
	Slice    urn.URN `json:"slice"`
	ClientID string  `json:"client_id"`
	// Component is the URN of the sliver's component, ComponentName its name at this site.
	Component     urn.URN `json:"component"`
	ComponentName string  `json:"component_name"`
	Provider      string  `json:"provider,omitempty"`
	SliverType    string  `json:"sliver_type"`
	Image         string  `json:"image,omitempty"`
	// State is one word for both states of the API; see StateOf.
	State       string              `json:"state"`
	Allocation  am.AllocationState  `json:"allocation"`
	Operational am.OperationalState `json:"operational"`
	Frozen      bool                `json:"frozen,omitempty"`
	Created     time.Time           `json:"created"`
	Expires     time.Time           `json:"expires"`
	// Begins and Ends are the window of a sliver that was reserved for later. Waits means that it has not begun.
	Begins  time.Time `json:"begins,omitzero"`
	Ends    time.Time `json:"ends,omitzero"`
	Waits   bool      `json:"waits,omitempty"`
	Creator urn.URN   `json:"creator"`
	Speaker urn.URN   `json:"speaker,omitzero"`
	Error   string    `json:"error,omitempty"`
	// Setup is SetupRuns or SetupFailed; "" without a setup, or when it has ended well.
	Setup string `json:"setup,omitempty"`
	// SetupOutput is the last part of the output of the failed step.
	SetupOutput string   `json:"setup_output,omitempty"`
	Addresses   []string `json:"addresses,omitempty"`
	Logins      []string `json:"logins,omitempty"`
	// Task is the goal of the sliver's unfinished task. Attempt is the number of failed attempts.
	Task    am.Goal `json:"task,omitempty"`
	Attempt int     `json:"attempt,omitempty"`
}

// Node is a row of the list of nodes.
type Node struct {
	// Component is empty for a drained name that no component has.
	Component urn.URN `json:"component"`
	Name      string  `json:"name"`
	Provider  string  `json:"provider,omitempty"`
	Exclusive bool    `json:"exclusive"`
	// State is the first of these words that applies: missing (from the inventory),
	// drained, maintenance, cleaning, held, full, used, free.
	State    string `json:"state"`
	Capacity Amount `json:"capacity"`
	// Used is the part of Capacity that slivers use, including slivers being removed.
	Used Amount `json:"used"`
	// Slivers counts all slivers on the node that have begun. Removing counts the slivers that are being removed
	// or have expired.
	Slivers  int `json:"slivers"`
	Removing int `json:"removing,omitempty"`
	// Waiting counts the slivers that have not begun, which Slivers and Used do not include.
	Waiting int `json:"waiting,omitempty"`
	// Holders are the slices that have slivers on the node; More counts the slices that are
	// not listed.
	Holders []Holder `json:"holders,omitempty"`
	More    int      `json:"more_holders,omitempty"`
	// Drained is the reason why the node is drained: "inventory", "command" or "orphans".
	Drained      string    `json:"drained,omitempty"`
	DrainedText  string    `json:"drained_text,omitempty"`
	DrainedBy    string    `json:"drained_by,omitempty"`
	DrainedSince time.Time `json:"drained_since,omitzero"`
	// MaintenanceUntil and MaintenanceText describe the current maintenance, if any.
	MaintenanceUntil time.Time `json:"maintenance_until,omitzero"`
	MaintenanceText  string    `json:"maintenance_text,omitempty"`
	// Orphans counts the provider's resources on the node that belong to no sliver. It is 0 while
	// no server runs.
	Orphans int `json:"orphans,omitempty"`
}

// Amount is the capacity of a node, or the used part of it: slivers, cores, graphics processors,
// and MiB of memory and disk. In a capacity an omitted value is unlimited.
type Amount struct {
	Slots  int64 `json:"slots,omitempty"`
	Cores  int64 `json:"cores,omitempty"`
	GPUs   int64 `json:"gpus,omitempty"`
	Memory int64 `json:"memory,omitempty"`
	Disk   int64 `json:"disk,omitempty"`
}

// Add returns a + b, field by field.
func (a Amount) Add(b Amount) Amount { return Amount(am.Amount(a).Add(am.Amount(b))) }

// Holder is a slice that has slivers on a node.
type Holder struct {
	Slice   urn.URN   `json:"slice"`
	Users   []urn.URN `json:"users,omitempty"`
	Slivers int       `json:"slivers"`
	// Expires is the latest end of a lease.
	Expires time.Time `json:"expires"`
	// Begins is the first start of its slivers that have not begun.
	Begins time.Time `json:"begins,omitzero"`
	// Frozen means that the slice was shut down, so its slivers do not expire.
	Frozen bool `json:"frozen,omitempty"`
}

// Task is a row of the list of tasks, the work of providers that is not done yet.
type Task struct {
	Sliver        urn.URN `json:"sliver"`
	Slice         urn.URN `json:"slice,omitzero"`
	ClientID      string  `json:"client_id,omitempty"`
	ComponentName string  `json:"component_name,omitempty"`
	Provider      string  `json:"provider,omitempty"`
	Goal          am.Goal `json:"goal"`
	// Attempt is the number of failed attempts. Next is the time of the next attempt; zero for a
	// task that is due.
	Attempt int       `json:"attempt"`
	Next    time.Time `json:"next,omitzero"`
	Since   time.Time `json:"since"`
	Error   string    `json:"error,omitempty"`
	Request string    `json:"request,omitempty"`
}

// Entry is a row of the journal.
type Entry struct {
	ID    string    `json:"id"`
	At    time.Time `json:"at"`
	Event string    `json:"event"`
	// Caller or Operator is the user that caused the entry. Both are empty if the aggregate
	// caused it.
	Caller   urn.URN   `json:"caller,omitzero"`
	Speaker  urn.URN   `json:"speaker,omitzero"`
	Operator string    `json:"operator,omitempty"`
	Slice    urn.URN   `json:"slice,omitzero"`
	Slivers  []urn.URN `json:"slivers,omitempty"`
	Text     string    `json:"text,omitempty"`
	Method   string    `json:"method,omitempty"`
	API      int       `json:"api,omitempty"`
	Remote   string    `json:"remote,omitempty"`
	Request  string    `json:"request,omitempty"`
	// Times is the number of successive identical calls. Since is the time of the first. Both are
	// zero for a single call.
	Times int       `json:"times,omitempty"`
	Since time.Time `json:"since,omitzero"`
}

// States of slivers for which the API has no word, or only a pair of words.
const (
	StateRemoving  = "removing"  // released; its provider has not confirmed yet
	StateExpired   = "expired"   // its lease is over; it is not released yet
	StateAllocated = "allocated" // reserved only
	StateMaking    = "making"    // provisioned, and geni_pending_allocation
)

// Values of Sliver.Setup.
const (
	SetupRuns   = "runs"
	SetupFailed = "failed"
)

// StateSetupFailed selects slivers of which a step of the setup has failed, in any state.
const StateSetupFailed = "setup_failed"

// StateSettingUp is the state of slivers in Slice.States whose setup runs.
const StateSettingUp = "setting_up"

// setupState is StateOf, except that it tells running and failed setups.
func setupState(x *am.Sliver, now time.Time) string {
	state := StateOf(x, now)
	switch {
	case hasFailedSetup(x) && (state == "ready" || state == "failed"):
		return StateSetupFailed
	case !x.SetupBegan.IsZero() && state == "configuring":
		return StateSettingUp
	}
	return state
}

func hasFailedSetup(x *am.Sliver) bool { return x.FailedStep() >= 0 || x.SetupStopped != "" }

// SliverStates are all words that StateOf returns, and StateSetupFailed.
var SliverStates = []string{
	StateAllocated, StateMaking, "notready", "configuring", "ready", "stopping", "updating_users", "failed", StateExpired, StateRemoving, StateSetupFailed,
}

// StateOf returns one word for the state of a sliver at a time.
func StateOf(x *am.Sliver, now time.Time) string {
	switch {
	case x.Status.Allocation == am.Unallocated:
		return StateRemoving
	case !x.Live(now):
		return StateExpired
	case x.Status.Allocation == am.Allocated:
		return StateAllocated
	case x.Status.Operational == am.PendingAllocation:
		return StateMaking
	}
	return strings.TrimPrefix(string(x.Status.Operational), "geni_")
}

func addUser(users []urn.URN, u urn.URN) []urn.URN {
	if u.IsZero() || slices.ContainsFunc(users, u.Equal) {
		return users
	}
	return append(users, u)
}
