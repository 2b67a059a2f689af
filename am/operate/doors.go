package operate

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"patchbay/am"
)

// Bounds of those who ask.
const (
	// maxMade is how many lists and manifests are made at one time.
	maxMade = 4
	// maxUnread is how many bytes of them may wait to be read, all together.
	maxUnread = maxList
	// maxOrder is the length of an order in bytes.
	maxOrder = 1 << 20
	// slowReader is how long the next part of a list may take to be read.
	slowReader = 5 * time.Minute
	// part is how much is written at one time, in bytes.
	part = 256 << 10
)

// Doors are what a served site answers at its socket:
//
//	GET /slices?slice=PATTERN&limit=N   and /slivers, /nodes, /tasks, /journal: rows,
//	                        one JSON object a line; the query is a Filter's
//	GET /inspect?slice=URN  the manifest of a slice, of one that was shut down, too
//	POST /release           a Release, answered by a Done; and /renew, /thaw, /note
//
// What is refused has the status 422 and the reason as its text; what cannot be
// understood as it is written has 400.
func Doors(d *Desk) map[string]http.Handler { return doors(d, maxUnread) }

func doors(d *Desk, unread int) map[string]http.Handler {
	c := &counter{desk: d, places: make(chan struct{}, maxMade), unread: newShelf(unread)}
	doors := map[string]http.Handler{
		"GET /inspect":  http.HandlerFunc(c.inspect),
		"POST /release": order(func(r *http.Request, o Release) (Done, error) { return d.Release(r.Context(), o) }),
		"POST /renew":   order(func(r *http.Request, o Renew) (Done, error) { return d.Renew(r.Context(), o) }),
		"POST /thaw":    order(func(r *http.Request, o Thaw) (Done, error) { return d.Thaw(r.Context(), o) }),
		"POST /note":    order(func(r *http.Request, o Note) (Done, error) { return d.Note(r.Context(), o) }),
	}
	for _, what := range Lists {
		doors["GET /"+what] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.list(w, r, what) })
	}
	return doors
}

// counter is where lists and manifests are handed out. A place is held while one is
// made, and not while it is read: that may take a coffee.
type counter struct {
	desk   *Desk
	places chan struct{}
	unread *shelf
}

// inTurn calls f at a place; it is false if who asked has left.
func (c *counter) inTurn(r *http.Request, f func()) bool {
	select {
	case c.places <- struct{}{}:
	case <-r.Context().Done():
		return false
	}
	defer func() { <-c.places }()
	f()
	return true
}

func (c *counter) list(w http.ResponseWriter, r *http.Request, what string) {
	q, err := ReadQuery(r)
	var f Filter
	if err == nil {
		f, err = ParseFilter(q)
	}
	var text bytes.Buffer
	if err == nil && !c.inTurn(r, func() { text, err = c.desk.press(what, f) }) {
		return
	}
	var z io.Reader
	size := text.Len()
	if err == nil {
		z, err = gzip.NewReader(&text)
	}
	if err != nil {
		Fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	c.hand(w, z, size)
}

func (c *counter) inspect(w http.ResponseWriter, r *http.Request) {
	q, err := ReadQuery(r)
	for key := range q {
		if key != "slice" {
			err = malformed("nothing is called %.40q%s", key, didYouMean(key, []string{"slice"}))
		}
	}
	var text []byte
	if err == nil && !c.inTurn(r, func() { text, err = c.desk.Inspect(q.Get("slice")) }) {
		return
	}
	if err != nil {
		Fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/xml; charset=utf-8")
	c.hand(w, bytes.NewReader(text), len(text))
}

// hand writes an answer, of which so many bytes are in memory, as it is read. If it is
// not, or room is needed, its last chunk is missing.
func (c *counter) hand(w http.ResponseWriter, text io.Reader, size int) {
	to := http.NewResponseController(w)
	// A server that does not move its limit keeps to the one it has.
	x := c.unread.put(size, func() { _ = to.SetWriteDeadline(time.Now().Add(-time.Second)) })
	defer x.take()
	for x.move(func() { _ = to.SetWriteDeadline(time.Now().Add(slowReader)) }) {
		if _, err := io.CopyN(w, text, part); err != nil {
			return // at the end, or nobody reads any more
		}
	}
}

// order reads an order, has it done and tells what came of it.
func order[T any](do func(*http.Request, T) (Done, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var o T
		if err := ReadOrder(w, r, maxOrder, &o); err != nil {
			Fail(w, err)
			return
		}
		done, err := do(r, o)
		if err != nil {
			Fail(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(done) // who asked may have left
	})
}

// Inspect is the manifest of a slice, by its URN or its name, whatever has
// happened to it. Errors: *RefusedError, those of the store.
func (d *Desk) Inspect(said string) ([]byte, error) {
	slice, err := d.one(said)
	if err != nil {
		return nil, err
	}
	text, err := d.cfg.Manifest(slice)
	if e, ok := errors.AsType[*am.Error](err); ok {
		err = refuse("%s", e.Msg)
	}
	return text, err
}
