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
	log    *Log
	staged []held
	// held maps the key of each sliver's record to the state last written for it.
	held map[string]recordedState
	// again means that the next lines may repeat earlier ones.
	again bool
	// recordingAll means that all slivers are staged, to be written again.
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

// readAll stages the holdings of all slivers, so that Publish writes their lines again. It is
// a decision for Store.Commit that changes nothing.
func (h *holdings) readAll(v *store.View) (none store.ChangeSet, err error) {
	var all store.ChangeSet
	if err := v.Slivers(func(s am.Sliver) bool { all.PutSliver(s); return true }); err != nil {
		return none, err
	}
	n := len(h.staged)
	h.Stage(all)
	for i := range h.staged[n:] {
		h.staged[n+i].again = true
	}
	h.recordingAll = true
	return none, nil
}

func (h *holdings) Stage(cs store.ChangeSet) {
	for _, k := range cs.Delete { // a store deletes before it puts
		if k.Kind == store.Slivers {
			h.staged = append(h.staged, held{key: k.ID})
		}
	}
	for _, r := range cs.Put {
		if s, ok := r.Value.(am.Sliver); ok {
			h.staged = append(h.staged, held{key: r.Key.ID, urn: s.URN.String(), line: holdsLine(&s)})
		}
	}
}

func (h *holdings) Rollback() { h.staged, h.recordingAll = h.staged[:0], false }

// Publish writes the lines of the collected holdings that have changed or must be repeated.
func (h *holdings) Publish() {
	again, recordingAll := h.again, h.recordingAll
	h.again, h.recordingAll = false, false
	if len(h.staged) == 0 && !recordingAll {
		return
	}
	l := h.log
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.line(eventGone).At
	var lines []*Line
	for i, x := range h.staged {
		if x := h.change(x, at, again); x != nil {
			x.At, x.Again = at, again || h.staged[i].again
			lines = append(lines, x)
		}
	}
	if recordingAll {
		lines = append(lines, l.line(eventTold))
	}
	if len(lines) > 0 {
		l.write(lines...)
	}
	clear(h.staged)
	h.staged = h.staged[:0]
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
