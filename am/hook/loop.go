package hook

import (
	"context"
	"errors"
	"sync"
	"time"

	"patchbay/am/store"
)

const (
	// trouble is how long to wait before the store is asked again for what it could
	// not do.
	trouble = time.Second
	// trimEvery is how often old events are looked for.
	trimEvery = time.Minute
	// pace is how long after a look for new messages, or a note, the next one is at
	// least: where changes come one upon the other they have the store to themselves.
	pace = 5 * time.Millisecond
)

// loop owns what is under way. All of it belongs to the goroutine of run;
// deliveries get copies.
type loop struct {
	r      *Runner
	queues []*queue
	named  map[string]*queue

	seen      string // the id of the last message read
	count     int    // messages that wait
	stale     bool   // there may be messages not read yet
	scanAfter time.Time
	trimAt    time.Time

	results    chan *delivery
	deliveries sync.WaitGroup

	taken     []*delivery // to be noted in the store
	noting    bool        // others are being noted
	noteAfter time.Time
	noted     chan noted
}

// delivery is one event on its way to one hook.
type delivery struct {
	q        *queue
	lane     *lane
	slice    string // the key
	id       string // of the message
	retrying bool
	gone     bool // there was nothing to deliver
	err      error
}

// noted is what came of noting in the store what was taken.
type noted struct {
	taken   []*delivery
	deleted int // messages
	err     error
}

func newLoop(r *Runner) *loop {
	l := &loop{
		r: r, named: map[string]*queue{}, stale: true, trimAt: time.Now().Add(r.limits.Tick),
		results: make(chan *delivery), noted: make(chan noted, 1),
	}
	for i := range r.cfg.Hooks {
		h := &r.cfg.Hooks[i]
		q := &queue{hook: h, sender: r.sender(h), lanes: map[string]*lane{}}
		l.queues = append(l.queues, q)
		l.named[h.Name] = q
	}
	return l
}

func (l *loop) run(ctx context.Context) error {
	// Deliveries may go on for a moment when ctx has ended.
	delivering, cutOff := context.WithCancel(context.WithoutCancel(ctx))
	defer cutOff()
	for {
		now := time.Now()
		if err := l.tend(ctx, now); errors.Is(err, store.ErrClosed) {
			cutOff()
			l.finish(cutOff)
			return err
		} else if err != nil && ctx.Err() == nil {
			l.r.cfg.Log.Error("cannot read or drop the events that hooks are to be told of", "error", err)
			l.scanAfter, l.trimAt = now.Add(trouble), now.Add(trouble)
		}
		l.note(now)
		next := l.dispatch(delivering, now)
		l.publish()
		t := time.NewTimer(time.Until(next))
		select {
		case <-ctx.Done():
		case <-l.r.posted:
			l.stale = true
		case d := <-l.results:
			l.end(d, false)
		case n := <-l.noted:
			l.settle(n)
		case <-t.C:
		}
		t.Stop()
		if ctx.Err() != nil {
			l.finish(cutOff)
			return nil
		}
	}
}

// finish waits for what is under way, for a while, and then notes what was taken.
func (l *loop) finish(cutOff func()) {
	defer func() {
		l.deliveries.Wait()
		for _, q := range l.queues {
			q.sender.close()
		}
	}()
	if hooks := l.awaited(); len(hooks) > 0 {
		l.r.cfg.Log.Info("stopping: waiting for hooks that are being told of something; what they do not take is told again after the next start",
			"hooks", hooks, "at_most", l.r.limits.Grace)
	}
	patience := time.NewTimer(l.r.limits.Grace)
	defer patience.Stop()
	for l.noting || l.running() > 0 {
		select {
		case d := <-l.results:
			l.end(d, true)
		case n := <-l.noted:
			l.settle(n)
		case <-patience.C:
			cutOff()
		}
	}
	if l.note(l.noteAfter); l.noting {
		l.settle(<-l.noted)
	}
}

func (l *loop) running() (n int) {
	for _, q := range l.queues {
		n += q.running
	}
	return n
}

// tend reads new messages and drops old ones, when it is time for either.
func (l *loop) tend(ctx context.Context, now time.Time) error {
	if l.stale && !now.Before(l.scanAfter) {
		if err := l.scan(ctx); err != nil {
			return err
		}
		l.stale, l.scanAfter = false, now.Add(pace)
	}
	if l.count > l.r.limits.Events || !now.Before(l.trimAt) {
		l.trimAt = now.Add(trimEvery)
		return l.trim(ctx)
	}
	return nil
}

// scan reads the messages that were not read yet. Those for hooks that there are
// no more lose their claim.
func (l *loop) scan(ctx context.Context) error {
	defer func() { l.r.waiting.Store(int64(l.count)) }()
	for {
		read := 0
		orphans := map[string][]string{}
		err := l.r.cfg.Store.Read(func(v *store.View) error {
			return v.MessagesAfter(l.seen, func(id string, m store.Message) bool {
				for _, name := range m.To {
					if q := l.named[name]; q != nil {
						q.add(m.Slice.Key(), id)
					} else {
						orphans[id] = append(orphans[id], name)
					}
				}
				read++
				l.count++
				l.seen = id
				return read < l.r.limits.Batch
			})
		})
		if err != nil {
			return err
		}
		if len(orphans) > 0 {
			deleted := 0
			err := l.r.cfg.Store.Commit(ctx, func(v *store.View) (cs store.ChangeSet, err error) {
				deleted, err = store.Taken(v, &cs, orphans)
				return cs, err
			})
			if err != nil {
				return err
			}
			l.count -= deleted
		}
		if read < l.r.limits.Batch {
			return nil
		}
	}
}

// trim drops the oldest messages while there are too many or they are too old.
func (l *loop) trim(ctx context.Context) error {
	limits := l.r.limits
	keep := limits.Events
	if l.count > keep {
		keep -= keep / 16 // or each new message would drop one more
	}
	for {
		until, n := "", 0
		var oldest time.Time
		err := l.r.cfg.Store.Commit(ctx, func(v *store.View) (cs store.ChangeSet, err error) {
			err = v.MessagesAfter("", func(id string, m store.Message) bool {
				if n == limits.Batch || id > l.seen || l.count-n <= keep && v.Now().Sub(m.At) <= limits.Age {
					return false
				}
				if n == 0 {
					oldest = m.At
				}
				cs.Remove(store.MessageKey(id))
				until = id
				n++
				return true
			})
			return cs, err
		})
		if err != nil || n == 0 {
			return err
		}
		for _, q := range l.queues {
			q.drop(until)
		}
		l.count -= n
		l.r.lost.Add(int64(n))
		l.r.waiting.Store(int64(l.count))
		l.r.cfg.Log.Error("hooks did not take events in time, so the oldest are lost; see why the hooks fail",
			"lost", n, "oldest", oldest, "waiting", l.count, "failing", l.failing())
		if n < limits.Batch {
			return nil
		}
	}
}

// dispatch starts the deliveries that may start, and says when to come back if
// nothing happens before.
func (l *loop) dispatch(ctx context.Context, now time.Time) time.Time {
	next := l.trimAt
	if l.stale {
		next = earlier(next, l.scanAfter)
	}
	if len(l.taken) > 0 && !l.noting {
		next = earlier(next, l.noteAfter)
	}
	for _, q := range l.queues {
		for n := q.next(now, l.r.limits.Parallel); n != nil; n = q.next(now, l.r.limits.Parallel) {
			l.start(ctx, q, n)
		}
		if len(q.waiting) > 0 {
			next = earlier(next, q.waiting[0].due)
		}
	}
	return next
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// start begins to deliver the first event of a lane.
func (l *loop) start(ctx context.Context, q *queue, n *lane) {
	d := &delivery{q: q, lane: n, slice: n.slice, id: n.ids[0], retrying: n.failures > 0}
	n.busy = true
	q.running++
	if d.retrying {
		q.retrying++
	}
	l.deliveries.Go(func() {
		e, err := l.r.event(d.id)
		switch {
		case errors.Is(err, store.ErrNotFound):
			d.gone = true
		case err != nil:
			d.err = err
		default:
			limited, cancel := context.WithTimeout(ctx, q.hook.Timeout)
			d.err = q.sender.send(limited, e)
			cancel()
		}
		l.results <- d
	})
}

// event reads one from the store.
func (r *Runner) event(id string) (e Event, err error) {
	err = r.cfg.Store.Read(func(v *store.View) error {
		m, err := v.Message(id)
		if err != nil {
			return err
		}
		e, err = read(id, m)
		return err
	})
	return e, err
}

// end is what follows from a delivery.
func (l *loop) end(d *delivery, stopping bool) {
	q := d.q
	q.running--
	if d.retrying {
		q.retrying--
	}
	switch {
	case d.gone:
		q.done(d.lane, d.id)
	case d.err == nil:
		l.taken = append(l.taken, d)
		l.well(d)
	default:
		d.lane.failures++
		q.retry(d.lane, time.Now().Add(l.r.limits.backoff(d.lane.failures)))
		if !stopping && !errors.Is(d.err, store.ErrClosed) {
			l.failed(d)
		}
	}
}

// note has the store know what was taken, all of it in one decision. Only when it
// does, the next events of those slices are delivered: so what is delivered again
// after a crash is the last event of a slice at most.
func (l *loop) note(now time.Time) {
	if l.noting || len(l.taken) == 0 || now.Before(l.noteAfter) {
		return
	}
	taken := l.taken
	l.taken, l.noting, l.noteAfter = nil, true, now.Add(pace)
	l.deliveries.Go(func() {
		by := map[string][]string{}
		for _, d := range taken {
			by[d.id] = append(by[d.id], d.q.hook.Name)
		}
		n := noted{taken: taken}
		n.err = l.r.cfg.Store.Commit(context.Background(), func(v *store.View) (cs store.ChangeSet, err error) {
			n.deleted, err = store.Taken(v, &cs, by)
			return cs, err
		})
		l.noted <- n
	})
}

// settle is what follows from noting.
func (l *loop) settle(n noted) {
	l.noting = false
	if n.err != nil {
		l.taken = append(n.taken, l.taken...)
		l.noteAfter = time.Now().Add(trouble)
		if !errors.Is(n.err, store.ErrClosed) {
			l.r.cfg.Log.Error("cannot note which events hooks have taken; they may get them again", "error", n.err)
		}
		return
	}
	l.count -= n.deleted
	l.r.waiting.Store(int64(l.count))
	for _, d := range n.taken {
		d.q.done(d.lane, d.id)
	}
}
