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

// maxText is how much of an error an event tells, in bytes.
const maxText = 2048

// Outbox is what a store posts of each change for the hooks of a site. It is pure.
func Outbox(site string, hooks []Hook) func(store.Change) []store.Message {
	if len(hooks) == 0 {
		return nil
	}
	return func(c store.Change) []store.Message {
		o := &outbox{site: site, hooks: hooks, change: c, causes: causes(c.Journal)}
		for _, x := range c.Slices {
			o.slice(x)
		}
		for _, x := range c.Slivers {
			o.sliver(x)
		}
		return o.posted
	}
}

// outbox collects the messages of one change.
type outbox struct {
	site   string
	hooks  []Hook
	change store.Change
	causes map[string]*am.JournalEntry
	posted []store.Message
}

// causes are the journal entries by the keys of what they are about.
func causes(journal []am.JournalEntry) map[string]*am.JournalEntry {
	m := map[string]*am.JournalEntry{}
	for i := range journal {
		e := &journal[i]
		m[e.Slice.Key()] = e
		for _, u := range e.Slivers {
			m[u.Key()] = e
		}
	}
	return m
}

func (o *outbox) slice(x store.Diff[am.Slice]) {
	frozen := func(s *am.Slice) bool { return s != nil && !s.Shutdown.IsZero() }
	switch was, now := frozen(x.Before), frozen(x.After); {
	case now && !was:
		o.aboutSlice(Shutdown, x.After)
	case was && !now:
		o.aboutSlice(Thawed, x.Before)
	}
}

// promised tells whether somebody was promised the sliver: its record is neither
// there for a dry run only, nor kept until nothing is left.
func promised(s *am.Sliver) bool {
	return s != nil && s.Status.Allocation != am.Unallocated && s.ProbedUntil.IsZero()
}

func in(s *am.Sliver, states ...am.OperationalState) bool {
	return s != nil && s.Status.Allocation == am.Provisioned && slices.Contains(states, s.Status.Operational)
}

// sliver tells of one, in the order of a life.
func (o *outbox) sliver(x store.Diff[am.Sliver]) {
	was, now := x.Before, x.After
	held := promised(was)
	if !held && promised(now) {
		o.about(Allocated, now)
	}
	if in(now, am.Ready) && !in(was, am.Ready, am.UpdatingUsers) {
		o.about(Ready, now)
	}
	if in(now, am.Failed) && !in(was, am.Failed) {
		o.about(Failed, now)
	}
	if held && promised(now) && now.Status.Allocation == was.Status.Allocation && !now.Expires.Equal(was.Expires) {
		o.about(Renewed, now)
	}
	if promised(now) && told(now) && !(was != nil && was.NotifiedEnd.Equal(now.NotifiedEnd) && was.NotifiedBefore == now.NotifiedBefore) {
		o.expiring(was, now)
	}
	if held && !promised(now) {
		after := *was
		if now != nil {
			after = *now
		}
		after.Status.Allocation = am.Unallocated
		o.about(Released, &after)
	}
	if now == nil && (held || was.Status.Allocation == am.Unallocated) {
		after := *was
		after.Status.Allocation = am.Unallocated
		o.about(Gone, &after)
	}
}

// told tells whether anybody has been told that the lease will end.
func told(s *am.Sliver) bool { return !s.NotifiedEnd.IsZero() && s.NotifiedEnd.Equal(s.Expires) }

// expiring tells those hooks that wanted to know by now and have not been told.
func (o *outbox) expiring(was, now *am.Sliver) {
	again := was != nil && was.NotifiedEnd.Equal(now.NotifiedEnd)
	o.post(o.listeners(Expiring, func(h *Hook) bool {
		return h.Before >= now.NotifiedBefore && !(again && h.Before >= was.NotifiedBefore)
	}), Expiring, now)
}

func (o *outbox) about(w Word, s *am.Sliver) { o.post(o.listeners(w, nil), w, s) }

func (o *outbox) aboutSlice(w Word, s *am.Slice) {
	if to := o.listeners(w, nil); len(to) > 0 {
		e := Event{Slice: s.URN.String()}
		o.because(&e, s.URN)
		o.send(to, w, s.URN, e)
	}
}

// listeners are the hooks that want w, and of these only those that only accepts;
// nil accepts all.
func (o *outbox) listeners(w Word, only func(*Hook) bool) (to []string) {
	for i := range o.hooks {
		if h := &o.hooks[i]; h.wants(w) && (only == nil || only(h)) {
			to = append(to, h.Name)
		}
	}
	return to
}

// post tells of a sliver.
func (o *outbox) post(to []string, w Word, s *am.Sliver) {
	if len(to) == 0 {
		return
	}
	state := string(s.Status.Allocation)
	if s.Status.Allocation == am.Provisioned {
		state = string(s.Status.Operational)
	}
	e := Event{
		Slice: s.Slice.String(), Sliver: s.URN.String(), ClientID: s.ClientID, Component: s.Component.String(),
		Creator: s.Creator.String(), Expires: s.Expires.UTC(), State: state, Error: s.Error[:min(len(s.Error), maxText)],
	}
	o.because(&e, s.URN)
	o.send(to, w, s.Slice, e)
}

// because tells what brought an event about, and who.
func (o *outbox) because(e *Event, about urn.URN) {
	cause := o.causes[about.Key()]
	if cause == nil {
		return
	}
	e.Reason, e.Request, e.By = cause.Event, cause.Request, cause.Operator
	if cause.Operator != "" {
		e.Text = cause.Text[:min(len(cause.Text), maxText)]
	}
	if !cause.Caller.IsZero() {
		e.By = cause.Caller.String()
	}
}

func (o *outbox) send(to []string, w Word, slice urn.URN, e Event) {
	e.At, e.Event, e.Site = o.change.At.UTC(), w, o.site
	text, err := json.Marshal(e)
	if err != nil {
		panic(fmt.Sprintf("an event cannot be written: %v", err)) // it holds texts and times only
	}
	o.posted = append(o.posted, store.Message{At: e.At, Slice: slice, To: to, Text: text})
}

// read makes the event of a message. Its id is made of the message's, which may
// come again in a store that was restored from a backup, and of what it tells.
func read(id string, m store.Message) (Event, error) {
	var e Event
	if err := json.Unmarshal(m.Text, &e); err != nil {
		return e, fmt.Errorf("event %s cannot be read: %w", id, err)
	}
	sum := sha256.Sum256(m.Text)
	e.ID = id + "-" + hex.EncodeToString(sum[:8])
	return e, nil
}
