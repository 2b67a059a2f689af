package main

import (
	"fmt"
	"io"

	"patchbay/am"
	"patchbay/am/display"
	"patchbay/am/store"
)

// maxDifferences is how many names of a kind are told.
const maxDifferences = 20

// difference is what a backup and the present state of a site do not share.
type difference struct {
	revision store.Rev // of the present state
	slices   []string  // that the backup has not; all are as people are told of them
	slivers  []string  // the same
	changed  []string  // slivers of both that have changed since
	back     []string  // slivers of the backup that are gone since
	lifted   []string  // slices of both that have been shut down since
}

// differenceOf compares what would be restored with the present state.
func differenceOf(r *store.Restoration, present *store.Store) (d difference, err error) {
	slices, slivers := map[string]bool{}, map[string]bool{} // slices: whether they are shut down
	err = r.Read(func(v *store.View) error {
		if err := v.Slices(func(s am.Slice) bool { slices[s.URN.Key()] = !s.Shutdown.IsZero(); return true }); err != nil {
			return err
		}
		return v.Slivers(func(s am.Sliver) bool { slivers[s.URN.Key()] = true; return true })
	})
	if err != nil {
		return d, err
	}
	there := map[string]bool{}
	err = present.Read(func(v *store.View) error {
		d.revision = v.Revision()
		err := v.Slices(func(s am.Slice) bool {
			switch down, has := slices[s.URN.Key()]; {
			case !has:
				d.slices = append(d.slices, s.URN.String())
			case !down && !s.Shutdown.IsZero():
				d.lifted = append(d.lifted, s.URN.String())
			}
			return true
		})
		if err != nil {
			return err
		}
		return v.Slivers(func(s am.Sliver) bool {
			there[s.URN.Key()] = true
			switch {
			case !slivers[s.URN.Key()]:
				d.slivers = append(d.slivers, sliverLine(&s))
			case v.Rev(store.SliverKey(s.URN)) > r.Report.Revision:
				d.changed = append(d.changed, sliverLine(&s))
			}
			return true
		})
	})
	if err != nil {
		return d, err
	}
	err = r.Read(func(v *store.View) error {
		return v.Slivers(func(s am.Sliver) bool {
			if !there[s.URN.Key()] {
				d.back = append(d.back, sliverLine(&s))
			}
			return true
		})
	})
	return d, err
}

// sliverLine tells what a sliver is, and whom it hurts if it is lost.
func sliverLine(s *am.Sliver) string {
	on := s.ComponentName
	if on == "" {
		on = s.Component.Name
	}
	line := fmt.Sprintf("%s/%s on %s, of %s, ", s.Slice.Name, s.ClientID, on, s.Creator)
	switch {
	case s.Status.Allocation == am.Unallocated:
		line += "released"
	case s.Frozen:
		line += "shut down"
	default:
		line += "until " + display.Time(s.Expires)
	}
	return display.Line(line)
}

// loses tells whether somebody would miss something.
func (d *difference) loses() bool {
	return len(d.slices)+len(d.slivers)+len(d.changed)+len(d.back)+len(d.lifted) > 0
}

func (d *difference) print(w io.Writer) {
	for _, x := range []struct {
		names []string
		what  string
	}{
		{d.slices, "would be forgotten, slices that the backup has not"},
		{d.slivers, "would be forgotten, slivers that the backup has not"},
		{d.changed, "would be as they were, slivers that have changed since"},
		{d.back, "would be back, slivers that have been released since"},
		{d.lifted, "would be their users' again, with what was on, slices that have been shut down since"},
	} {
		if len(x.names) == 0 {
			continue
		}
		fmt.Fprintf(w, "%d %s:\n", len(x.names), x.what)
		for _, name := range x.names[:min(len(x.names), maxDifferences)] {
			fmt.Fprintf(w, "  %s\n", name)
		}
		if n := len(x.names) - maxDifferences; n > 0 {
			fmt.Fprintf(w, "  and %d more\n", n)
		}
	}
}
