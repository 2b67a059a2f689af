package operate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"patchbay/am/display"
)

// Taken returns the number of slivers. For a shared node, it adds the use of the fullest
// capacity in percent. If detailed is true, it adds the use of each capacity instead.
func (n *Node) Taken(detailed bool) string {
	if n.Slivers == 0 && !detailed {
		return ""
	}
	text, part := display.Count(n.Slivers, "sliver"), int64(0)
	for _, p := range []struct {
		unit           string
		used, capacity int64
	}{
		{"slots", n.Used.Slots, n.Capacity.Slots}, {"cores", n.Used.Cores, n.Capacity.Cores}, {"GPUs", n.Used.GPUs, n.Capacity.GPUs},
		{"MiB", n.Used.Memory, n.Capacity.Memory}, {"MiB disk", n.Used.Disk, n.Capacity.Disk},
	} {
		switch {
		case p.capacity <= 0 || n.Exclusive:
		case detailed:
			text += fmt.Sprintf(", %d/%d %s", p.used, p.capacity, p.unit)
		default:
			part = max(part, 100*p.used/p.capacity)
		}
	}
	if part > 0 {
		text += fmt.Sprintf(", %d%%", part)
	}
	return text
}

// Remark returns why a node is not fully available, and its orphans; "" without a
// remark.
func (n *Node) Remark() string {
	var parts []string
	if n.Drained == "inventory" {
		parts = append(parts, "drained in the inventory")
	} else if n.Drained == "command" {
		drained := "drained"
		if n.DrainedBy != "" {
			drained += " by " + n.DrainedBy
		}
		if n.DrainedText != "" {
			drained += ": " + n.DrainedText
		}
		parts = append(parts, drained)
	}
	if n.Component.IsZero() {
		parts = slices.Insert(parts, 0, "names no component: drain its new name, then undrain this")
	}
	if !n.MaintenanceUntil.IsZero() {
		parts = append(parts, fmt.Sprintf("maintenance until %s: %s", display.Time(n.MaintenanceUntil), n.MaintenanceText))
	}
	if n.Removing > 0 {
		parts = append(parts, display.Count(n.Removing, "sliver")+" being removed")
	}
	if n.Orphans > 0 {
		parts = append(parts, display.Count(n.Orphans, "orphan")+": nodes --orphans")
	}
	return strings.Join(parts, "; ")
}

// Provider is a row of the list of providers that the inventory or a sliver names.
type Provider struct {
	Name string `json:"provider"`
	// Answered is the time of its last answer, or of the first poll if it has never answered.
	Answered time.Time `json:"answered"`
	// Silent means that it has not answered for too long; Error is the error of the last poll.
	Silent bool   `json:"silent,omitempty"`
	Error  string `json:"error,omitempty"`
}

// OrphanRow describes an orphan: a resource of a provider that belongs to no sliver.
type OrphanRow struct {
	Provider  string `json:"provider"`
	Resource  string `json:"resource"`
	Component string `json:"component,omitempty"` // as the provider reports it
	Sliver    string `json:"sliver,omitempty"`    // as the provider reports it
	// Since is the time at which the server first found the orphan after the server's start.
	Since time.Time `json:"since"`
	// Released means that the orphan belonged to a sliver that this site has released.
	Released bool `json:"released_here"`
	// Holds means that the orphan's component takes no new slivers while the orphan exists.
	Holds bool `json:"holds"`
	// RemovalRequested is the time at which the removal of the orphan was last requested; zero
	// for never.
	RemovalRequested time.Time `json:"ordered,omitzero"`
}

// OrphanOrder requests the removal of orphans.
type OrphanOrder struct {
	Resources []string // as NAME or PROVIDER/NAME
	Text      string
	Operator  string
}

// OrphanResult is the result of the removal of one orphan.
type OrphanResult struct {
	Provider, Resource, Component string
	Gone                          bool   // the provider has confirmed the removal
	Wrong                         string // the provider's error; "" for none
}

// Remark says what happens to an orphan, or what it prevents; "" for nothing.
func (r *OrphanRow) Remark() string {
	switch {
	case !r.RemovalRequested.IsZero():
		return "removal requested at " + display.Time(r.RemovalRequested)
	case r.Holds:
		return "its node takes no new slivers"
	}
	return ""
}
