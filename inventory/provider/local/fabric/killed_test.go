package fabric

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"patchbay/am/testkit/require"
)

// cutting is used as an emulator: links are set by setLinkWithSegmentation.
const cutting = "cut"

const killedVariable = "FABRIC_TEST_FOLDER"

// killedNodes returns the nodes of the process that is killed, from descriptor 3 on.
const killedNodes = 4

// killedLinks are the links that it creates, changes and removes.
func killedLinks(forced string) []Link {
	shape := Shape{Rate: 100_000}
	if forced == VSwitch {
		shape.Loss = 0.01
	}
	a, b := lan("s1", 3), lan("s1", 3, shape)
	c := sharedLink("s2", 4, 1, "v")
	d := Link{Slice: "s1", Name: "second", Shared: "v", Ends: []End{end(1)}, Shapes: []Shape{shape}}
	d.Ends[0].ID, d.Ends[0].IfName, d.Ends[0].Addresses = "node1/1", "eth2", nil
	return []Link{a, b, c, d}
}

// workUntilKilled changes networks until it is killed.
func workUntilKilled() {
	forced := os.Getenv("FABRIC_TEST_EMULATOR")
	h, err := Open(options(os.Getenv(killedVariable), emulatorOf(forced)))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var nodes [killedNodes]*os.File
	for i := range nodes {
		nodes[i] = os.NewFile(uintptr(3+i), "node")
	}
	links := killedLinks(forced)
	ctx := context.Background()
	for {
		l := links[rand.IntN(len(links))]
		var err error
		switch rand.IntN(10) {
		case 0:
			err = h.RemoveNetwork(ctx, l.Slice)
		case 1, 2:
			err = h.RemoveLinks(ctx, l.Slice, l.Name)
		default:
			if err = setLinkWith(forced, h, l); err != nil {
				break
			}
			for _, e := range l.Ends {
				if err = h.AttachEnd(ctx, l.Slice, l.Name, e.ID, nodes[nodeOf(e)]); err != nil {
					break
				}
			}
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func emulatorOf(forced string) string {
	if forced == cutting {
		return Auto
	}
	return forced
}

func setLinkWith(forced string, h *Host, l Link) (err error) {
	if forced == cutting {
		_, err = setLinkWithSegmentation(h, l)
	} else {
		_, err = h.SetLink(context.Background(), l)
	}
	return err
}

// nodeOf returns the number of the end's node, from 0.
func nodeOf(e End) (i int) {
	fmt.Sscanf(e.ID, "node%d/", &i)
	return i - 1
}

func TestRecoveryAfterKill(t *testing.T) {
	require.NetNS(t)
	for _, forced := range []string{cutting, VSwitch} {
		t.Run(forced, func(t *testing.T) {
			h := open(t, emulatorOf(forced))
			if !h.features.VSwitch && forced == VSwitch {
				require.TUN(t)
			}
			ctx := context.Background()
			var nodes []*node
			var files []*os.File
			for range killedNodes {
				n := newNode(t)
				nodes, files = append(nodes, n), append(files, n.file)
			}
			rounds := 3
			if testing.Short() {
				rounds = 2
			}
			for round := range rounds {
				c := exec.Command("/proc/self/exe")
				c.Env = append(os.Environ(), killedVariable+"="+h.options.Folder, "FABRIC_TEST_EMULATOR="+forced)
				c.ExtraFiles = files
				var words strings.Builder
				c.Stderr = &words
				must(t, c.Start())
				time.Sleep(20*time.Millisecond + rand.N(150*time.Millisecond))
				c.Process.Kill()
				c.Wait()
				if words.Len() > 0 {
					t.Fatalf("round %d: %s", round, words.String())
				}
				h2, err := Open(options(h.options.Folder, emulatorOf(forced)))
				must(t, err)
				if round%2 == 0 { // the currently requested links
					links := killedLinks(forced)
					for _, l := range links[1:] {
						must(t, setLinkWith(forced, h2, l))
						for _, e := range l.Ends {
							if err := h2.AttachEnd(ctx, l.Slice, l.Name, e.ID, nodes[nodeOf(e)].file); err != nil {
								t.Fatalf("round %d: %v", round, err)
							}
						}
					}
					if !isReachable(t, nodes[0], address(1), nodes[1], address(2), long) || !isReachable(t, nodes[1], address(2), nodes[2], address(3), long) {
						t.Errorf("round %d: nodes do not reach each other", round)
					}
					if got := nodes[0].interfaces(); got != "eth1 eth2" && got != "eth2 eth1" {
						t.Errorf("round %d: the first node has %q", round, got)
					}
				}
				removeAllNetworks(t, h2)
				for i, n := range nodes {
					if got := n.interfaces(); got != "" {
						t.Errorf("round %d: after all was dropped node %d has %q", round, i+1, got)
					}
				}
				if err := h2.Close(); err != nil {
					t.Error(err)
				}
				for _, dir := range []string{"slices", "shared"} {
					if list, err := os.ReadDir(h.options.Folder + "/" + dir); err != nil || len(list) != 0 {
						t.Fatalf("round %d: in %s is %v, %v", round, dir, list, err)
					}
				}
			}
		})
	}
}
