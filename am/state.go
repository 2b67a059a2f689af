package am

import "slices"

// AllocationState is the state of a sliver's reservation; the value is the wire word.
type AllocationState string

// Allocation states (AM API v3, "Sliver allocation states").
const (
	Unallocated AllocationState = "geni_unallocated"
	Allocated   AllocationState = "geni_allocated"
	Provisioned AllocationState = "geni_provisioned"
)

// OperationalState is the state of a sliver's resource; the value is the wire word.
type OperationalState string

// Operational states (AM API v3, "Sliver operational states").
const (
	PendingAllocation OperationalState = "geni_pending_allocation"
	NotReady          OperationalState = "geni_notready"
	Configuring       OperationalState = "geni_configuring"
	Ready             OperationalState = "geni_ready"
	Stopping          OperationalState = "geni_stopping"
	UpdatingUsers     OperationalState = "geni_updating_users"
	Failed            OperationalState = "geni_failed"
)

// Status is the pair of states that a sliver is in.
type Status struct {
	Allocation  AllocationState
	Operational OperationalState
}

// Event is a cause of a transition from one status to another: a method, an operational
// action, or an observation of the runner.
type Event string

// Events. Events with a geni_ name are the operational actions on the wire.
const (
	EventAllocate  Event = "Allocate"
	EventProvision Event = "Provision"
	EventChange    Event = "change"
	EventRenew     Event = "Renew"
	EventDelete    Event = "Delete"
	EventExpire    Event = "lease over"
	EventShutdown  Event = "Shutdown"

	ActionStart             Event = "geni_start"
	ActionRestart           Event = "geni_restart"
	ActionStop              Event = "geni_stop"
	ActionUpdateUsers       Event = "geni_update_users"
	ActionUpdateUsersCancel Event = "geni_updating_users_cancel"
	ActionSetup             Event = "patchbay_setup"

	EventDone   Event = "done"    // the task succeeded
	EventGaveUp Event = "gave up" // the runner makes no more attempts
	EventLost   Event = "lost"    // a resource that existed has disappeared or failed
)

// Events of the journal that change no status: a stage of a plan has ended on all nodes, and a step
// of a sliver has failed.
const (
	EventStageEnded = "setup stage ended"
	EventStepFailed = "setup step failed"
)

// IsAction reports whether clients can request the event as an operational action.
func (e Event) IsAction() bool { return slices.Contains(Actions, e) }
