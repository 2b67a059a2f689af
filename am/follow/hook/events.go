package hook

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/service/lease"
	"patchbay/am/store"
	"patchbay/am/urn"
)

// maxText limits an error text in an event, in bytes.
const maxText = 2048

// changeEvent is an event of a change.
type changeEvent struct {
	// position is the event's position in the changes.
	position string
	slice    string // its key
	// isFor reports whether a hook gets the event.
	isFor func(*Hook) bool
	text  json.RawMessage // the event, without its id
}

// eventsOf returns the events that a change causes, always the same and in the same order.
func eventsOf(site string, c *store.Change) []changeEvent {
	o := &events{site: site, change: c, causes: causes(c.Journal)}
	for _, m := range c.Messages {
		o.list = append(o.list, changeEvent{m.ID, m.Slice.Key(), func(h *Hook) bool { return slices.Contains(m.To, h.Name) }, m.Text})
	}
	for _, x := range c.Slices {
		o.compareSlice(x)
	}
	for i := range c.Journal {
		o.postEntry(&c.Journal[i])
	}
	for _, x := range c.Slivers {
		o.compareSliver(x)
	}
	return o.list
}

// events collects the events of a change.
type events struct {
	site   string
	change *store.Change
	causes map[string]*am.JournalEntry
	list   []changeEvent
}

// entryKinds are the kinds of events that are made from journal entries, by the event of the entry.
var entryKinds = map[string]Kind{am.EventStepFailed: StepFailed, am.EventStageEnded: StageEnded, lease.EventLimited: Limited, lease.EventNoShow: NoShow}

// causes returns the last entry about each slice and sliver, by key, without entries that change no state.
func causes(journal []am.JournalEntry) map[string]*am.JournalEntry {
	m := map[string]*am.JournalEntry{}
	for i := range journal {
		e := &journal[i]
		if kind, ok := entryKinds[e.Event]; ok && kind != NoShow {
			continue
		}
		m[e.Slice.Key()] = e
		for _, u := range e.Slivers {
			m[u.Key()] = e
		}
	}
	return m
}

func (o *events) compareSlice(x store.Diff[am.Slice]) {
	frozen := func(s *am.Slice) bool { return s != nil && !s.Shutdown.IsZero() }
	switch was, now := frozen(x.Before), frozen(x.After); {
	case now && !was:
		o.postSlice(Shutdown, x.After)
	case was && !now:
		o.postSlice(Thawed, x.Before)
	}
}

// postEntry adds the events of a journal entry of entryKinds, one for each sliver; of StageEnded one for the slice.
func (o *events) postEntry(entry *am.JournalEntry) {
	kind, ok := entryKinds[entry.Event]
	if !ok {
		return
	}
	slivers := entry.Slivers
	if kind == StageEnded {
		slivers = []urn.URN{{}}
	}
	for _, u := range slivers {
		e := Event{Slice: entry.Slice.String()}
		if kind != StageEnded {
			e = o.eventAbout(entry.Slice, u)
		}
		addCause(&e, entry)
		e.Text = shorten(entry.Text)
		o.add(kind, entry.Slice, e, nil)
	}
}

// eventAbout returns an event about a sliver, with what the change has of it.
func (o *events) eventAbout(slice, sliver urn.URN) Event {
	for _, x := range o.change.Slivers {
		if s := cmp.Or(x.After, x.Before); s != nil && s.URN.Equal(sliver) {
			return eventOf(s)
		}
	}
	return Event{Slice: slice.String(), Sliver: sliver.String()}
}

// isReserved reports whether the sliver is reserved: it is neither in a dry run nor
// released.
func isReserved(s *am.Sliver) bool {
	return s != nil && s.Status.Allocation != am.Unallocated && s.ProbedUntil.IsZero()
}

func hasState(s *am.Sliver, states ...am.OperationalState) bool {
	return s != nil && s.Status.Allocation == am.Provisioned && slices.Contains(states, s.Status.Operational)
}

// compareSliver adds the events of a changed sliver, in the order of a sliver's life.
func (o *events) compareSliver(x store.Diff[am.Sliver]) {
	was, now := x.Before, x.After
	held := isReserved(was)
	if !held && isReserved(now) {
		o.postSliver(Allocated, now)
	}
	begins := hasBegun(was, now)
	if begins {
		o.postSliver(Begins, now)
	}
	if hasState(now, am.Ready) && !hasState(was, am.Ready, am.UpdatingUsers) {
		o.postSliver(Ready, now)
	}
	if hasState(now, am.Failed) && !hasState(was, am.Failed) {
		o.postSliver(Failed, now)
	}
	if held && isReserved(now) && !begins && now.Status.Allocation == was.Status.Allocation && !now.Expires.Equal(was.Expires) {
		o.postSliver(Renewed, now)
	}
	sameNotice := was != nil && now != nil && was.NotifiedEnd.Equal(now.NotifiedEnd) && was.NotifiedBefore == now.NotifiedBefore
	if isReserved(now) && isNotified(now) && !sameNotice {
		o.postExpiring(was, now)
	}
	if held && !isReserved(now) {
		after := *was
		if now != nil {
			after = *now
		}
		after.Status.Allocation = am.Unallocated
		o.postSliver(Released, &after)
	}
	if now == nil && (held || was.Status.Allocation == am.Unallocated) {
		after := *was
		after.Status.Allocation = am.Unallocated
		o.postSliver(Gone, &after)
	}
}

// hasBegun reports whether a sliver that was reserved ahead begins with this change.
func hasBegun(was, now *am.Sliver) bool {
	return was != nil && was.Waits() && isReserved(now) && now.Begun
}

// isNotified reports whether a hook was notified of the end of the current lease.
func isNotified(s *am.Sliver) bool { return !s.NotifiedEnd.IsZero() && s.NotifiedEnd.Equal(s.Expires) }

// postExpiring adds the notice of the end of a lease, for the hooks that have not been notified of that end before.
func (o *events) postExpiring(was, now *am.Sliver) {
	again := was != nil && was.NotifiedEnd.Equal(now.NotifiedEnd)
	after, before := now.NotifiedBefore, time.Duration(0)
	if again {
		before = was.NotifiedBefore
	}
	o.post(Expiring, now, func(h *Hook) bool { return h.Before >= after && !(again && h.Before >= before) })
}

func (o *events) postSliver(w Kind, s *am.Sliver) { o.post(w, s, nil) }

func (o *events) postSlice(w Kind, s *am.Slice) {
	e := Event{Slice: s.URN.String()}
	addCause(&e, o.causes[s.URN.Key()])
	o.add(w, s.URN, e, nil)
}

func (o *events) post(w Kind, s *am.Sliver, accept func(*Hook) bool) {
	e := eventOf(s)
	addCause(&e, o.causes[s.URN.Key()])
	o.add(w, s.Slice, e, accept)
}

// eventOf returns an event about a sliver, without kind and cause.
func eventOf(s *am.Sliver) Event {
	state := string(s.Status.Allocation)
	if s.Status.Allocation == am.Provisioned {
		state = string(s.Status.Operational)
	}
	e := Event{
		Slice: s.Slice.String(), Sliver: s.URN.String(), ClientID: s.ClientID, Component: s.Component.String(),
		Creator: s.Creator.String(), Expires: s.Expires.UTC(), State: state, Error: shorten(s.Error),
	}
	if !s.Begins.IsZero() {
		e.Begins, e.Ends = s.Begins.UTC(), s.Ends.UTC()
	}
	return e
}

// addCause sets the fields of e about what caused it; none if cause is nil.
func addCause(e *Event, cause *am.JournalEntry) {
	if cause == nil {
		return
	}
	e.Reason, e.Request, e.By = cause.Event, cause.Request, cause.Operator
	if cause.Operator != "" {
		e.Text = shorten(cause.Text)
	}
	if !cause.Caller.IsZero() {
		e.By = cause.Caller.String()
	}
}

func shorten(text string) string { return strings.ToValidUTF8(text[:min(len(text), maxText)], "") }

// add adds an event of the kind w. It is not for hooks for which accept returns false. A nil accept accepts all hooks.
func (o *events) add(w Kind, slice urn.URN, e Event, accept func(*Hook) bool) {
	e.At, e.Event, e.Site = o.change.At.UTC(), w, o.site
	text, err := json.Marshal(e)
	if err != nil {
		panic(fmt.Sprintf("an event cannot be written: %v", err)) // impossible: it contains only texts and times
	}
	position := store.Position(o.change.Rev, len(o.list))
	o.list = append(o.list, changeEvent{position, slice.Key(), func(h *Hook) bool { return h.wants(w) && (accept == nil || accept(h)) }, text})
}

// event returns the event as it is sent. It makes the id from the position and content, because a store restored from a
// backup may use a position again.
func (p *changeEvent) event() (e Event, err error) {
	if err := json.Unmarshal(p.text, &e); err != nil {
		return e, fmt.Errorf("event %s cannot be read: %w", p.position, err)
	}
	sum := sha256.Sum256(p.text)
	e.ID = p.position + "-" + hex.EncodeToString(sum[:8])
	return e, nil
}
