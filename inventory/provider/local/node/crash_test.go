package node

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/am/testkit/require"
)

// creatorArgv0 is the name of the test binary as a program that creates nodes until it is killed.
const creatorArgv0 = "node-creator"

// creatorOptions are the options of a creator.
type creatorOptions struct {
	State, Instance string
	Specs           []Spec
	Once            bool // do not repeat
}

// runCreator creates nodes, two at a time, prints each that runs, and starts again by removing it.
// It does not return.
func runCreator() {
	var c creatorOptions
	if err := json.NewDecoder(os.Stdin).Decode(&c); err != nil {
		panic(err)
	}
	h, err := Open(c.State, c.Instance, nil)
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	var out sync.Mutex
	for part := range 2 {
		go func() {
			for round := 0; round == 0 || !c.Once; round++ {
				for i, s := range c.Specs {
					if i%2 != part {
						continue
					}
					if round > 0 {
						h.Remove(ctx, s.ID)
					}
					if err := h.Prepare(ctx, s); err != nil {
						fmt.Fprintln(os.Stderr, err)
					}
					if _, err := h.Start(ctx, s); err != nil {
						fmt.Fprintln(os.Stderr, err)
						continue
					}
					out.Lock()
					fmt.Println(s.ID)
					out.Unlock()
				}
			}
		}()
	}
	select {}
}

// startCreator starts a creator, which prints running nodes.
func startCreator(t *testing.T, c creatorOptions) (*exec.Cmd, io.Reader) {
	t.Helper()
	in, err := json.Marshal(c)
	must(t, err)
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{creatorArgv0}
	cmd.Stdin = strings.NewReader(string(in))
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait() // any exit status is fine
	})
	return cmd, out
}

func specs(image Image, n int) []Spec {
	all := make([]Spec, n)
	for i := range all {
		all[i] = spec(fmt.Sprintf("n%d", i), image)
		all[i].Base += uint32(i) * idCount
	}
	return all
}

// A creator of nodes is killed repeatedly. The nodes that it leaves are inside their cgroups, and
// can be found and removed.
func TestKilledCreatorLeavesNothing(t *testing.T) {
	h := openHost(t, "node-crash")
	all := specs(testImage(t), 12)
	random := rand.New(rand.NewPCG(require.Seed(t), 0))
	adopted, processes := 0, 0
	var most time.Duration // the time that a creator needs for some nodes on this machine
	for round := range require.Rounds(6, 30) {
		began := time.Now()
		cmd, out := startCreator(t, creatorOptions{h.State, h.Instance, all, false})
		if round == 0 {
			lines := bufio.NewReader(out)
			for range 8 {
				if _, err := lines.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
			}
			most = time.Since(began)
		} else {
			time.Sleep(time.Duration(random.Int64N(int64(most))))
		}
		cmd.Process.Kill()
		cmd.Wait()
		processes += checkInsideGroups(t, h, all)
		again := reopenBeside(t, h)
		for _, s := range all {
			if _, ok := again.Find(t.Context(), s.ID); ok {
				adopted++
				expectOutput(t, again, s.ID, "echo alive", "alive\n")
			}
		}
		removeAll(t, again)
		checkNothingLeft(t, again, all...)
		if round == 0 && adopted == 0 {
			t.Error("no node was adopted, of those that ran")
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	t.Logf("%d processes outlived their creators, %d nodes were adopted", processes, adopted)
}

// checkInsideGroups checks that all processes of nodes are in the cgroups of the instance, and
// counts them.
func checkInsideGroups(t *testing.T, h *Host, all []Spec) int {
	t.Helper()
	n := 0
	for pid, uid := range livingProcesses(t) {
		exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		ours := strings.HasPrefix(exe, h.State)
		for _, s := range all {
			ours = ours || uid >= s.Base && uid < s.Base+idCount
		}
		if !ours {
			continue
		}
		n++
		var groups []byte
		for range 3000 {
			groups, _ = os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
			_, state, err := ProcessStat(pid)
			if strings.Contains(string(groups), filepath.Join("/patchbay-local", h.Instance)) || err != nil || state == zombie {
				groups = nil
				break
			}
			time.Sleep(10 * time.Millisecond) // an ending process leaves its cgroups first
		}
		if groups != nil {
			t.Errorf("process %d (%s) is outside:\n%s", pid, exe, groups)
		}
	}
	return n
}
