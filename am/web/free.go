package web

import (
	"encoding/json"
	"errors"
	"net/http"
	"sync"

	"patchbay/am/service"
)

var freeRoutes = []route{
	{"GET /ui/{$}", anyone, (*request).showFree, nil},
	{"GET /free.json", anyone, (*request).showFree, nil},
}

// freePages has the page for visitors who are not signed in, and free.json. They are made once for each answer of
// Config.Free, so the page has no times relative to now.
type freePages struct {
	mu         sync.Mutex
	version    uint64 // of the answer
	html, json []byte
}

// bodies returns the page of an answer, and free.json.
func (f *freePages) bodies(q *request, free service.Free, x page) (html, text []byte, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.version == free.Version {
		return f.html, f.json, nil
	}
	html, err = q.html(x)
	text, failed := json.Marshal(free)
	if err := errors.Join(err, failed); err != nil {
		return nil, nil, err
	}
	f.version, f.html, f.json = free.Version, html, append(text, '\n')
	return f.html, f.json, nil
}

// showFree shows what is free now, or sends free.json.
func (q *request) showFree() error {
	free, err := q.Free()
	if err != nil {
		return err
	}
	x := page{Name: "free", Title: "Free now", Tab: "free", Body: free}
	isPage := q.r.URL.Path == "/ui/"
	if isPage && q.visitor != nil {
		return q.render(x)
	}
	html, text, err := q.Pages.free.bodies(&request{Pages: q.Pages, r: q.r, now: q.now}, free, x)
	if err != nil {
		return err
	}
	q.w.Header().Set("Cache-Control", "no-cache") // browsers may keep it, and ask each time whether it has changed
	if isPage {
		return q.send(http.StatusOK, htmlType, html)
	}
	return q.send(http.StatusOK, "application/json", text)
}
