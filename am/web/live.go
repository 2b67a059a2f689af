package web

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

const (
	// revisionPause is how often a stream asks for the revision.
	revisionPause = time.Second
	// eventPause is the shortest time between two events, since each makes the browser fetch a page.
	eventPause = 2 * time.Second
	// sessionCheck is how often a stream checks that its visitor is still signed in.
	sessionCheck = 5 * time.Second
	// eventTimeout is the time in which an event must be sent.
	eventTimeout = 30 * time.Second
	// keepAlive is the interval of comments in a stream without events.
	keepAlive = 15 * time.Second
)

// stream sends an event when revision returns another number than the browser has, until the
// session ends, revision fails or the browser goes. The browser names the number that it has as since in the
// query, or after a broken connection as Last-Event-ID.
func (q *request) stream(revision func(*request) (uint64, error)) error {
	ctx, end, ok := q.BeginStream(q.r.Context(), q.caller())
	if !ok {
		return &problem{http.StatusServiceUnavailable, "Too many open pages", "Close some of your pages."}
	}
	defer end()
	known, _ := strconv.ParseUint(q.r.URL.Query().Get("since"), 10, 64)
	if id, err := strconv.ParseUint(q.r.Header.Get("Last-Event-ID"), 10, 64); err == nil {
		known = id
	}
	q.w.Header().Set("Content-Type", "text/event-stream")
	q.w.Header().Set("Cache-Control", "no-store")
	control := http.NewResponseController(q.w)
	write := func(text string) error {
		control.SetWriteDeadline(time.Now().Add(eventTimeout)) // errors show in Flush
		if _, err := q.w.Write([]byte(text)); err != nil {
			return err
		}
		return control.Flush()
	}
	if write("retry: 2000\n\n") != nil {
		return nil
	}
	checked, written, changed, seen := time.Now(), time.Now(), time.Time{}, uint64(0)
	tick := time.NewTicker(revisionPause)
	defer tick.Stop()
	for {
		var err error
		n := known
		if now := q.Revision(); now != seen && time.Since(changed) >= eventPause {
			seen = now
			if n, err = revision(q); err != nil {
				break
			}
		}
		if time.Since(checked) >= sessionCheck {
			checked = time.Now()
			if !q.isSignedIn() {
				break
			}
			seen = 0 // a role may have changed
		}
		switch {
		case n != known:
			known, written, changed = n, time.Now(), time.Now()
			err = write(fmt.Sprintf("id: %d\ndata: changed\n\n", n))
		case time.Since(written) >= keepAlive:
			written = time.Now()
			err = write(": no change\n\n")
		}
		if err != nil {
			return nil // the browser has gone
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
	write("event: end\ndata: ended\n\n")
	return nil
}

// isSignedIn reports whether the session of the request has not ended.
func (q *request) isSignedIn() bool {
	c, err := q.r.Cookie(q.cookie)
	if err != nil {
		return false
	}
	_, ok, err := q.Authority.Session(c.Value, q.Now())
	return ok && err == nil
}
