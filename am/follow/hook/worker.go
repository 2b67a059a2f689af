package hook

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"patchbay/am/store"
)

// retryDelay is the wait before a failed write of the store is repeated.
const retryDelay = time.Second

// logPause is the minimum time between two log lines about a failing hook.
const logPause = time.Minute

// eventRef names an event of a change: the key of its slice, and its position.
type eventRef struct{ slice, position string }

// backlog holds the positions of the events of a slice that a hook has yet to take, oldest
// first. It is never empty.
type backlog struct {
	positions []string
	failures  int       // failed deliveries of the first event
	due       time.Time // when to deliver the first event again, if it failed
}

// worker delivers the events for one hook in order. An event that is not taken delays only
// later events of its slice.
type worker struct {
	r    *Runner
	hook *Hook
	wake chan struct{} // holds an element while there may be new events

	// rev is the revision of events, the events of the last change of which the worker has
	// delivered one. Only the goroutine of run uses them.
	rev    store.Rev
	events []changeEvent

	mu     sync.Mutex
	cursor string // the position in the store at the start; all events before it are taken
	end    string // the position up to which the worker has read
	// taken are the positions of the last events taken at the start, by the slice's key, of slices
	// that are ahead of the cursor.
	taken      map[string]string
	waiting    map[string]*backlog // by the slice's key
	retried    bool                // the last delivery was a repetition
	busy       bool                // an event is being delivered or recorded
	state      State               // without Waiting
	mutedUntil time.Time           // until then failures are not logged
	unlogged   int                 // failures since the last line in the log
}

// begin reads the cursors of the hook.
func (w *worker) begin(v *store.View) (err error) {
	if w.cursor, err = v.Cursor(w.hook.cursor()); err != nil {
		return err
	}
	w.end = w.cursor
	part := store.PartOf(w.hook.cursor(), "")
	return v.Cursors(part, func(c store.Cursor) bool {
		w.taken[strings.TrimPrefix(c.Name, part)] = c.Position
		return true
	})
}

// add adds the events of a change that the hook has yet to take.
func (w *worker) add(rev store.Rev, list []changeEvent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range list {
		e := &list[i]
		if !w.needs(e) {
			continue
		}
		b := w.waiting[e.slice]
		if b == nil {
			b = &backlog{}
			w.waiting[e.slice] = b
		}
		b.positions = append(b.positions, e.position)
		wake(w.wake)
	}
	w.end = max(w.end, store.Position(rev+1, 0))
}

// needs reports whether the hook gets the event, and had not taken it at the start.
func (w *worker) needs(e *changeEvent) bool {
	return e.position >= w.cursor && e.position > w.taken[e.slice] && e.isFor(w.hook)
}

// firstWaiting returns the position of the first event that the hook has yet to take, leaving out
// the event at the position except. Without any it returns the position up to which the worker has
// read. The caller holds the lock.
func (w *worker) firstWaiting(except string) string {
	first := w.end
	for _, b := range w.waiting {
		positions := b.positions
		if positions[0] == except {
			positions = positions[1:]
		}
		if len(positions) > 0 {
			first = min(first, positions[0])
		}
	}
	return first
}

// advance adds to cs the cursor after the hook has taken an event; with the zero eventRef, it has taken none.
// If older events of other slices wait, a further cursor records the event.
func (w *worker) advance(v *store.View, cs *store.ChangeSet, e eventRef) error {
	name := w.hook.cursor()
	w.mu.Lock()
	defer w.mu.Unlock()
	first := w.firstWaiting(e.position)
	if e.position > first {
		cs.PutCursor(store.PartOf(name, e.slice), e.position)
	}
	if was, err := v.Cursor(name); err != nil || first <= was {
		return err
	}
	cs.PutCursor(name, first)
	return v.Cursors(store.PartOf(name, ""), func(c store.Cursor) bool {
		if c.Position < first {
			cs.Remove(store.CursorKey(c.Name))
		}
		return true
	})
}

// next returns the event to deliver now, and marks the worker as busy. If there is none, ok is false, and retryAt is the time
// at which the first repetition is due. Repetitions and new events alternate, so that neither
// blocks the other.
func (w *worker) next(now time.Time) (e eventRef, ok bool, retryAt time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	retryAt = now.Add(time.Hour)
	var fresh, again eventRef // the oldest event that was not refused, and the refused event that is due first
	for slice, b := range w.waiting {
		switch {
		case b.failures > 0 && b.due.Before(retryAt):
			again, retryAt = eventRef{slice, b.positions[0]}, b.due
		case b.failures == 0 && (fresh.position == "" || b.positions[0] < fresh.position):
			fresh = eventRef{slice, b.positions[0]}
		}
	}
	w.retried = again.position != "" && !retryAt.After(now) && (fresh.position == "" || !w.retried)
	if e = fresh; w.retried {
		e = again
	}
	w.busy = e.position != ""
	return e, w.busy, retryAt
}

// markTaken removes the event from those that wait. It returns false if the event was dropped meanwhile.
func (w *worker) markTaken(e eventRef) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy = false
	b := w.waiting[e.slice]
	if b == nil || b.positions[0] != e.position {
		return false
	}
	w.shorten(e.slice, b)
	return true
}

func (w *worker) shorten(slice string, b *backlog) {
	b.positions, b.failures = b.positions[1:], 0
	if len(b.positions) == 0 {
		delete(w.waiting, slice)
	}
}

// markRefused makes the slice of the event wait, and returns how often its delivery failed.
func (w *worker) markRefused(e eventRef) (failures int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy = false
	b := w.waiting[e.slice]
	if b == nil || b.positions[0] != e.position { // it was dropped meanwhile
		return 1
	}
	b.failures++
	b.due = time.Now().Add(w.r.limits.backoff(b.failures))
	return b.failures
}

// drop removes the events before a position, and returns their number.
func (w *worker) drop(before string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for slice, b := range w.waiting {
		for len(b.positions) > 0 && b.positions[0] < before {
			w.shorten(slice, b)
			n++
		}
	}
	return n
}

// run delivers the events until ctx ends or the store is closed. A delivery that has begun continues after ctx
// ends, until the second context ends.
func (w *worker) run(ctx, delivering context.Context) {
	s := w.r.sender(w.hook)
	defer s.close()
	for ctx.Err() == nil {
		e, ok, until := w.next(time.Now())
		if !ok {
			t := time.NewTimer(time.Until(until))
			select {
			case <-ctx.Done():
			case <-w.wake:
			case <-t.C:
			}
			t.Stop()
			continue
		}
		err := w.deliver(delivering, s, e)
		if err == nil {
			w.recovered()
			err = w.recordTaken(ctx, e)
		} else if !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrClosed) {
			if failures := w.markRefused(e); ctx.Err() == nil {
				w.failed(e, failures, err)
			}
			continue
		}
		// Now the event is taken and recorded, or err is store.ErrNotFound: it was dropped.
		if errors.Is(err, store.ErrClosed) || err != nil && ctx.Err() != nil {
			return
		}
		if w.markTaken(e) && err != nil {
			w.r.reportLost(1)
		}
	}
}

// deliver sends the event to the hook. It returns store.ErrNotFound if the event was dropped.
func (w *worker) deliver(ctx context.Context, s sender, e eventRef) error {
	event, err := w.event(e.position)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, w.hook.Timeout)
	defer cancel()
	return s.send(ctx, event)
}

// event returns the event at a position.
func (w *worker) event(position string) (Event, error) {
	if rev, _ := store.JournalRev(position); w.rev != rev || rev == 0 {
		w.rev, w.events = rev, nil
		err := w.r.cfg.Store.Read(func(v *store.View) error {
			return v.ChangesFrom(rev, func(c store.Change) bool {
				if c.Rev == rev {
					w.events = eventsOf(w.r.cfg.Site, &c)
				}
				return false
			})
		})
		if err != nil {
			w.rev = 0
			return Event{}, err
		}
	}
	for i := range w.events {
		if w.events[i].position == position {
			return w.events[i].event()
		}
	}
	return Event{}, store.ErrNotFound
}

// recordTaken records in the store that an event was taken, and retries until ctx ends. The
// next event of the slice is delivered only after that, so a crash repeats at most the
// last event of a slice.
func (w *worker) recordTaken(ctx context.Context, e eventRef) error {
	for {
		err := w.r.cfg.Store.Commit(context.WithoutCancel(ctx), func(v *store.View) (cs store.ChangeSet, err error) {
			err = w.advance(v, &cs, e)
			return cs, err
		})
		if err == nil || errors.Is(err, store.ErrClosed) {
			return err
		}
		w.r.cfg.Log.Error("cannot record that a hook has taken an event; it may receive the event again", "hook", w.hook.Name, "event", e.position, "error", err)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(retryDelay):
		}
	}
}

// failed records a failed delivery in the state, and logs it at most once in logPause.
func (w *worker) failed(e eventRef, failures int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &w.state
	if !s.Failing {
		s.Failing, s.Since, s.Failures = true, time.Now(), 0
	}
	s.Failures++
	w.unlogged++
	s.Error = shorten(err.Error())
	if now := time.Now(); now.After(w.mutedUntil) {
		w.r.cfg.Log.Warn("a hook did not take an event; it will be sent again", "hook", w.hook.Name, "event", e.position, "slice", e.slice,
			"attempt", failures, "failures", w.unlogged, "error", err)
		w.mutedUntil, w.unlogged = now.Add(logPause), 0
	}
}

// recovered records a delivery that was taken. It logs the recovery only if the delivery was a repetition.
func (w *worker) recovered() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state.Failing && w.retried {
		w.r.cfg.Log.Info("a hook takes events again", "hook", w.hook.Name)
	}
	w.state = State{Name: w.hook.Name}
}

// State describes the deliveries to a hook.
type State struct {
	Name string
	// Waiting is the number of events that the hook has yet to take, including the event
	// that is being delivered.
	Waiting int
	// Failing means that the last delivery failed. Then Failures deliveries in a row have
	// failed since Since, and Error is the error of the last one.
	Failing  bool
	Since    time.Time `json:",omitzero"`
	Failures int       `json:",omitempty"`
	Error    string    `json:",omitempty"`
}

func (w *worker) current() State {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.state
	for _, b := range w.waiting {
		s.Waiting += len(b.positions)
	}
	return s
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
