package node

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/inventory/local/agent"
	"patchbay/inventory/local/cgroup"
)

// several calls f for 0 to n-1, so many at a time, and stops at errors.
func several(t testing.TB, n, parallel int, f func(i int) error) time.Duration {
	t.Helper()
	began := time.Now()
	places := make(chan struct{}, parallel)
	var wg sync.WaitGroup
	for i := range n {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			if err := f(i); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return time.Since(began)
}

// BenchmarkStart makes n nodes with their disks, two at a time, until their
// agents answer, and removes them again.
func BenchmarkStart(b *testing.B) {
	for _, n := range []int{1, 20, 100, 300} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			h := openHost(b, "node-bench")
			image := testImage(b)
			specs := make([]Spec, n)
			for i := range specs {
				specs[i] = spec(fmt.Sprintf("n%d", i), image)
				specs[i].Base += uint32(i) << 16
				specs[i].Limits.Disk = 4 << 30
			}
			ctx := context.Background()
			if err := h.Prepare(ctx, specs[0]); err != nil { // the template
				b.Fatal(err)
			}
			if err := h.Remove(ctx, specs[0].ID); err != nil {
				b.Fatal(err)
			}
			var made, removed time.Duration
			var pss int
			for b.Loop() {
				running := make([]Running, n)
				made += several(b, n, 2, func(i int) (err error) {
					if err := h.Prepare(ctx, specs[i]); err != nil {
						return err
					}
					running[i], err = h.Start(ctx, specs[i])
					return err
				})
				for _, r := range running {
					pss += memory(b, r.PID)
				}
				removed += several(b, n, 8, func(i int) error { return h.Remove(ctx, specs[i].ID) })
			}
			b.ReportMetric(float64(made.Milliseconds())/float64(b.N), "ms-made")
			b.ReportMetric(float64(removed.Milliseconds())/float64(b.N), "ms-removed")
			b.ReportMetric(float64(pss)/float64(n*b.N), "kB/agent")
		})
	}
}

// memory is the proportional set size of a process, in kB.
func memory(t testing.TB, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(b), "\nPss:")
	fields := strings.Fields(after)
	kb, err := strconv.Atoi(fields[0])
	if err != nil {
		t.Fatal(err)
	}
	return kb
}

// BenchmarkExec runs /bin/true through the agent, at once again and after a
// pause: the kernel lets itself time to move a process when none moved lately.
func BenchmarkExec(b *testing.B) {
	for name, pause := range map[string]time.Duration{"AtOnce": 0, "Paused": 30 * time.Millisecond} {
		b.Run(name, func(b *testing.B) {
			h := openHost(b, "node-bexec")
			launch(b, h, spec("n1", testImage(b)))
			for b.Loop() {
				want(b, h, "n1", "exec true", "")
				b.StopTimer()
				time.Sleep(pause)
				b.StartTimer()
			}
		})
	}
}

// BenchmarkAnswerUnderLoad asks the agent of a node with little processor time
// and many jobs that want all of it.
func BenchmarkAnswerUnderLoad(b *testing.B) {
	h := openHost(b, "node-bload")
	s := spec("n1", testImage(b))
	s.Limits.PIDs = 512
	launch(b, h, s)
	if out, exit := sh(b, h, "n1", "i=0; while [ $i -lt 200 ]; do (while :; do :; done) >/dev/null 2>&1 & i=$((i+1)); done"); exit.Status != 0 {
		b.Fatal(out, exit)
	}
	if err := h.tree.Update("n1", cgroup.Limits{CPUs: 0.05, Memory: s.Limits.Memory, PIDs: s.Limits.PIDs}); err != nil {
		b.Fatal(err)
	}
	var longest time.Duration
	for b.Loop() {
		began := time.Now()
		c, err := h.Agent(b.Context(), "n1")
		if err == nil {
			_, err = agent.Hello(b.Context(), c)
		}
		if err != nil {
			b.Fatal(err)
		}
		longest = max(longest, time.Since(began))
		b.StopTimer()
		time.Sleep(37 * time.Millisecond) // else all are within one period of the limit
		b.StartTimer()
	}
	if u, err := h.Usage("n1"); err != nil || u.PIDs < 200 {
		b.Errorf("the jobs have ended: %+v %v", u, err)
	}
	b.ReportMetric(float64(longest.Milliseconds()), "ms-longest")
}
