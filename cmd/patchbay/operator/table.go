package operator

import (
	"fmt"
	"io"
	"strings"
	"time"

	"patchbay/am/urn"
	"patchbay/cmd/patchbay/command"
)

// listTable is a table of what a site holds.
type listTable struct {
	command.Table
	now  time.Time // the site's time
	urns bool      // print whole URNs
}

func newTable(w io.Writer, o *listOptions, now time.Time) *listTable {
	return &listTable{command.Table{Out: w, Dash: true, Wide: o.Wide}, now, o.URNs}
}

// name returns the name in a URN, or the whole URN with --urns.
func (t *listTable) name(u urn.URN) string {
	if t.urns {
		return u.String()
	}
	return t.Cut(u.Name, 40)
}

// list returns at most three names, unless the table is wide.
func (t *listTable) list(all []urn.URN) string {
	const most = 3
	var names []string
	for i, u := range all {
		if i == most && !t.Wide {
			names = append(names, fmt.Sprintf("%d more", len(all)-most))
			break
		}
		names = append(names, t.name(u))
	}
	return strings.Join(names, ", ")
}

// sliver returns a name that commands accept: SLICE/CLIENT_ID or the URN.
func (t *listTable) sliver(sliver, slice urn.URN, clientID string) string {
	if t.urns || clientID == "" {
		return sliver.String()
	}
	return t.Cut(slice.Name, 30) + "/" + t.Cut(clientID, 30)
}

// when returns "" for the zero time.
func (t *listTable) when(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return command.TimeAndDistance(at, t.now)
}

// end marks the lease of a frozen sliver. Such a lease cannot end before the slice is
// thawed.
func (t *listTable) end(at time.Time, frozen bool) string {
	if frozen && !at.IsZero() {
		return "kept; " + t.when(at)
	}
	return t.when(at)
}

// component returns the name, or the URN with --urns.
func (t *listTable) component(u urn.URN, name string) string {
	if t.urns && !u.IsZero() {
		return u.String()
	}
	return t.Cut(name, 40)
}
