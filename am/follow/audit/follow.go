package audit

import (
	"context"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/store"
)

// cursorName is the name of the audit's cursor in the store.
const cursorName = "audit"

// begin determines the position at which the log continues. The file may be ahead of the cursor,
// which is saved less often. A new audit begins at the current revision.
func (l *Log) begin() error {
	var top store.Rev
	err := l.store.Read(func(v *store.View) (err error) {
		top = v.Revision()
		l.saved, err = v.Cursor(cursorName)
		return err
	})
	if err != nil {
		return err
	}
	end, err := readEnd(l.path, l.saved == "")
	if err != nil {
		return err
	}
	now := store.Position(top+1, 0)
	l.next = max(l.saved, end.next)
	switch {
	case l.next > now:
		l.opt.Log.Warn("the store is older than the audit, as after a restore from a backup; the audit continues from the store's current state",
			"file", l.path)
		l.next = now
		if err := l.writeOpen(); err != nil { // its position is the last one in the file
			return err
		}
	case l.saved == "" && end.settled != nil:
		if err := l.takeOver(end); err != nil {
			return err
		}
		l.next = now
	case l.next == "":
		l.next = now
	}
	if err := l.beginFile(); err != nil {
		return err
	}
	l.save(context.Background())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.follow()
	return nil
}

// save writes the position into the store, so that the store can delete what the audit has. Before
// that it syncs the file, because after a loss of power the file must have all lines before the
// position. If it fails, the next call tries again.
func (l *Log) save(ctx context.Context) {
	l.mu.Lock()
	next, late := l.next, l.next != l.saved && l.file != nil
	if late {
		if err := l.file.Sync(); err != nil {
			l.failed(err)
			late = false
		}
	}
	l.mu.Unlock()
	if !late {
		return
	}
	err := l.store.Commit(ctx, func(*store.View) (cs store.ChangeSet, err error) {
		cs.PutCursor(cursorName, next)
		return cs, nil
	})
	if err == nil {
		l.mu.Lock()
		l.saved = next
		l.mu.Unlock()
	}
}

// follow writes the lines of the changes that have none, and repeats all holdings if that is due.
// It stops at the first line that cannot be written; the next call continues there. It returns
// whether all lines are written. The caller holds the lock.
func (l *Log) follow() bool {
	ok := true
	err := l.store.Read(func(v *store.View) error {
		rev, _ := store.JournalRev(l.next)
		err := v.ChangesFrom(rev, func(c store.Change) bool {
			ok = l.writeChange(&c)
			return ok
		})
		if err == nil && ok && l.mustRecordAgain && l.started {
			ok, err = l.recordAll(v)
		}
		return err
	})
	return ok && err == nil
}

// writeChange writes the lines of a change from the position l.next on, with one write.
func (l *Log) writeChange(c *store.Change) bool {
	if !l.checkFile() {
		return false
	}
	lines := l.changeLines(c)
	end := store.Position(c.Rev+1, 0)
	var text []byte
	count := 0
	for i, x := range lines {
		if store.Position(c.Rev, i) < l.next {
			continue
		}
		if x.Next = end; i+1 < len(lines) {
			x.Next = store.Position(c.Rev, i+1)
		}
		text = append(text, x.encode()...)
		count++
	}
	if count > 0 && !l.append(text) {
		return false
	}
	l.lines += int64(count)
	l.next = end
	return true
}

// changeLines returns the lines of a change, always the same and in the same order. What it notes in l is lost
// at the end of the process, and is the same when the lines are made again.
func (l *Log) changeLines(c *store.Change) (lines []*Line) {
	at := c.At.UTC().Format(timeLayout)
	if c.Lost > 0 {
		l.mustRecordAgain = true
		lines = append(lines, &Line{
			At: l.line(eventGap).At, Event: eventGap, Lost: c.Lost, Text: "changes have no line, because the audit could not be written for too long; patchbay journal may have them",
		})
	}
	for _, e := range c.Journal {
		lines = append(lines, entryLine(e))
	}
	for _, d := range c.Slivers {
		var was, now *Line
		key := ""
		if d.Before != nil {
			key, was = d.Before.URN.Key(), holdsLine(d.Before)
		}
		if d.After != nil {
			key, now = d.After.URN.Key(), holdsLine(d.After)
		}
		switch {
		case now == nil && was != nil:
			delete(l.since, key)
			lines = append(lines, &Line{At: at, Event: eventGone, Sliver: was.Sliver})
		case now != nil && (was == nil || !was.holdsSame(now)):
			l.since[key] = at
			now.At = at
			lines = append(lines, now)
		}
	}
	return lines
}

func entryLine(e am.JournalEntry) *Line {
	l := &Line{
		At: e.At.UTC().Format(timeLayout), Event: eventWork, What: e.Event, Slice: e.Slice.String(), Slivers: len(e.Slivers), Text: e.Text, Request: e.Request,
	}
	switch {
	case !e.Caller.IsZero():
		l.Event, l.Caller, l.Speaker = eventChange, e.Caller.String(), e.Speaker.String()
	case e.Operator != "":
		l.Event, l.Operator = eventAct, e.Operator
	case len(e.Slivers) == 1:
		l.Sliver, l.Slivers = e.Slivers[0].String(), 0
	}
	return l
}

// Start writes a start line, and then a holds line for each sliver that holds something.
func (l *Log) Start(site string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.follow()
	x := l.line(eventStart)
	x.Site, x.PID = site, os.Getpid()
	l.write(x)
	l.started, l.mustRecordAgain = true, true
	l.follow()
	return nil
}

// recordAll writes a line "holds" for each sliver with an address or an open port, and then a line "told".
func (l *Log) recordAll(v *store.View) (ok bool, err error) {
	at := l.line(eventHolds).At
	var text []byte
	count := int64(1)
	err = v.Slivers(func(s am.Sliver) bool {
		if x := holdsLine(&s); x != nil {
			x.At, x.Again, x.Since = at, true, l.since[s.URN.Key()]
			text = append(text, x.encode()...)
			count++
		}
		return true
	})
	if err != nil || !l.checkFile() {
		return false, err
	}
	told := l.line(eventTold)
	told.Next = l.next
	if !l.append(append(text, told.encode()...)) {
		return false, nil
	}
	l.lines += count
	l.mustRecordAgain = false
	return true, nil
}

// Stop writes a stop line: the site has stopped.
func (l *Log) Stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.follow()
	l.write(l.line(eventStop))
}

// Run writes the lines of changes, and waiting lines, as soon as possible, and a line "alive" after
// a silence, until ctx ends.
func (l *Log) Run(ctx context.Context) {
	changed := l.store.Changed()
	t := time.NewTicker(checkInterval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			l.mu.Lock()
			l.follow()
			l.mu.Unlock()
		case <-t.C:
			l.maintain()
			l.save(ctx)
		}
	}
}

// maintain writes waiting lines, or a line "alive" if it is due.
func (l *Log) maintain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failure != nil || l.mustRecordAgain {
		l.flush()
		l.follow()
	}
	if l.failure == nil && l.opt.Now().Sub(l.last) >= silence {
		l.write(l.line(eventAlive))
	}
}

// holdsSame reports whether two lines have the same addresses, endpoints and outside ports.
func (l *Line) holdsSame(x *Line) bool {
	return slices.Equal(l.Addresses, x.Addresses) && slices.Equal(l.Endpoints, x.Endpoints) && slices.Equal(l.Outside, x.Outside)
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
		if d := endpoint(d); !slices.Contains(l.Endpoints, d) {
			l.Endpoints = append(l.Endpoints, d)
		}
	}
	if len(l.Addresses)+len(l.Endpoints)+len(l.Outside) == 0 {
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
