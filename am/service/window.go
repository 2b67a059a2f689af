package service

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"patchbay/am"
	"patchbay/rspec"
)

// setWindows sets a.window and a.windows: a node has the time of its lease, and other nodes have that of the call. All
// nodes are bound for the whole time of the request, and each sliver holds its own part. So at each time, the tag of a
// link is held by those of its nodes that exist. now is the present.
//
// Errors: those of newWindow; BadArgs for a lease that has ended, or that differs from the options of the call.
func (a *attempt) setWindows(now time.Time) (err error) {
	a.windows = nil
	if a.window, err = a.newWindow(now, a.options.StartTime, a.options.EndTime); err != nil {
		return err
	}
	nodes := a.request.Nodes
	if !slices.ContainsFunc(nodes, func(n rspec.Node) bool { return n.Lease != nil }) {
		return nil
	}
	byLease := map[*rspec.Lease]window{nil: a.window}
	for i := range nodes {
		l := nodes[i].Lease
		w, ok := byLease[l]
		if !ok {
			if w, err = a.leaseWindow(now, l); err != nil {
				return err
			}
			byLease[l] = w
		}
		a.windows = append(a.windows, w)
	}
	a.window = a.windows[0]
	for _, w := range a.windows[1:] {
		a.window.isAhead = a.window.isAhead && w.isAhead
		if a.window.until = am.LaterOf(a.window.until, w.until); w.from.Before(a.window.from) {
			a.window.from = w.from
		}
	}
	return nil
}

// leaseWindow returns the window of the nodes that refer to the lease l.
func (a *attempt) leaseWindow(now time.Time, l *rspec.Lease) (window, error) {
	name := fmt.Sprintf("line %d: the lease %.80q", l.Line, l.Name)
	o := a.options
	if !o.StartTime.IsZero() && !o.StartTime.Equal(l.From) || !o.EndTime.IsZero() && !o.EndTime.Equal(l.Until) {
		return window{}, am.Errorf(am.BadArgs, "%s is from %s until %s, and the options of the call have other times; leave out geni_start_time and geni_end_time", name, l.From.Format(time.RFC3339), l.Until.Format(time.RFC3339))
	}
	if !l.Until.After(now) {
		return window{}, am.Errorf(am.BadArgs, "%s ended at %s; write a later valid_from and valid_until", name, l.Until.Format(time.RFC3339)).With(am.OutOfRange)
	}
	w, err := a.newWindow(now, l.From, l.Until)
	if e, ok := errors.AsType[*am.Error](err); ok {
		e.Msg = name + ": " + e.Msg
	}
	return w, err
}

// windowOf returns the window of node number i of the request.
func (a *attempt) windowOf(i int) *window {
	if a.windows == nil {
		return &a.window
	}
	return &a.windows[i]
}

// windowNotices returns the remarks on ends that were capped, each once.
func (a *attempt) windowNotices() (texts []string) {
	for i := range a.slivers {
		if text := a.windowOf(i).notice(); text != "" && !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return texts
}
