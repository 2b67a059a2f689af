package audit

import (
	"hash/maphash"
	"net"
	"slices"
	"strings"

	"patchbay/am"
	"patchbay/am/store"
)

// holdings writes a line when the holding of a sliver changes. A holding consists of
// addresses, endpoints and outside ports. Only the committer calls the methods.
type holdings struct {
	log *Log
	// held maps the key of each sliver's record to the state last written for it.
	held map[string]recordedState
	// again means that the next lines may repeat earlier ones.
	again bool
	// recordingAll means that the lines of all slivers must be written again.
	recordingAll bool
}

type recordedState struct {
	// sum is the hash of the holding.
	sum uint64
	// since is the time of the holding's first line; "" if the holding existed at the start.
	since string
}

type held struct {
	key  string
	urn  string
	line *Line // nil if the sliver holds nothing
	// again means that the line is written even if it repeats an earlier line.
	again bool
}

// recordAll makes the next call of written write the lines of all slivers again. It is a decision
// for Store.Commit that changes nothing.
func (h *holdings) recordAll(*store.View) (none store.ChangeSet, err error) {
	h.recordingAll = true
	return none, nil
}

// heldIn returns the holdings of the slivers in a change set.
func heldIn(cs store.ChangeSet) (list []held) {
	for _, k := range cs.Delete { // a store deletes before it puts
		if k.Kind == store.Slivers {
			list = append(list, held{key: k.ID})
		}
	}
	for i := range cs.Slivers {
		s := &cs.Slivers[i]
		list = append(list, held{key: s.URN.Key(), urn: s.URN.String(), line: holdsLine(s)})
	}
	return list
}

// written writes the lines of the holdings that have changed or must be repeated.
func (h *holdings) written(sets []store.ChangeSet) {
	again, recordingAll := h.again, h.recordingAll
	h.again, h.recordingAll = false, false
	var list []held
	for _, cs := range sets {
		list = append(list, heldIn(cs)...)
	}
	if recordingAll {
		slivers, err := h.log.store.Slivers()
		if err != nil { // the store is broken, and so accepts no more changes
			h.recordingAll, recordingAll = true, false
		}
		for _, s := range slivers {
			list = append(list, held{s.URN.Key(), s.URN.String(), holdsLine(&s), true})
		}
	}
	if len(list) == 0 && !recordingAll {
		return
	}
	l := h.log
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.line(eventGone).At
	var lines []*Line
	for i, x := range list {
		if x := h.change(x, at, again); x != nil {
			x.At, x.Again = at, again || list[i].again
			lines = append(lines, x)
		}
	}
	if recordingAll {
		lines = append(lines, l.line(eventTold))
	}
	if len(lines) > 0 {
		l.write(lines...)
	}
}

// change returns the line for the holding x, holds or gone. It returns nil if the last line
// about the sliver is still correct. atStart means that the site has just started.
func (h *holdings) change(x held, stamp string, atStart bool) *Line {
	was, known := h.held[x.key]
	if x.line == nil {
		if !known {
			return nil
		}
		delete(h.held, x.key)
		if x.urn == "" {
			x.urn = x.key
		}
		return &Line{Event: eventGone, Sliver: x.urn}
	}
	now := x.line.sum()
	if known && was.sum == now {
		x.line.Since = was.since
		if x.again {
			return x.line
		}
		return nil
	}
	if atStart {
		stamp = ""
	}
	h.held[x.key] = recordedState{now, stamp}
	return x.line
}

var seed = maphash.MakeSeed()

func (l *Line) sum() uint64 {
	var m maphash.Hash
	m.SetSeed(seed)
	for _, list := range [][]string{l.Addresses, l.Doors, l.Outside} {
		for _, s := range list {
			m.WriteString(s)
			m.WriteByte(0)
		}
		m.WriteByte(1)
	}
	return m.Sum64()
}

// holdsLine returns nil if the sliver holds nothing.
func holdsLine(s *am.Sliver) *Line {
	l := &Line{
		Event: eventHolds, Sliver: s.URN.String(), Slice: s.Slice.String(), User: s.Creator.String(), Speaker: s.Speaker.String(),
		Component: s.Component.String(), Addresses: s.Observed.Addresses, Outside: s.Observed.Outside, Request: s.Request,
	}
	if p := s.PublicAddress; p.IsValid() && !slices.Contains(l.Addresses, p.String()) {
		l.Addresses = append(slices.Clone(l.Addresses), p.String())
	}
	for _, d := range s.Observed.Logins {
		if d := endpoint(d); !slices.Contains(l.Doors, d) {
			l.Doors = append(l.Doors, d)
		}
	}
	if len(l.Addresses)+len(l.Doors)+len(l.Outside) == 0 {
		return nil
	}
	return l
}

// endpoint returns the host:port of a login, without the user.
func endpoint(login string) string {
	if _, rest, ok := strings.Cut(login, "@"); ok {
		login = rest
	}
	host, port, err := net.SplitHostPort(login)
	if err != nil {
		return login
	}
	return net.JoinHostPort(strings.ToLower(host), port)
}
