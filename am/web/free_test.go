package web

import (
	"compress/gzip"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"patchbay/am/authority"
	"patchbay/am/service"
	"patchbay/am/urn"
)

// TestFreePages checks the page and free.json, and that they are made once for each answer.
func TestFreePages(t *testing.T) {
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	free := service.Free{Version: 1, At: at, Types: []service.FreeType{
		{Name: "raw-pc", Hardware: []string{"small", "pc"}, Kind: "exclusive", Total: 4, InService: 3, Cleaning: 1, NextFree: at.Add(time.Hour)},
		{Name: "vm", Kind: "shared", Total: 9, InService: 9, Free: 8},
	}, Maintenance: []service.FreeMaintenance{{From: at, Until: at.Add(2 * time.Hour), Text: "<b>disks</b>"}}}
	p, err := New(Config{
		Site: "example.org", URL: "http://127.0.0.1:8", Now: func() time.Time { return at }, Log: slog.New(slog.DiscardHandler),
		Free: func() (service.Free, error) { return free, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	get := func(path, name, value string) (*http.Response, string) {
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:8"+path, nil)
		r.Header.Set(name, value)
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		text := w.Body.String()
		if w.Header().Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(w.Body)
			if err != nil {
				t.Fatal(err)
			}
			b, _ := io.ReadAll(z)
			text = string(b)
		}
		return w.Result(), text
	}
	const json = `{"at":"2030-01-01T00:00:00Z","types":[{"name":"raw-pc","hardware":["small","pc"],"kind":"exclusive","total":4,"in_service":3,"free":0,"cleaning":1,` +
		`"next_free":"2030-01-01T01:00:00Z"},{"name":"vm","kind":"shared","total":9,"in_service":9,"free":8}],` +
		`"maintenance":[{"from":"2030-01-01T00:00:00Z","until":"2030-01-01T02:00:00Z","text":"\u003cb\u003edisks\u003c/b\u003e"}]}` + "\n"
	for path, parts := range map[string][]string{
		"/free.json": {json},
		"/ui/":       {"small, pc", "1 Jan 2030 01:00 UTC", "1 being cleaned", "slot on a shared host", "the whole site", "&lt;b&gt;disks"},
	} {
		resp, text := get(path, "Accept", "*/*")
		for _, part := range parts {
			if !strings.Contains(text, part) || resp.StatusCode != http.StatusOK || resp.Header.Get("Cache-Control") != "no-cache" {
				t.Errorf("%s: %v, no %q in\n%s", path, resp, part, text)
			}
		}
		if zipped, same := get(path, "Accept-Encoding", "gzip"); same != text || zipped.Header.Get("Content-Encoding") != "gzip" {
			t.Errorf("%s in gzip: %v %s", path, zipped.Header, same)
		}
		tag := resp.Header.Get("ETag")
		if again, text := get(path, "If-None-Match", tag); again.StatusCode != http.StatusNotModified || text != "" {
			t.Errorf("%s is sent again: %d %s", path, again.StatusCode, text)
		}
		made := &p.free.html[0]
		if get(path, "Accept", "*/*"); made != &p.free.html[0] {
			t.Errorf("%s is made again", path)
		}
		free.Version, free.Types[1].Free = free.Version+1, free.Types[1].Free-1
		if again, text := get(path, "If-None-Match", tag); again.StatusCode != http.StatusOK || !strings.Contains(text, "7") {
			t.Errorf("%s is not sent after a change: %d", path, again.StatusCode)
		}
		free.Version, free.Types[1].Free = free.Version+1, free.Types[1].Free+1
	}
	w := httptest.NewRecorder()
	q := &request{Pages: p, w: w, r: httptest.NewRequest(http.MethodGet, "/ui/", nil), visitor: &authority.Visitor{Member: urn.URN{Name: "alice"}}}
	if err := q.showFree(); err != nil || !strings.Contains(w.Body.String(), "alice") || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("a member's page: %v %v\n%s", err, w.Header(), w.Body)
	}
	if _, text := get("/ui/", "Accept", "*/*"); strings.Contains(text, "alice") {
		t.Error("the public page has a member's name")
	}
}
