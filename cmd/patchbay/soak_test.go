package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/am/client"
	"patchbay/am/client/session"
	"patchbay/am/display"
	"patchbay/am/testkit/program"
	"patchbay/am/testkit/wait"
)

// TestSoak allocates, provisions and deletes for the duration PATCHBAY_SOAK, or one
// second. Every call must succeed, nothing may be left, and memory must not grow.
func TestSoak(t *testing.T) {
	length := time.Second
	if s := os.Getenv("PATCHBAY_SOAK"); s != "" {
		var err error
		if length, err = display.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	const workers = 4
	dir := program.NewSite(t)
	for i := range workers {
		for _, args := range [][]string{{"user", fmt.Sprint("u", i)}, {"slice", fmt.Sprint("s", i), "--owner", fmt.Sprint("u", i)}} {
			if code, out := runCommand(t, append(args, "--config", dir)...); code != 0 {
				t.Fatal(out)
			}
		}
	}
	s := serve(t, dir)
	var calls atomic.Int64
	work := func(i int, until time.Time) error {
		home := filepath.Join(dir, "users", fmt.Sprint("u", i))
		me, err := session.ReadCaller([]string{home}, fmt.Sprint("s", i))
		if err != nil {
			return err
		}
		c, err := client.New(client.Config{URL: s.url + "/am/3.0", CertFile: me.CertFile, KeyFile: me.KeyFile})
		if err != nil {
			return err
		}
		defer c.Close()
		creds, urns := me.ForSlice(), []string{me.SliceURN}
		var made time.Time // rarely, since removal takes time
		for time.Now().Before(until) {
			if _, _, err := c.Allocate(t.Context(), me.SliceURN, creds, program.SmallRequest, client.Options{}); err != nil {
				return fmt.Errorf("allocate: %w", err)
			}
			calls.Add(2)
			if time.Since(made) > time.Second {
				made = time.Now()
				if _, _, err := c.Provision(t.Context(), urns, creds, client.Options{Users: me.Users()}); err != nil {
					return fmt.Errorf("provision: %w", err)
				}
				if _, _, err := c.Describe(t.Context(), urns, creds, client.Options{}); err != nil {
					return fmt.Errorf("describe: %w", err)
				}
				calls.Add(2)
			}
			if _, _, err := c.Delete(t.Context(), urns, creds, client.Options{}); err != nil {
				return fmt.Errorf("delete: %w", err)
			}
		}
		return nil
	}
	spell := func(d time.Duration) {
		until := time.Now().Add(d)
		var all sync.WaitGroup
		for i := range workers {
			all.Go(func() {
				if err := work(i, until); err != nil {
					t.Errorf("worker %d: %v", i, err)
				}
			})
		}
		all.Wait()
		wait.Until(t, "nothing left", func() bool {
			_, metrics := program.Get(t, s.admin+"/metrics")
			return program.Metric(t, metrics, "patchbay_slivers") == 0 && program.Metric(t, metrics, "patchbay_tasks") == 0
		})
	}
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	spell(length / 4) // until caches are full
	before := heap()
	spell(length * 3 / 4)
	after := heap()
	t.Logf("%d calls in %s, heap %d kB before and %d kB after", calls.Load(), length, before>>10, after>>10)
	if after > before+(16<<20) {
		t.Errorf("the heap has grown from %d kB to %d kB", before>>10, after>>10)
	}
}
