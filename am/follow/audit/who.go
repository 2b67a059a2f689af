package audit

import (
	"bytes"
	"slices"
	"strings"
	"time"
)

// Holder is a sliver that was found at a place for some time.
type Holder struct {
	Sliver    string `json:"sliver"`
	Slice     string `json:"slice"`
	User      string `json:"user"`
	Speaker   string `json:"speaker,omitempty"`
	Component string `json:"component,omitempty"`
	// As are the addresses, endpoints and ports that matched.
	As    []string  `json:"as"`
	Since time.Time `json:"since"`
	// Until is the end of the holding; zero if it has not ended. If Seen is set, the exact
	// time of the end is unknown: it lies between Seen and Until.
	Until time.Time `json:"until,omitzero"`
	Seen  time.Time `json:"seen,omitzero"`
	// Maybe means that the holding may have ended before the requested time.
	Maybe bool `json:"maybe,omitempty"`
	// Request is the id of the call that reserved the sliver. Call is its line; nil if
	// the files do not contain it.
	Request string `json:"request,omitempty"`
	Call    *Line  `json:"call,omitempty"`

	shared bool
}

// MaxHolders limits the holders of an Answer.
const MaxHolders = 1000

// Answer lists the slivers that an audit shows at a place at a given time.
type Answer struct {
	Place string    `json:"place"`
	At    time.Time `json:"at"`
	// Holders are the slivers at the place.
	Holders []Holder `json:"holders"`
	// More is the number of further holders beyond MaxHolders.
	More int `json:"more,omitempty"`
	// Shared means that a port would distinguish the holders.
	Shared bool `json:"shared,omitempty"`
	// Before and After are the last holder before At and the first holder after At. Both are
	// nil if there is a holder at the time At.
	Before *Holder `json:"before,omitempty"`
	After  *Holder `json:"after,omitempty"`
	// From and To are the times of the first and the last line.
	From time.Time `json:"from,omitzero"`
	To   time.Time `json:"to,omitzero"`
}

// Who searches the files of an audit for the slivers that were at a place at the given
// moment. The files must be ordered by InOrder. A moment without a fraction of a second
// stands for the whole second. The error names a file that cannot be read.
func Who(files []string, p Place, moment time.Time) (*Answer, error) {
	q := &query{place: p, at: moment, last: moment, open: map[string]*Holder{}, kept: map[string]*Holder{}, Answer: Answer{Place: p.String(), At: moment, Holders: []Holder{}}}
	if moment.Nanosecond() == 0 {
		q.last = moment.Add(time.Second - time.Millisecond)
	}
	for _, f := range files {
		if err := readLines(f, func(text []byte) bool { q.read(text); return true }); err != nil {
			return nil, err
		}
	}
	q.finish()
	return &q.Answer, q.calls(files)
}

type query struct {
	Answer
	place Place
	at    time.Time
	last  time.Time // the end of the second that begins at the time at, or the same as at
	// open are the holders at the time of the current line.
	open map[string]*Holder
	// kept are the holders for the answer, by start and sliver.
	kept map[string]*Holder
}

// read reads one line. Call it with the lines in their order.
func (q *query) read(text []byte) {
	stamp, event, ok := peek(text)
	if !ok {
		return
	}
	now, err := time.Parse(timeLayout, stamp)
	if err != nil {
		return
	}
	if q.From.IsZero() {
		q.From = now
	}
	previous := q.To // the time of the line before
	if now.After(previous) {
		q.To = now
	}
	switch event {
	case eventStart, eventLost, eventGap:
		for _, h := range q.open {
			if h.Seen.IsZero() {
				h.Seen = previous
			}
		}
	case eventTold:
		for key, h := range q.open {
			if !h.Seen.IsZero() {
				q.end(key, now)
			}
		}
	case eventHolds, eventGone:
		if l, ok := decode(text); ok {
			q.change(&l, now)
		}
	}
}

// change notes that a sliver holds other addresses since now, or none any more.
func (q *query) change(l *Line, now time.Time) {
	key := strings.ToLower(l.Sliver)
	h := q.open[key]
	var as []string
	var shared bool
	if l.Event == eventHolds {
		as, shared = q.place.match(l)
	}
	if h != nil && slices.Equal(h.As, as) {
		h.Seen = time.Time{}
		return
	}
	if h != nil {
		if !l.Again {
			h.Seen = time.Time{}
		}
		q.end(key, now)
	}
	if len(as) == 0 {
		return
	}
	h = &Holder{
		Sliver: l.Sliver, Slice: l.Slice, User: l.User, Speaker: l.Speaker, Component: l.Component,
		As: as, Since: now, Request: l.Request, shared: shared,
	}
	if since, err := time.Parse(timeLayout, l.Since); err == nil && since.Before(now) {
		h.Since = since
	}
	q.open[key] = h
}

func (q *query) end(key string, now time.Time) {
	h := q.open[key]
	delete(q.open, key)
	h.Until = now
	q.classify(h)
}

// classify adds a holder to the answer if the holder was at the place at the requested
// time. Otherwise, the holder becomes Before or After if no other holder is nearer.
func (q *query) classify(h *Holder) {
	switch {
	case h.Since.After(q.last):
		if q.After == nil || h.Since.Before(q.After.Since) {
			q.After = h
		}
	case !h.Until.IsZero() && !h.Until.After(q.at):
		if q.Before == nil || h.Until.After(q.Before.Until) {
			q.Before = h
		}
	default:
		q.addHolder(h)
	}
}

// addHolder adds a holder once, because files may be copies of each other.
func (q *query) addHolder(h *Holder) {
	h.Maybe = !h.Seen.IsZero() && !q.at.Before(h.Seen)
	key := h.Since.Format(timeLayout) + strings.ToLower(h.Sliver)
	if old := q.kept[key]; old != nil {
		if old.Until.IsZero() || !old.Seen.IsZero() {
			*old = *h
		}
		return
	}
	if len(q.kept) == MaxHolders {
		q.More++
		return
	}
	q.kept[key] = h
}

// finish classifies the slivers that still hold something after the last line, and sorts the
// holders by time.
func (q *query) finish() {
	for _, h := range q.open {
		if h.Seen.IsZero() && q.at.Sub(q.To) > 2*silence { // no line shows that the site was alive
			h.Seen = q.To
		}
		q.classify(h)
	}
	for _, h := range q.kept {
		q.Shared = q.Shared || h.shared
		q.Holders = append(q.Holders, *h)
	}
	slices.SortFunc(q.Holders, func(a, b Holder) int {
		if c := a.Since.Compare(b.Since); c != 0 {
			return c
		}
		return strings.Compare(a.Sliver, b.Sliver)
	})
	if len(q.Holders) > 0 {
		q.Before, q.After = nil, nil
	}
	q.Shared = q.Shared && len(q.Holders) > 1
}

// calls sets the Call of the holders: the lines of the calls that have reserved the slivers.
func (q *query) calls(files []string) error {
	wanted := map[string][]*Holder{}
	want := func(h *Holder) {
		if h != nil && h.Request != "" {
			wanted[h.Request] = append(wanted[h.Request], h)
		}
	}
	for i := range q.Holders {
		want(&q.Holders[i])
	}
	want(q.Before)
	want(q.After)
	left := len(wanted)
	for _, f := range files {
		if left == 0 {
			break
		}
		err := readLines(f, func(text []byte) bool {
			_, event, ok := peek(text)
			if !ok || event != eventCall {
				return true
			}
			id := callID(text)
			holders := wanted[id]
			if len(holders) == 0 || holders[0].Call != nil {
				return true
			}
			if l, ok := decode(text); ok {
				for _, h := range holders {
					h.Call = &l
				}
				left--
			}
			return left > 0
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// callID returns "" if the id is not at its usual place.
func callID(text []byte) string {
	const before = `"event":"call","id":"`
	_, rest, ok := bytes.Cut(text[:min(len(text), 200)], []byte(before))
	if !ok {
		return ""
	}
	id, _, ok := bytes.Cut(rest, []byte(`"`))
	if !ok {
		return ""
	}
	return string(id)
}
