package hook

import (
	"slices"
	"time"
)

// Word says what happened.
type Word string

// Words. Shutdown and Thawed are about a slice, all others about a sliver.
const (
	// Allocated: the sliver is promised. A dry run that its provider refuses
	// promises nothing.
	Allocated Word = "allocated"
	// Ready: the sliver has become geni_ready; new keys of a running one do not count.
	Ready Word = "ready"
	// Failed: the sliver has become geni_failed; Event.Error is why.
	Failed Word = "failed"
	// Expiring: the sliver, which is provisioned, is near the end of its lease. It is
	// told once for each end, so again after Renew.
	Expiring Word = "expiring"
	// Released: the promise has ended, by Delete, the end of the lease or an
	// operator. What was made of it may still be there.
	Released Word = "released"
	// Shutdown: the slice is frozen.
	Shutdown Word = "shutdown"

	// Renewed: the lease of the sliver ends at another time, later or earlier; the
	// first long lease, which Provision gives, does not count.
	Renewed Word = "renewed"
	// Gone: nothing is left of a released sliver, and its component is free.
	Gone Word = "gone"
	// Thawed: a slice is not frozen any more.
	Thawed Word = "thawed"
)

// Words are all there are, in the order of a life.
var Words = []Word{Allocated, Ready, Failed, Expiring, Renewed, Shutdown, Thawed, Released, Gone}

// Usual are what a hook is told that does not say what it wants.
var Usual = []Word{Allocated, Ready, Failed, Expiring, Released, Shutdown}

// Event is what a hook gets, as one JSON object. Members are added, never taken
// away; what does not apply is absent.
type Event struct {
	// ID is this event's among those of all sites, and the same whenever it is
	// delivered again.
	ID string `json:"id"`
	// At is when it happened.
	At    time.Time `json:"at"`
	Event Word      `json:"event"`
	// Site is the authority of the site in URNs.
	Site string `json:"site,omitempty"`
	// Slice, Sliver, Component and Creator are URNs.
	Slice     string `json:"slice"`
	Sliver    string `json:"sliver,omitempty"`
	ClientID  string `json:"client_id,omitempty"`
	Component string `json:"component,omitempty"`
	Creator   string `json:"creator,omitempty"`
	// Expires is the end of the lease.
	Expires time.Time `json:"expires,omitzero"`
	// State is the state afterwards, as the AM API spells it: the operational one of
	// a provisioned sliver, else that of its allocation.
	State string `json:"state,omitempty"`
	// Error is what is wrong with the sliver.
	Error string `json:"error,omitempty"`
	// Reason is what brought it about, as the journal calls it: the method, "lease
	// over", or an operator's command.
	Reason string `json:"reason,omitempty"`
	// By is the URN of the caller, or the name of the operator; absent if the
	// aggregate did it by itself.
	By string `json:"by,omitempty"`
	// Text is what an operator gave as the reason, and what else the journal says of
	// the command.
	Text string `json:"text,omitempty"`
	// Request is the id of the call, as in the log and the audit.
	Request string `json:"request,omitempty"`
}

// wants tells whether the hook is told of w.
func (h *Hook) wants(w Word) bool {
	if len(h.Events) == 0 {
		return slices.Contains(Usual, w)
	}
	return slices.Contains(h.Events, w)
}
