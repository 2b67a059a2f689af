package web

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/am/authority"
	"patchbay/am/service"
	"patchbay/credentials/trial"
)

// TestSignInWithoutDatabase checks that an error of the database is for the log, which does not get the link.
func TestSignInWithoutDatabase(t *testing.T) {
	dir, log := t.TempDir(), new(bytes.Buffer)
	if _, err := trial.Create(filepath.Join(dir, "authority"), "example.org", time.Now()); err != nil {
		t.Fatal(err)
	}
	a, err := authority.Open(dir, filepath.Join(dir, "authority"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(Config{
		URL: "http://127.0.0.1:8", Authority: a, Now: time.Now, Log: slog.New(slog.NewTextHandler(log, nil)),
		Free: func() (service.Free, error) { return service.Free{}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	send := func(method, path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		p.ServeHTTP(w, httptest.NewRequest(method, "http://127.0.0.1:8"+path, nil))
		return w
	}
	if w := send(http.MethodPost, "/ui/sign-in?link=secret"); w.Code != http.StatusForbidden {
		t.Errorf("an unknown link: %d", w.Code)
	}
	a.Close()
	for path, method := range map[string]string{"/ui/sign-in/secret": http.MethodGet, "/ui/sign-in?link=secret": http.MethodPost} {
		if w := send(method, path); w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "database") {
			t.Errorf("%s %s: %d %s", method, path, w.Code, w.Body)
		}
	}
	if text := log.String(); strings.Count(text, "database not open") < 2 || strings.Contains(text, "secret") {
		t.Errorf("the log: %s", text)
	}
}
