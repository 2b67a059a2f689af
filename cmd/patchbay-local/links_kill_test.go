package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"patchbay/am/testkit/hoststate"
	"patchbay/am/testkit/require"
	"patchbay/am/testkit/wait"
	"patchbay/inventory/local/vswitch"
)

// childrenOf are the processes of up that run under a name.
func (b *testSite) childrenOf(name string) []int {
	var found []int
	all, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", b.up.Process.Pid))
	for _, path := range all {
		children, _ := os.ReadFile(path)
		for pid := range strings.FieldsSeq(string(children)) {
			if line, _ := os.ReadFile("/proc/" + pid + "/cmdline"); strings.HasPrefix(string(line), name) {
				n, _ := strconv.Atoi(pid)
				found = append(found, n)
			}
		}
	}
	return found
}

// longestPause is the longest time without an answer from a moment on, and how many
// questions after it had none.
func (a echoTimes) longestPause(from time.Time) (longest time.Duration, lost int) {
	last := from
	came := slices.Sorted(slices.Values(a.Came))
	for _, ns := range came {
		if at := time.Unix(0, ns); at.After(from) {
			longest, last = max(longest, at.Sub(last)), at
		}
	}
	for i, ns := range a.Came {
		if ns == 0 && time.Unix(0, a.Left[i]).After(from) {
			lost++
		}
	}
	if end := time.Unix(0, a.Left[len(a.Left)-1]); end.After(last) {
		longest = max(longest, end.Sub(last))
	}
	return longest, lost
}

// awaitSame waits until there is nothing more than before, whatever numbers
// processes and sockets have now.
func (b *testSite) awaitSame(t *testing.T, before hoststate.State) {
	t.Helper()
	numbers := regexp.MustCompile(`[0-9]+`)
	wait.Clear(t, func() string {
		more := make(map[string]int)
		for _, line := range hoststate.Diff(before, b.hostState()) {
			way, what, _ := strings.Cut(line, ": ")
			more[numbers.ReplaceAllString(what, "N")] += map[string]int{"new": 1, "gone": -1}[way]
		}
		maps.DeleteFunc(more, func(_ string, n int) bool { return n <= 0 })
		if len(more) == 0 {
			return ""
		}
		return fmt.Sprintf("there is more than before: %v", more)
	})
}

// TestFlowsRecoverFromKills kills what makes links while traffic goes over them.
func TestFlowsRecoverFromKills(t *testing.T) {
	require.Root(t)
	require.TUN(t)
	b := newTestSite(t, "links-kill", "emulator: vswitch")
	s := b.join(t, "flows", 0, []testLink{
		between("delayed", linkProperties{latency: 5}, linkProperties{latency: 5}),
		between("shaped", linkProperties{capacity: 10e3}, linkProperties{capacity: 10e3}),
		between("plain", linkProperties{}, linkProperties{}),
	})
	s.inNodes(t, programOfTests(t), "a")
	before := b.hostState()
	for _, tt := range []struct {
		name string
		kill func(t *testing.T) // returns when all is said to be well again
		most time.Duration      // for which a flow may rest, beside that
	}{
		{"vswitch", func(t *testing.T) {
			pids := b.childrenOf(vswitch.Argv0)
			if len(pids) != 1 {
				t.Fatalf("there are switch processes %d, want one", pids)
			}
			if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}, 2 * time.Second},
		{"up", func(*testing.T) { b.restart(syscall.SIGKILL) }, 2 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			asks := make(map[string]*insideJob)
			for _, link := range []string{"delayed", "shaped", "plain"} {
				facts, err := json.Marshal(facts{Address: s.address("b", link) + ":7373", Time: 5 * time.Second})
				if err == nil {
					asks[link], err = s.startIn(t.Context(), s.id("a"), []string{"/var/tmp/escape"},
						escapeVariable+"=ask-all-along", escapeFacts+"="+string(facts))
				}
				if err != nil {
					t.Fatal(err)
				}
				<-asks[link].begun
			}
			stream := make(chan error, 1)
			go func() {
				_, err := s.linktest(t.Context(), "ab", "delayed", "--only", "tcp", "--time", "3s")
				stream <- err
			}()
			time.Sleep(time.Second)
			killed := time.Now()
			tt.kill(t)
			most := tt.most + time.Since(killed)
			for _, link := range []string{"delayed", "shaped", "plain"} {
				text, err := asks[link].wait()
				var a echoTimes
				if err == nil {
					err = json.Unmarshal([]byte(strings.TrimPrefix(text, "begun\n")), &a)
				}
				if err != nil {
					t.Fatalf("%s: %v: %.200s", link, err, text)
				}
				out, lost := a.longestPause(killed)
				emulator := s.item(t, "b", link).Emulator
				t.Logf("%s, made by %s: no answer for %v, %d lost", link, emulator, out.Round(time.Millisecond), lost)
				if out > most {
					t.Errorf("%s: no answer for %v, want at most %v", link, out, most)
				}
				if lost > 0 && !strings.Contains(emulator, "vswitch") {
					t.Errorf("%s: %d answers were lost, though the kernel alone makes the link", link, lost)
				}
			}
			if err := <-stream; err != nil {
				t.Errorf("a TCP stream did not outlive it: %v", err)
			}
			b.awaitSame(t, before)
		})
	}
}
