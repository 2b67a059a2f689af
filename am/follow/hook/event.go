package hook

import (
	"slices"
	"time"

	"patchbay/am/service/lease"
)

// Kind is the kind of an event.
type Kind string

// Kinds of events. StageEnded, Shutdown and Thawed are about a slice, all others about a sliver.
const (
	// Allocated: the sliver is reserved. A refused dry run reserves nothing.
	Allocated Kind = "allocated"
	// Ready: the sliver has become geni_ready; the end of geni_update_users does not count.
	Ready Kind = "ready"
	// Failed: the sliver has become geni_failed; Event.Error is the reason.
	Failed Kind = "failed"
	// Expiring: the lease of the provisioned sliver will end soon. It is sent once for
	// each end of the lease, so again after Renew.
	Expiring Kind = "expiring"
	// Released: the reservation has ended, by Delete, the end of the lease or an operator.
	// The provider may still have to remove the resource.
	Released Kind = "released"
	// Shutdown: the slice is frozen.
	Shutdown Kind = "shutdown"

	// StepFailed: a step of the sliver's setup has failed; Event.Text names it and the reason.
	StepFailed Kind = "step_failed"
	// StageEnded: a stage of a setup has ended on all its nodes; Event.Text names it.
	StageEnded Kind = "stage_ended"
	// Renewed: the lease of the sliver has got another end, later or earlier. The change by
	// Provision does not count.
	Renewed Kind = "renewed"
	// Gone: the resource of a released sliver has been removed, and its component is free.
	Gone Kind = "gone"
	// Thawed: the slice is no longer frozen.
	Thawed Kind = "thawed"

	// Begins: the sliver has begun, which was reserved ahead.
	Begins Kind = lease.EventBegins
	// Limited: another reservation begins on the sliver's component, so the lease cannot be renewed beyond that time,
	// which Event.Text has. It is sent only for the first such reservation.
	Limited Kind = lease.EventLimited
	// NoShow: the sliver is released, because it has begun and was not provisioned in time. Released follows.
	NoShow Kind = lease.EventNoShow
)

// Kinds are all kinds of events, in the order of a sliver's life.
var Kinds = []Kind{Allocated, Begins, NoShow, Ready, Failed, StepFailed, StageEnded, Limited, Expiring, Renewed, Shutdown, Thawed, Released, Gone}

// DefaultKinds are the events for a hook that does not configure any.
var DefaultKinds = []Kind{Allocated, Ready, Failed, Expiring, Released, Shutdown}

// Event is sent to a hook as one JSON object. Members may be added but never removed;
// members that do not apply are absent.
type Event struct {
	// ID is unique among the events of all sites, and the same in each delivery.
	ID string `json:"id"`
	// At is the time of the change.
	At    time.Time `json:"at"`
	Event Kind      `json:"event"`
	// Site is the authority of the site in URNs.
	Site string `json:"site,omitempty"`
	// Slice, Sliver, Component and Creator are URNs.
	Slice     string `json:"slice"`
	Sliver    string `json:"sliver,omitempty"`
	ClientID  string `json:"client_id,omitempty"`
	Component string `json:"component,omitempty"`
	Creator   string `json:"creator,omitempty"`
	// Begins and Ends are the start and the end of a reservation ahead.
	Begins time.Time `json:"begins,omitzero"`
	Ends   time.Time `json:"ends,omitzero"`
	// Expires is the end of the lease.
	Expires time.Time `json:"expires,omitzero"`
	// State is the state after the change, as the AM API spells it: the operational state of
	// a provisioned sliver, else the allocation state.
	State string `json:"state,omitempty"`
	// Error is the sliver's error.
	Error string `json:"error,omitempty"`
	// Reason is the cause, as in the journal: the method, "lease over", or an operator's
	// command.
	Reason string `json:"reason,omitempty"`
	// By is the URN of the caller, or the name of the operator; absent if the aggregate
	// itself made the change.
	By string `json:"by,omitempty"`
	// Text is the operator's reason, with the journal's other text about the command. In
	// StepFailed, StageEnded and Limited it is the journal's text.
	Text string `json:"text,omitempty"`
	// Request is the id of the call, as in the log and the audit.
	Request string `json:"request,omitempty"`
}

func (h *Hook) wants(w Kind) bool {
	if len(h.Events) == 0 {
		return slices.Contains(DefaultKinds, w)
	}
	return slices.Contains(h.Events, w)
}
