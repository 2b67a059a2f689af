package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/client"
	"patchbay/am/store"
	"patchbay/am/testkit/wait"
)

// TestLockdownWhileClientsAllocate locks a site down while eight clients allocate and
// delete. When the command has returned, nothing more is allocated, existing nodes
// continue, and a restart keeps that.
func TestLockdownWhileClientsAllocate(t *testing.T) {
	o := newOperatedSite(t)
	ctx := t.Context()
	c := o.client(o.user, false)
	code := func(what string, r client.Reply, want am.Code) {
		t.Helper()
		if r.Code != want {
			t.Errorf("%s: code %d %q, want %d", what, r.Code, r.Output, want)
		}
	}
	request := func(id string) string { return strings.Replace(soakRequest, `"n"`, strconv.Quote(id), 1) }
	old, oldCred := o.slice("old")
	o.awaitReady(c, old, oldCred)

	var stop, returned atomic.Bool
	var reserved, refused, late atomic.Int64
	var wg sync.WaitGroup
	for i := range 8 {
		u, cred := o.slice(fmt.Sprint("load", i))
		c := o.client(o.user, false)
		wg.Go(func() {
			for n := 0; !stop.Load(); n++ {
				after := returned.Load()
				_, r, err := c.Allocate(context.Background(), u, cred, request(fmt.Sprint("n", n)), client.Options{})
				switch {
				case r.Code == am.Success && err == nil:
					reserved.Add(1)
					if after {
						late.Add(1)
					}
					if n%2 == 0 { // the others fill the slice
						c.Delete(context.Background(), []string{u}, cred, client.Options{})
					}
				case r.Code == am.Unavailable && strings.Contains(r.Output, "power cut"):
					refused.Add(1)
				case r.Code == am.TooBig: // all nodes are in use
					c.Delete(context.Background(), []string{u}, cred, client.Options{})
				default:
					t.Errorf("Allocate: code %d %q, %v", r.Code, r.Output, err)
					return
				}
			}
		})
	}
	wait.Until(t, "some have reserved", func() bool { return reserved.Load() >= 16 })
	wantTexts(t, o.runOK("lockdown", "--reason", "power cut"), "New reservations are refused from now on.")
	locked := time.Now()
	returned.Store(true)
	wait.Until(t, "all are refused", func() bool { return refused.Load() >= 64 })
	stop.Store(true)
	wg.Wait()
	if n := late.Load(); n != 0 {
		t.Errorf("%d calls that began after the command had returned have reserved something", n)
	}
	t.Logf("%d calls reserved before, %d refused", reserved.Load(), refused.Load())

	still := func(when string) {
		t.Helper()
		_, r, _ := c.Renew(ctx, []string{old}, oldCred, time.Now().Add(20*time.Hour), client.Options{})
		code("Renew "+when, r, am.Success)
		_, r, _ = c.PerformOperationalAction(ctx, []string{old}, oldCred, "geni_restart", client.Options{})
		code("geni_restart "+when, r, am.Success)
		o.wantState(c, old, oldCred, "geni_ready")
		_, r, _ = c.Allocate(ctx, old, oldCred, request("more"), client.Options{})
		code("Allocate "+when, r, am.Unavailable)
	}
	still("in the lockdown")
	o.stop()
	all := o.allocated()
	if n := int64(len(all)); n != reserved.Load()+1 {
		t.Errorf("the journal tells of %d reservations, want %d", n, reserved.Load()+1)
	}
	for _, at := range all {
		if at.After(locked) {
			t.Errorf("a reservation was decided %v after the command had returned", at.Sub(locked))
		}
	}
	o.start()
	c = o.client(o.user, false)
	still("after a restart")
	_, r, _ := c.Delete(ctx, []string{old}, oldCred, client.Options{})
	code("Delete", r, am.Success)
	o.runOK("lockdown", "--lift")
	_, r, _ = c.Allocate(ctx, old, oldCred, request("again"), client.Options{})
	code("Allocate when it is lifted", r, am.Success)
}

// allocated returns the times of reservations, from the journal of a site that is not
// served.
func (s *servedSite) allocated() (all []time.Time) {
	s.t.Helper()
	st, err := store.Open(filepath.Join(s.dir, "state.db"), store.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	defer st.Close()
	err = st.Read(func(v *store.View) error {
		return v.Journal(func(e am.JournalEntry) bool {
			if e.Event == "Allocate" {
				all = append(all, e.At)
			}
			return true
		})
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return all
}
