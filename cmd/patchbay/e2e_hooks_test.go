package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/am"
	"patchbay/am/client"
	"patchbay/am/hook"
	"patchbay/am/testkit/wait"
)

// hookReceiver is a URL that receives events.
type hookReceiver struct {
	t      *testing.T
	server *httptest.Server
	secret string

	mu    sync.Mutex
	told  []hook.Event
	away  bool
	hangs chan struct{} // until it is closed, no request is answered
}

func newHookReceiver(t *testing.T, secret string) *hookReceiver {
	r := &hookReceiver{t: t, secret: secret}
	r.server = httptest.NewServer(r)
	t.Cleanup(r.server.Close)
	return r
}

func (r *hookReceiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	r.mu.Lock()
	away, hangs := r.away, r.hangs
	r.mu.Unlock()
	if hangs != nil {
		select {
		case <-hangs:
		case <-req.Context().Done():
			return
		}
	}
	if away {
		http.Error(w, "away", http.StatusServiceUnavailable)
		return
	}
	var e hook.Event
	if err := json.Unmarshal(body, &e); err != nil {
		r.t.Error(err)
	}
	if got := req.Header.Get(hook.SignatureHeader); got != hook.Sign([]byte(r.secret), body) {
		r.t.Errorf("%s is signed %q", body, got)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.told) == 0 || r.told[len(r.told)-1].ID != e.ID { // delivery is at least once
		r.told = append(r.told, e)
	}
}

func (r *hookReceiver) words() (list []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.told {
		list = append(list, string(e.Event))
	}
	return list
}

func (r *hookReceiver) set(away bool, hangs chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away, r.hangs = away, hangs
}

// TestHooks proves that an executable and a URL receive the events of a sliver: calls,
// commands of operators and timeouts, across a restart, a kill and an unreachable
// receiver.
func TestHooks(t *testing.T) {
	const secret = "of sixteen bytes, or more"
	o := newOperatedSite(t)
	r := newHookReceiver(t, secret)
	for name, text := range map[string]string{"key": secret + "\n", "hook": "#!/bin/sh\necho \"$PATCHBAY_EVENT\" >>told\n"} {
		if err := os.WriteFile(filepath.Join(o.dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	o.stop()
	file := filepath.Join(o.dir, "patchbay.yaml")
	edit(t, file, "# hooks: []", "hooks:\n  - {name: file, command: hook}\n  - {name: portal, url: \""+r.server.URL+"/events\", secret: key, events: ["+
		strings.Join([]string{"allocated", "ready", "expiring", "renewed", "shutdown", "thawed", "released", "gone"}, ", ")+"]}")
	o.start()
	c := o.client(o.user, false)
	ctx := t.Context()
	slice, cred := o.slice("told")

	r.set(true, nil) // unreachable, and nothing waits for it
	o.awaitReady(c, slice, cred)
	r.set(false, nil)
	wait.Until(t, "the receiver is told when it is back", func() bool { return len(r.words()) == 2 })

	if _, reply, _ := c.Renew(ctx, []string{slice}, cred, time.Now().Add(10*time.Minute), client.Options{}); reply.Code != am.Success {
		t.Fatal(reply.Output)
	}
	wait.Until(t, "it is told of the end of the lease", func() bool { return len(r.words()) == 4 })

	// A hook that hangs delays no call, and its events survive a kill.
	hangs := make(chan struct{})
	r.set(false, hangs)
	if _, reply, _ := c.Shutdown(ctx, slice, cred, client.Options{}); reply.Code != am.Success {
		t.Fatal(reply.Output)
	}
	o.kill()
	close(hangs)
	r.set(false, nil)
	wait.Until(t, "it is thawed while it is not served", func() bool {
		// A child that the server was starting may have held the socket for a moment
		// longer.
		_, _, status := o.patchbay("thaw", "told", "--config", o.dir)
		return status == 0
	})
	o.start()
	c = o.client(o.user, false)
	if _, reply, _ := c.Delete(ctx, []string{slice}, cred, client.Options{}); reply.Code != am.Success {
		t.Fatal(reply.Output)
	}
	want := []string{"allocated", "ready", "renewed", "expiring", "shutdown", "thawed", "released", "gone"}
	wait.Until(t, "it is told of all", func() bool { return len(r.words()) == len(want) })
	if diff := cmp.Diff(want, r.words()); diff != "" {
		t.Error(diff)
	}
	usual := []string{"allocated", "ready", "expiring", "shutdown", "released"}
	wait.Until(t, "so is the executable", func() bool {
		b, _ := os.ReadFile(filepath.Join(o.dir, "told"))
		return cmp.Equal(usual, slices.Compact(strings.Fields(string(b))))
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.told[6]
	if last.Slice != slice || last.ClientID != "n" || last.By != o.user.urn || last.Reason != "Delete" || last.Site != o.name || last.Request == "" {
		t.Errorf("told of the Delete: %+v", last)
	}
	if thawed := r.told[5]; thawed.By == "" || thawed.Reason != "thaw" {
		t.Errorf("told of the thaw: %+v", thawed)
	}
	o.stop()
}
