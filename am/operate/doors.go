package operate

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
)

// Bounds of those who ask.
const (
	// maxReaders is how many lists and manifests are made or being read at one time.
	// Who comes next waits.
	maxReaders = 8
	// slowReader is how long one may take to be read.
	slowReader = 5 * time.Minute
	// maxOrder is the length of an order in bytes.
	maxOrder = 1 << 20
)

// Doors are what a served site answers at its socket:
//
//	GET /slices?slice=PATTERN&limit=N   and /slivers, /nodes, /tasks, /journal, /usage: rows,
//	                        one JSON object a line; the query is a Filter's
//	GET /inspect?slice=URN  the manifest of a slice, of one that was shut down, too
//	POST /release           a Release, answered by a Done; and /renew, /thaw, /note
//
// What is refused has the status 422 and the reason as its text; what cannot be
// understood as it is written has 400.
func Doors(d *Desk) map[string]http.Handler { return doors(d, maxReaders) }

func doors(d *Desk, readers int) map[string]http.Handler {
	c := &reading{desk: d, places: make(chan struct{}, readers)}
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

// reading answers lists and manifests, a few at one time.
type reading struct {
	desk   *Desk
	places chan struct{}
}

func (c *reading) list(w http.ResponseWriter, r *http.Request, what string) {
	q, err := ReadQuery(r)
	var f Filter
	if err == nil {
		f, err = ParseFilter(q)
	}
	c.answer(w, r, "application/x-ndjson", err, func() ([]byte, error) { return c.desk.list(what, f) })
}

func (c *reading) inspect(w http.ResponseWriter, r *http.Request) {
	q, err := ReadQuery(r)
	for key := range q {
		if key != "slice" {
			err = malformed("nothing is called %.40q%s", key, didYouMean(key, []string{"slice"}))
		}
	}
	c.answer(w, r, "text/xml; charset=utf-8", err, func() ([]byte, error) { return c.desk.Inspect(q.Get("slice")) })
}

// answer makes a text and writes it as it is read, unless the question is wrong. The
// store is not held while it is read. A text that is not read in time breaks off
// before its last chunk.
func (c *reading) answer(w http.ResponseWriter, r *http.Request, kind string, wrong error, text func() ([]byte, error)) {
	if wrong != nil {
		Fail(w, wrong)
		return
	}
	select {
	case c.places <- struct{}{}:
		defer func() { <-c.places }()
	case <-r.Context().Done():
		return
	}
	all, err := text()
	if err != nil {
		Fail(w, err)
		return
	}
	w.Header().Set("Content-Type", kind)
	// A server that does not move its limit keeps to the one it has.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(slowReader))
	w.Write(all) // who asked may have left
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
	var slice urn.URN
	err := d.cfg.Store.Read(func(v *store.View) (err error) {
		slice, err = oneSlice(v, said)
		return err
	})
	if err != nil {
		return nil, err
	}
	text, err := d.cfg.Manifest(slice)
	if e, ok := errors.AsType[*am.Error](err); ok {
		err = refuse("%s", e.Msg)
	}
	return text, err
}
