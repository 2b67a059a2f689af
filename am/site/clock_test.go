package site

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/am/site/clock"
)

// TestJumpOfTheHostsClock has a site whose host's clock jumps by a year. The site is not ready
// until both clocks agree again, or an operator reloads.
func TestJumpOfTheHostsClock(t *testing.T) {
	c, err := ReadConfig(filepath.Join(made(t), ConfigName))
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), c, c.Log.New(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.working.Store(true)
	start, ahead := time.Now(), time.Duration(0)
	s.clock = clock.New(clock.Options{
		Read:   func() (time.Time, time.Duration) { return start.Add(ahead), time.Hour },
		Synced: func() bool { return false },
	})
	if err := s.checkReady(); err != nil {
		t.Fatal(err)
	}
	inDoubt := func(want string) {
		t.Helper()
		w := httptest.NewRecorder()
		s.server.AdminHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		if !strings.Contains(w.Body.String(), "\npatchbay_clock_in_doubt "+want+"\n") {
			t.Errorf("the metrics do not have patchbay_clock_in_doubt %s", want)
		}
	}
	jump := func() {
		t.Helper()
		ahead = 365 * 24 * time.Hour
		if err := s.checkReady(); err == nil || !strings.Contains(err.Error(), "the host's clock was set to ") {
			t.Errorf("after a jump the site is ready: %v", err)
		}
		inDoubt("1")
	}
	jump()
	ahead = time.Second // both clocks agree again
	if err := s.checkReady(); err != nil {
		t.Errorf("after the clock was corrected: %v", err)
	}
	inDoubt("0")
	jump()
	s.reload(t.Context()) // SIGHUP
	if !s.clock.State().Jumped() {
		t.Error("SIGHUP makes the host's clock trusted")
	}
	for _, jumped := range []bool{true, false} {
		w := httptest.NewRecorder()
		s.serveReload(w, httptest.NewRequest(http.MethodPost, "/reload", strings.NewReader(`{"operator":"alice"}`)))
		if w.Code != http.StatusOK || strings.Contains(w.Body.String(), " instead of ") != jumped {
			t.Errorf("a reload after a jump (%v) answers %d %s", jumped, w.Code, w.Body)
		}
	}
	if err := s.checkReady(); err != nil || !s.clock.Now().Equal(start.Add(ahead)) {
		t.Errorf("after a reload: %v, the time is %v", err, s.clock.Now())
	}
}
