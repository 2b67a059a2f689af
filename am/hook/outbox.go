package hook

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
)

// maxText limits an error text in an event, in bytes.
const maxText = 2048

// Outbox returns the pure function that makes the messages for hooks from a change of the
// store; nil if there are no hooks.
func Outbox(site string, hooks []Hook) func(store.Change) []store.Message {
	if len(hooks) == 0 {
		return nil
	}
	return func(c store.Change) []store.Message {
		o := &outbox{site: site, hooks: hooks, change: c, causes: causes(c.Journal)}
		for _, x := range c.Slices {
			o.compareSlice(x)
		}
		for i := range c.Journal {
			o.postSetup(&c.Journal[i])
		}
		for _, x := range c.Slivers {
			o.compareSliver(x)
		}
		return o.posted
	}
}

type outbox struct {
	site   string
	hooks  []Hook
	change store.Change
	causes map[string]*am.JournalEntry
	posted []store.Message
}

// setupKinds are the kinds of events that are made from journal entries, by the event of the entry.
var setupKinds = map[string]Kind{am.EventStepFailed: StepFailed, am.EventStageEnded: StageEnded}

// causes leaves out entries about setups, which change no state.
func causes(journal []am.JournalEntry) map[string]*am.JournalEntry {
	m := map[string]*am.JournalEntry{}
	for i := range journal {
		e := &journal[i]
		if _, ok := setupKinds[e.Event]; ok {
			continue
		}
		m[e.Slice.Key()] = e
		for _, u := range e.Slivers {
			m[u.Key()] = e
		}
	}
	return m
}

func (o *outbox) compareSlice(x store.Diff[am.Slice]) {
	frozen := func(s *am.Slice) bool { return s != nil && !s.Shutdown.IsZero() }
	switch was, now := frozen(x.Before), frozen(x.After); {
	case now && !was:
		o.postSlice(Shutdown, x.After)
	case was && !now:
		o.postSlice(Thawed, x.Before)
	}
}

// postSetup posts the event of a journal entry about a setup.
func (o *outbox) postSetup(entry *am.JournalEntry) {
	kind, ok := setupKinds[entry.Event]
	if !ok {
		return
	}
	to := o.subscribers(kind, nil)
	if len(to) == 0 {
		return
	}
	e := Event{Slice: entry.Slice.String()}
	if kind == StepFailed {
		for _, x := range o.change.Slivers {
			if s := x.After; s != nil && slices.Contains(entry.Slivers, s.URN) {
				e = eventOf(s)
			}
		}
	}
	addCause(&e, entry)
	e.Text = shorten(entry.Text)
	o.send(to, kind, entry.Slice, e)
}

// isReserved reports whether the sliver is reserved: it is neither in a dry run nor
// released.
func isReserved(s *am.Sliver) bool {
	return s != nil && s.Status.Allocation != am.Unallocated && s.ProbedUntil.IsZero()
}

func hasState(s *am.Sliver, states ...am.OperationalState) bool {
	return s != nil && s.Status.Allocation == am.Provisioned && slices.Contains(states, s.Status.Operational)
}

// compareSliver posts the events in the order of a sliver's life.
func (o *outbox) compareSliver(x store.Diff[am.Sliver]) {
	was, now := x.Before, x.After
	held := isReserved(was)
	if !held && isReserved(now) {
		o.postSliver(Allocated, now)
	}
	if hasState(now, am.Ready) && !hasState(was, am.Ready, am.UpdatingUsers) {
		o.postSliver(Ready, now)
	}
	if hasState(now, am.Failed) && !hasState(was, am.Failed) {
		o.postSliver(Failed, now)
	}
	if held && isReserved(now) && now.Status.Allocation == was.Status.Allocation && !now.Expires.Equal(was.Expires) {
		o.postSliver(Renewed, now)
	}
	if isReserved(now) && isNotified(now) && !(was != nil && was.NotifiedEnd.Equal(now.NotifiedEnd) && was.NotifiedBefore == now.NotifiedBefore) {
		o.expiring(was, now)
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

// isNotified reports whether a hook was notified of the end of the current lease.
func isNotified(s *am.Sliver) bool { return !s.NotifiedEnd.IsZero() && s.NotifiedEnd.Equal(s.Expires) }

// expiring leaves out hooks that were notified before.
func (o *outbox) expiring(was, now *am.Sliver) {
	again := was != nil && was.NotifiedEnd.Equal(now.NotifiedEnd)
	o.post(o.subscribers(Expiring, func(h *Hook) bool {
		return h.Before >= now.NotifiedBefore && !(again && h.Before >= was.NotifiedBefore)
	}), Expiring, now)
}

func (o *outbox) postSliver(w Kind, s *am.Sliver) { o.post(o.subscribers(w, nil), w, s) }

func (o *outbox) postSlice(w Kind, s *am.Slice) {
	if to := o.subscribers(w, nil); len(to) > 0 {
		e := Event{Slice: s.URN.String()}
		addCause(&e, o.causes[s.URN.Key()])
		o.send(to, w, s.URN, e)
	}
}

// subscribers leaves out hooks for which accept returns false. A nil accept accepts all
// hooks.
func (o *outbox) subscribers(w Kind, accept func(*Hook) bool) (names []string) {
	for i := range o.hooks {
		if h := &o.hooks[i]; h.wants(w) && (accept == nil || accept(h)) {
			names = append(names, h.Name)
		}
	}
	return names
}

func (o *outbox) post(hooks []string, w Kind, s *am.Sliver) {
	if len(hooks) == 0 {
		return
	}
	e := eventOf(s)
	addCause(&e, o.causes[s.URN.Key()])
	o.send(hooks, w, s.Slice, e)
}

// eventOf returns an event about a sliver, without kind and cause.
func eventOf(s *am.Sliver) Event {
	state := string(s.Status.Allocation)
	if s.Status.Allocation == am.Provisioned {
		state = string(s.Status.Operational)
	}
	return Event{
		Slice: s.Slice.String(), Sliver: s.URN.String(), ClientID: s.ClientID, Component: s.Component.String(),
		Creator: s.Creator.String(), Expires: s.Expires.UTC(), State: state, Error: shorten(s.Error),
	}
}

// addCause does nothing if cause is nil.
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

func shorten(text string) string { return text[:min(len(text), maxText)] }

func (o *outbox) send(hooks []string, w Kind, slice urn.URN, e Event) {
	e.At, e.Event, e.Site = o.change.At.UTC(), w, o.site
	text, err := json.Marshal(e)
	if err != nil {
		panic(fmt.Sprintf("an event cannot be written: %v", err)) // impossible: it contains only texts and times
	}
	o.posted = append(o.posted, store.Message{At: e.At, Slice: slice, To: hooks, Text: text})
}

// decodeEvent makes the event's id from the message's id and content, because a store
// restored from a backup may use a message id again.
func decodeEvent(id string, m store.Message) (Event, error) {
	var e Event
	if err := json.Unmarshal(m.Text, &e); err != nil {
		return e, fmt.Errorf("event %s cannot be read: %w", id, err)
	}
	sum := sha256.Sum256(m.Text)
	e.ID = id + "-" + hex.EncodeToString(sum[:8])
	return e, nil
}
