package operate

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"patchbay/am"
	"patchbay/am/service/policy"
	"patchbay/am/store"
	"patchbay/am/urn"
)

const (
	// maxReaders limits the lists and manifests that are made or sent at one time;
	// further requests wait.
	maxReaders = 8
	// slowReader limits the time in which a client reads a list or a manifest.
	slowReader = 5 * time.Minute
	// maxOrder limits the length of an order in bytes.
	maxOrder = 1 << 20
	// maxRequest limits the length of a request in bytes; the site's own limit may be lower.
	maxRequest = 64 << 20
)

// Endpoints returns the handlers of a served site's socket for operators, by pattern:
//
//	GET /slices?slice=PATTERN&limit=N   and /slivers, /nodes, /tasks, /journal, /usage, /calendar: rows,
//	                        one JSON object a line; the query is a Filter's
//	GET /inspect?slice=URN  the manifest of a slice, even if it was shut down
//	GET /held?user=URN&slice=URN  what the user, the slice and its project hold
//	POST /fits              a request RSpec, answered by Fits as one line of JSON
//	POST /release           a Release, answered by a Result; and /renew, /move, /shutdown, /thaw
//
// A refused request gets status 422 with the reason as its text; a malformed one
// gets 400.
func Endpoints(d *Operations) map[string]http.Handler { return endpoints(d, maxReaders) }

// endpoints does what Endpoints does, with the limit readers in place of maxReaders.
func endpoints(d *Operations, readers int) map[string]http.Handler {
	c := &listServer{operations: d, slots: make(chan struct{}, readers)}
	handlers := map[string]http.Handler{
		"GET /inspect":   http.HandlerFunc(c.inspect),
		"GET /held":      http.HandlerFunc(c.held),
		"POST /fits":     http.HandlerFunc(c.fits),
		"POST /release":  orderHandler(func(r *http.Request, o Release) (Result, error) { return d.Release(r.Context(), o) }),
		"POST /renew":    orderHandler(func(r *http.Request, o Renew) (Result, error) { return d.Renew(r.Context(), o) }),
		"POST /move":     orderHandler(func(r *http.Request, o Move) (Result, error) { return d.Move(r.Context(), o) }),
		"POST /shutdown": orderHandler(func(r *http.Request, o Shutdown) (Result, error) { return d.Shutdown(r.Context(), o) }),
		"POST /thaw":     orderHandler(func(r *http.Request, o Thaw) (Result, error) { return d.Thaw(r.Context(), o) }),
	}
	for _, what := range ListNames {
		handlers["GET /"+what] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.list(w, r, what) })
	}
	return handlers
}

type listServer struct {
	operations *Operations
	slots      chan struct{}
}

func (c *listServer) list(w http.ResponseWriter, r *http.Request, name string) {
	q, err := ReadQuery(r)
	var f Filter
	if err == nil {
		f, err = ParseFilter(q)
	}
	c.answer(w, r, "application/x-ndjson", err, func() ([]byte, error) { return c.operations.listLines(name, f) })
}

func (c *listServer) inspect(w http.ResponseWriter, r *http.Request) {
	q, err := readKeys(r, "slice")
	c.answer(w, r, "text/xml; charset=utf-8", err, func() ([]byte, error) { return c.operations.Inspect(q.Get("slice")) })
}

func (c *listServer) held(w http.ResponseWriter, r *http.Request) {
	q, err := readKeys(r, "user", "slice")
	c.answer(w, r, "application/json", err, func() ([]byte, error) { return c.operations.held(q.Get("user"), q.Get("slice")) })
}

func (c *listServer) fits(w http.ResponseWriter, r *http.Request) {
	text, err := readBody(w, r, maxRequest)
	c.answer(w, r, "application/json", err, func() ([]byte, error) { return c.operations.fitsLine(text) })
}

// answer sends requestErr, if it is not nil, in place of the result of read. The result is
// complete before it is sent, so a slow client does not block the store. If the client does
// not read the whole result within slowReader, the connection is closed.
func (c *listServer) answer(w http.ResponseWriter, r *http.Request, kind string, requestErr error, read func() ([]byte, error)) {
	if requestErr != nil {
		Fail(w, requestErr)
		return
	}
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-r.Context().Done():
		return
	}
	all, err := read()
	if err != nil {
		Fail(w, err)
		return
	}
	w.Header().Set("Content-Type", kind)
	// If the deadline cannot be changed, the server's general deadline applies.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(slowReader))
	w.Write(all) // the client may have closed the connection
}

func orderHandler[T any](run func(*http.Request, T) (Result, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var o T
		if err := ReadOrder(w, r, maxOrder, &o); err != nil {
			Fail(w, err)
			return
		}
		done, err := run(r, o)
		if err != nil {
			Fail(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(done) // the client may have closed the connection
	})
}

// held returns a policy.Used in JSON. slice may be "" for none.
func (d *Operations) held(user, slice string) ([]byte, error) {
	u, err := urn.Parse(user)
	var in urn.URN
	if err == nil && slice != "" {
		in, err = urn.Parse(slice)
	}
	if err != nil {
		return nil, malformed("%v", err)
	}
	var h policy.Used
	err = d.cfg.Store.Read(func(v *store.View) (err error) {
		ahead := policy.AheadOf(u)
		if err := v.Calendar(func(h *am.Hold) bool { ahead.Add(h); return true }); err != nil {
			return err
		}
		h.Windows, h.NodeHours = ahead.Counts()
		h.Held, err = policy.Calendar(v.Calendar).Held(u, in, v.Now(), v.Now().Add(time.Second), v.Now()) // now, without reservations ahead
		return err
	})
	if err != nil {
		return nil, err
	}
	return json.Marshal(h)
}

// Inspect returns the manifest of a slice, by its URN or name, even if the slice was shut
// down. It fails with a *RefusedError or an error of the store.
func (d *Operations) Inspect(arg string) ([]byte, error) {
	var slice urn.URN
	err := d.cfg.Store.Read(func(v *store.View) (err error) {
		slice, err = findOneSlice(v, arg)
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
