package operate_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/site/operate"
	"patchbay/am/store"
	"patchbay/am/urn"
)

func (s *site) serve() *httptest.Server {
	mux := http.NewServeMux()
	for pattern, h := range operate.Endpoints(s.Operations) {
		mux.Handle(pattern, h)
	}
	at := httptest.NewUnstartedServer(mux)
	at.Start()
	s.t.Cleanup(at.Close)
	return at
}

func TestEndpoints(t *testing.T) {
	s := newSite(t)
	at := s.serve()
	for _, c := range []struct {
		method, what, body string
		status             int
		want               string
	}{
		{"GET", "/slivers?slice=exp-a&limit=1", "", 200, `"client_id":"web"`},
		{"GET", "/slivers?slice=none", "", 422, "there is no slice none here"},
		{"GET", "/slivers?what=x", "", 400, `there is no key "what"`},
		{"GET", "/slices?slice=%zz", "", 400, "the query cannot be read"},
		{"GET", "/slices?slice=exp-a;limit=1", "", 400, "the query cannot be read"},
		{"GET", "/slices?limit=1&limit=2", "", 400, `"limit" is in the query twice`},
		{"GET", "/slices?limit=x", "", 400, "a number of rows"},
		{"GET", "/inspect?slice=frozen&sliver=x", "", 400, `there is no key "sliver"`},
		{"GET", "/inspect?slice=frozen&slice=exp-a", "", 400, `"slice" is in the query twice`},
		{"GET", "/inspect?slice=%zz", "", 400, "the query cannot be read"},
		{"POST", "/slivers", "", 405, ""},
		{"GET", "/inspect?slice=frozen", "", 200, `<rspec slice="frozen"/>`},
		{"GET", "/inspect?slice=exp-b", "", 422, "2 slices have the name"},
		{"GET", "/inspect?slice=" + strings.ReplaceAll(sliceB.String(), "+", "%2B"), "", 422, "it has none"},
		{"GET", "/inspect", "", 422, "no slice is named; name one"},
		{"POST", "/fits", `<rspec xmlns="http://www.geni.net/resources/rspec/3" type="request"><node client_id="n"/></rspec>`, 200, `{"nodes":[{"client_id":"n",`},
		{"POST", "/fits", `<rspec xmlns="http://www.geni.net/resources/rspec/3" type="request"/>`, 422, "the request is empty; add a <node>"},
		{"POST", "/fits", "x", 422, "line 1"},
		{"POST", "/fits?slice=exp-a", "", 400, "/fits takes no query"},
		{"POST", "/release", `{"targets":["exp-a/web"],"operator":"dora"}`, 200, `"removing":1`},
		{"POST", "/release", `{"targets":["frozen"],"operator":"dora"}`, 422, "--frozen"},
		{"POST", "/renew", `{"targets":["exp-a"],"for":60,"operator":"dora"}`, 200, `"expires":"2030-01-02T12:01:00Z"`},
		{"POST", "/thaw", `{"slice":"frozen","operator":"dora"}`, 422, "1 of 1 leases are over"},
		{"POST", "/thaw", `{"slice":"frozen","operator":"dora","extend":{"for":60,"until":"2030-01-03T00:00:00Z"}}`, 422, "give one"},
		{"POST", "/thaw", `{"slice":"frozen","release_expired":true,"operator":"dora"}`, 200, `"slivers":1`},
		{"POST", "/thaw", `{"slice":"frozen","operator":"dora"}`, 422, "not shut down"},
		{"POST", "/thaw", `{"slce":"frozen"}`, 400, `unknown field "slce"`},
		{"POST", "/thaw", ``, 400, "cannot be read"},
		{"POST", "/thaw?slice=exp-a", `{"slice":"frozen","operator":"dora"}`, 400, "/thaw takes no query"},
		{"POST", "/thaw", `{"slice":"frozen","operator":"dora"}{"slice":"exp-a"}`, 400, "there is text after it"},
		{"POST", "/thaw", `{"slice":"frozen","operator":"dora"} x`, 400, "there is text after it"},
		{"POST", "/thaw", `{"slice":"exp-a","operator":"dora","Slice":"frozen"}`, 400, `it has the key "slice" twice`},
		{"POST", "/thaw", `{"slice":"frozen","operator":"dora","extend":{"for":1,"for":2}}`, 400, `it has the key "for" twice`},
		{"POST", "/thaw", "{\"slice\":\"frozen\xff\",\"operator\":\"dora\"}", 400, "not UTF-8"},
		{"POST", "/renew", `{"targets":["exp-a"],"for":60,"until":"2030-01-03T00:00:00Z","operator":"dora"}`, 422, "give one"},
		{"POST", "/release", `{"targets":["` + strings.Repeat("x", 1<<20) + `"]}`, 400, "too large"},
		{"GET", "/release", "", 405, ""},
	} {
		req, err := http.NewRequest(c.method, at.URL+c.what, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != c.status || !strings.Contains(string(body), c.want) {
			t.Errorf("%s %s: %d %.200s, %v, want %d %s", c.method, c.what, resp.StatusCode, body, err, c.status, c.want)
		}
	}
}

// many puts slivers, a hundred to a slice.
func (s *site) many(n int) {
	s.t.Helper()
	for from := 0; from < n; from += 5000 {
		s.commit(func(v *store.View) (cs store.ChangeSet, err error) {
			for i := from; i < min(n, from+5000); i++ {
				slice := name(urn.Slice, fmt.Sprintf("big%d", i/100))
				if i%100 == 0 {
					cs.PutSlice(am.Slice{URN: slice, Created: now})
				}
				cs.PutSliver(am.Sliver{
					URN: name(urn.Sliver, fmt.Sprintf("n%d", i)), Slice: slice, ClientID: fmt.Sprintf("node%d", i%100), Ordinal: i % 100, Component: name(urn.Node, "h1"),
					ComponentName: "h1", Provider: "rack", SliverType: "vm", Image: "debian", Amount: am.Amount{Slots: 1}, Status: ready, Created: now, Creator: alice,
					Expires: now.Add(time.Hour), Observed: am.Observed{State: "ready", Logins: []string{"h1.example.org:22"}, Addresses: []string{"192.0.2.7"}},
				})
			}
			return cs, nil
		})
	}
}

// TestStalledReadersAreBounded stops reading as many lists as may be read at one time. The next
// reader waits until one of them continues. The store accepts changes meanwhile, and the stalled
// lists continue with their old state.
func TestStalledReadersAreBounded(t *testing.T) {
	s := emptySite(t)
	const slivers, readers = 3000, 2 // more than the socket holds
	s.many(slivers)
	mux := http.NewServeMux()
	for pattern, h := range operate.DoorsWith(s.Operations, readers) {
		mux.Handle(pattern, h)
	}
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	const hurry = 500 * time.Millisecond // the write timeout of the server
	at := &http.Server{Handler: mux, WriteTimeout: hurry}
	go at.Serve(l)
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
	defer func() { at.Close(); client.CloseIdleConnections() }()
	ask := func() *http.Response {
		resp, err := client.Get("http://site/slivers")
		if err != nil {
			t.Error(err)
			return nil
		}
		return resp
	}
	read := func(resp *http.Response) {
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if n := strings.Count(string(text), `"state":"ready"`); n != slivers || err != nil {
			t.Errorf("%d lines, %v", n, err)
		}
	}
	var stalled []*http.Response
	for range readers {
		stalled = append(stalled, ask())
	}
	if _, err := s.Release(t.Context(), operate.Release{Targets: []string{"big0"}, Operator: "dora"}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * hurry)
	next := make(chan *http.Response)
	go func() { next <- ask() }()
	for _, resp := range stalled {
		read(resp)
	}
	(<-next).Body.Close()

	// A reader without a free place gets nothing until others end.
	gone, leave := context.WithCancel(t.Context())
	leave()
	w := httptest.NewRecorder()
	operate.DoorsWith(s.Operations, 0)["GET /slivers"].ServeHTTP(w, httptest.NewRequest("GET", "/slivers", nil).WithContext(gone))
	if w.Body.Len() > 0 {
		t.Errorf("more lists are read at one time than may be: %.100s", w.Body)
	}
}

// FuzzQuestions sends random queries. A malformed one is never answered.
func FuzzQuestions(f *testing.F) {
	f.Add("/slivers", "slice=exp-a&limit=1")
	f.Add("/slices", "slice=%zz")
	f.Add("/journal", "a;b=c")
	f.Add("/nodes", "limit=1&limit=2")
	f.Add("/tasks", "what=x")
	f.Add("/inspect", "slice=frozen")
	s := newSite(f)
	doors := operate.Endpoints(s.Operations)
	f.Fuzz(func(t *testing.T, path, query string) {
		door, ok := doors["GET "+path]
		if !ok {
			return
		}
		r := httptest.NewRequest("GET", "/", nil)
		r.URL.RawQuery = query
		w := httptest.NewRecorder()
		door.ServeHTTP(w, r)
		q, err := url.ParseQuery(query)
		if err == nil {
			for _, values := range q {
				if len(values) > 1 {
					err = errors.New("twice")
				}
			}
		}
		if w.Code != 200 && w.Code != 400 && w.Code != 422 || err != nil && w.Code != 400 {
			t.Errorf("%s?%s: %d %s", path, query, w.Code, w.Body)
		}
	})
}

func FuzzOrders(f *testing.F) {
	f.Add("release", `{"targets":["exp-a/web"],"operator":"dora"}`)
	f.Add("renew", `{"targets":["exp-a"],"for":60,"operator":"dora"}`)
	f.Add("shutdown", `{"slice":"exp-a","operator":"dora"}`)
	f.Add("thaw", `{"slice":"frozen","extend":{"until":"2030-01-03T00:00:00Z"},"operator":"dora"}`)
	s := newSite(f)
	doors := operate.Endpoints(s.Operations)
	f.Fuzz(func(t *testing.T, what, body string) {
		door, ok := doors["POST /"+what]
		if !ok {
			return
		}
		w := httptest.NewRecorder()
		door.ServeHTTP(w, httptest.NewRequest("POST", "/", strings.NewReader(body)))
		if w.Code != 200 && w.Code != 400 && w.Code != 422 {
			t.Errorf("%s %s: %d %s", what, body, w.Code, w.Body)
		}
		if w.Code == 400 {
			return // the body is no document
		}
		w = httptest.NewRecorder()
		door.ServeHTTP(w, httptest.NewRequest("POST", "/", strings.NewReader(body+"{}")))
		if w.Code != 400 {
			t.Errorf("%s %s and a second document: %d %s", what, body, w.Code, w.Body)
		}
	})
}
