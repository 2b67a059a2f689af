package operate

import (
	"fmt"
	"time"

	"patchbay/am/display"
	"patchbay/am/service/maintenance"
)

// Events of a MaintenanceOrder.
const (
	Drain             = "drain"
	Undrain           = "undrain"
	LockDown          = "lockdown"
	LiftLockdown      = "lockdown lifted"
	PlanMaintenance   = "maintenance"
	CancelMaintenance = "maintenance lifted"
)

// MaintenanceOrder is an order to change the maintenance of a site.
type MaintenanceOrder struct {
	// Event is the change, and its name in the journal.
	Event string `json:"event"`
	// Components are names of components, ranges of names and URNs, for Drain, Undrain and
	// PlanMaintenance. Without any, PlanMaintenance concerns the whole site.
	Components []string `json:"components,omitempty"`
	// Text is for experimenters, or with Drain for operators.
	Text string `json:"text,omitempty"`
	// From and Until are for PlanMaintenance.
	From  time.Time `json:"from,omitzero"`
	Until time.Time `json:"until,omitzero"`
	// Over plans maintenance although slivers that have not begun are reserved in it; they begin at its end.
	Over bool `json:"over,omitempty"`
	// Numbers are the planned maintenance to cancel, counted from 1.
	Numbers  []int  `json:"numbers,omitempty"`
	Operator string `json:"operator"`
}

// MaintenanceResult is the answer to a MaintenanceOrder.
type MaintenanceResult struct {
	// State is the state of the site after the change.
	State MaintenanceState
	// Changed has the names of the components, or one line for each lockdown or maintenance.
	Changed []string
	// Unchanged are the components that were drained, or not drained, before.
	Unchanged []string
	// Number is the number of the planned maintenance, and Window the maintenance.
	Number int                 `json:",omitempty"`
	Window *maintenance.Window `json:",omitempty"`
	// Failed is the part of the order that cannot be carried out; "" for none.
	Failed string
	// Warning says that the change is not in the journal; else "".
	Warning string
}

// MaintenanceState describes the maintenance of a site, and the slivers that it concerns.
type MaintenanceState struct {
	Lockdown *maintenance.Lockdown // nil for none
	Planned  []*maintenance.Window
	Wrong    string // error of the file's current content; "" for none
	Slices   int    // slices with provisioned slivers
	Slivers  int    // provisioned slivers
	Reserved int    // slivers that were reserved for now, and are not provisioned
	Waiting  int    // slivers that were reserved ahead, and are not provisioned
	Affected []AffectedSlice
}

// AffectedSlice is a slice with slivers that a planned maintenance affects. These slivers are on
// components of the maintenance, and are frozen or have a lease that ends after its beginning.
type AffectedSlice struct {
	Planned int // the index of the maintenance in MaintenanceState.Planned
	Slice   string
	Slivers int
	Until   time.Time // end of the last lease; zero if all these slivers are frozen
	// Begins is the first start of those that have not begun.
	Begins time.Time `json:",omitzero"`
}

func (r AffectedSlice) String() string {
	if r.Until.IsZero() {
		return fmt.Sprintf("%s: %s, shut down and kept", r.Slice, display.Count(r.Slivers, "sliver"))
	}
	begins := ""
	if !r.Begins.IsZero() {
		begins = "reserved from " + r.Begins.UTC().Format(time.RFC3339) + " "
	}
	return fmt.Sprintf("%s: %s, %suntil %s", r.Slice, display.Count(r.Slivers, "sliver"), begins, r.Until.UTC().Format(time.RFC3339))
}
