package hook

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"patchbay/am/store"
)

// quietTime is how often at most the log tells of one hook that fails.
const quietTime = time.Minute

// entry is a message of a slice, by the slice's key and the message's id.
type entry struct{ slice, id string }

// backlog is what a hook has yet to take of a slice: ids of messages, the oldest first.
// There is at least one.
type backlog struct {
	ids      []string
	failures int       // of the first
	due      time.Time // of a slice whose first event was not taken
}

// worker delivers to one hook what is posted for it, in order. An event that is not
// taken keeps back only those of its slice.
type worker struct {
	r    *Runner
	hook *Hook
	wake chan struct{} // holds one while there may be new messages

	mu      sync.Mutex
	waiting map[string]*backlog // by the slice's key
	retried bool                // the last delivery was one more attempt
	busy    bool                // an event is being delivered or noted
	state   State               // but Waiting
	silent  time.Time           // until when the log tells nothing
	unsaid  int                 // failures since the last line in the log
}

// add appends a message.
func (w *worker) add(e entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.waiting[e.slice]
	if b == nil {
		b = &backlog{}
		w.waiting[e.slice] = b
	}
	b.ids = append(b.ids, e.id)
	poke(w.wake)
}

// next is what to deliver now, or until when to wait. Events that were refused and
// others take turns, so that neither stops the other.
func (w *worker) next(now time.Time) (e entry, ok bool, until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	until = now.Add(time.Hour)
	var fresh, again entry // the oldest event that was not refused, and what is to be tried again first
	for slice, b := range w.waiting {
		switch {
		case b.failures > 0 && b.due.Before(until):
			again, until = entry{slice, b.ids[0]}, b.due
		case b.failures == 0 && (fresh.id == "" || b.ids[0] < fresh.id):
			fresh = entry{slice, b.ids[0]}
		}
	}
	w.retried = again.id != "" && !until.After(now) && (fresh.id == "" || !w.retried)
	if e = fresh; w.retried {
		e = again
	}
	w.busy = e.id != ""
	return e, w.busy, until
}

// taken removes an entry that was taken or is gone.
func (w *worker) taken(e entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy = false
	if b := w.waiting[e.slice]; b != nil && b.ids[0] == e.id { // or it was dropped meanwhile
		w.shorten(e.slice, b)
	}
}

// shorten removes the first event of a slice.
func (w *worker) shorten(slice string, b *backlog) {
	b.ids, b.failures = b.ids[1:], 0
	if len(b.ids) == 0 {
		delete(w.waiting, slice)
	}
}

// refused blocks the slice of an entry that was not taken, and gives how often it failed.
func (w *worker) refused(e entry) (failures int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy = false
	b := w.waiting[e.slice]
	if b == nil || b.ids[0] != e.id { // it was dropped meanwhile
		return 1
	}
	b.failures++
	b.due = time.Now().Add(w.r.limits.backoff(b.failures))
	return b.failures
}

// drop forgets the messages up to an id.
func (w *worker) drop(until string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for slice, b := range w.waiting {
		for len(b.ids) > 0 && b.ids[0] <= until {
			w.shorten(slice, b)
		}
	}
}

// run delivers until ctx ends or the store is closed. Deliveries and what is noted of
// them may go on until delivering ends.
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
			w.well()
			err = w.note(ctx, e.id)
		} else if !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrClosed) {
			if failures := w.refused(e); ctx.Err() == nil {
				w.failed(e, failures, err)
			}
			continue
		}
		if errors.Is(err, store.ErrClosed) || err != nil && ctx.Err() != nil {
			poke(w.r.posted) // whoever reads it sees that the store is closed
			return
		}
		w.taken(e)
	}
}

// deliver sends one event. The error is store.ErrNotFound when it is gone.
func (w *worker) deliver(ctx context.Context, s sender, e entry) error {
	var event Event
	err := w.r.cfg.Store.Read(func(v *store.View) error {
		m, err := v.Message(e.id)
		if err == nil {
			event, err = read(e.id, m)
		}
		return err
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, w.hook.Timeout)
	defer cancel()
	return s.send(ctx, event)
}

// note has the store know that an event was taken, and tries until it does or ctx has
// ended. Only then the next event of the slice is delivered: so what is delivered again
// after a crash is the last event of a slice at most.
func (w *worker) note(ctx context.Context, id string) error {
	for {
		deleted := 0
		err := w.r.cfg.Store.Commit(context.WithoutCancel(ctx), func(v *store.View) (cs store.ChangeSet, err error) {
			deleted, err = store.Taken(v, &cs, map[string][]string{id: {w.hook.Name}})
			return cs, err
		})
		if err == nil {
			w.r.waiting.Add(int64(-deleted))
			return nil
		}
		if errors.Is(err, store.ErrClosed) {
			return err
		}
		w.r.cfg.Log.Error("cannot note which event a hook has taken; it may get it again", "hook", w.hook.Name, "event", id, "error", err)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(trouble):
		}
	}
}

// failed tells of a delivery that failed.
func (w *worker) failed(e entry, failures int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &w.state
	if !s.Failing {
		s.Failing, s.Since, s.Failures = true, time.Now(), 0
	}
	s.Failures++
	w.unsaid++
	s.Error = err.Error()
	s.Error = strings.ToValidUTF8(s.Error[:min(len(s.Error), maxText)], "")
	if now := time.Now(); now.After(w.silent) {
		w.r.cfg.Log.Warn("a hook did not take an event; it will be told again", "hook", w.hook.Name, "event", e.id, "slice", e.slice,
			"attempt", failures, "failures", w.unsaid, "error", err)
		w.silent, w.unsaid = now.Add(quietTime), 0
	}
}

// well tells of a hook that works again.
func (w *worker) well() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state.Failing && w.retried {
		w.r.cfg.Log.Info("a hook takes events again", "hook", w.hook.Name)
	}
	w.state = State{Name: w.hook.Name}
}

// State is how a hook does.
type State struct {
	Name string
	// Waiting is how many events it has yet to take, that of which it is just being told
	// included.
	Waiting int
	// Failing says that it did not take the last event that it was told; then it has
	// refused Failures of them since Since, the last one with Error.
	Failing  bool
	Since    time.Time `json:",omitzero"`
	Failures int       `json:",omitempty"`
	Error    string    `json:",omitempty"`
}

// current is the state now.
func (w *worker) current() State {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.state
	for _, b := range w.waiting {
		s.Waiting += len(b.ids)
	}
	return s
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
