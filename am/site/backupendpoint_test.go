package site

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/testkit/wait"
)

// TestBackupEndpoint checks that only one backup runs at a time, and that a client who does not read it
// is disconnected.
func TestBackupEndpoint(t *testing.T) {
	s, err := store.Open(filepath.Join(t.TempDir(), "state.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	err = s.Commit(t.Context(), func(*store.View) (cs store.ChangeSet, err error) {
		for i := range 32 { // far more than the kernel buffers
			cs.PutDocument(am.Document{ID: fmt.Sprint(i), Text: make([]byte, 1<<20)})
		}
		return cs, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	out := new(wait.Buffer)
	door := &backupEndpoint{site: &Site{store: s, config: &Config{}, log: slog.New(slog.NewTextHandler(out, nil))}, part: 300 * time.Millisecond, whole: time.Hour, wait: 150 * time.Millisecond, busy: make(chan struct{}, 1)}
	server := httptest.NewServer(door)
	defer server.Close()

	lazy, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer lazy.Body.Close()
	again, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(again.Body)
	again.Body.Close()
	// On a slow machine the first backup may have been cancelled already.
	if again.StatusCode != http.StatusOK && (again.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(string(text), "another backup is being made")) {
		t.Errorf("a second one meanwhile: %d %.200s", again.StatusCode, text)
	}
	wait.Until(t, "the unread backup is cancelled", func() bool { return strings.Contains(out.String(), "a backup was not read to its end") })
	if n, err := io.Copy(io.Discard, lazy.Body); err == nil || n >= lazy.ContentLength {
		t.Errorf("its client gets no error: %d bytes, %v", n, err)
	}
	wait.Until(t, "the next backup is complete", func() bool {
		good, err := http.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer good.Body.Close()
		n, err := io.Copy(io.Discard, good.Body)
		return good.StatusCode == http.StatusOK && err == nil && n == good.ContentLength
	})
}
