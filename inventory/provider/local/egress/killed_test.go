package egress

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"patchbay/am/testkit/hoststate"
	"patchbay/am/testkit/netlab"
	"patchbay/am/testkit/require"
	"patchbay/inventory/provider/local/netspace"
)

const childEnv = "OUTBOUND_TEST_CHILD"

func TestMain(m *testing.M) {
	if folder := os.Getenv(childEnv); folder != "" {
		fmt.Fprintln(os.Stderr, child(folder))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// child opens the Router, attaches and detaches nodes until it is killed, or removes all
// and begins again.
func child(folder string) error {
	for round := 1; ; round++ {
		e, err := Open(Options{Folder: folder, Instance: "out-kill", Servers: []netip.Addr{netip.MustParseAddr(netlab.Names)}})
		if err != nil {
			return err
		}
		for number := 1; number <= 4; number++ {
			node, err := netspace.Open(filepath.Join(filepath.Dir(folder), fmt.Sprint("node", number)))
			if err == nil {
				err = e.Attach(context.Background(), number, node)
				node.Close()
			}
			if err == nil && number%2 == 0 {
				err = e.Detach(number)
			}
			if err != nil {
				return err
			}
		}
		if err := e.Close(); err != nil {
			return err
		}
		if round%3 == 0 {
			if err := Remove(folder, "out-kill"); err != nil {
				return err
			}
		}
	}
}

func TestRecoveryAfterKill(t *testing.T) {
	b := netlab.New(t, netlab.Options{})
	dir := t.TempDir()
	var nodes []*os.File
	for number := 1; number <= 4; number++ {
		path := filepath.Join(dir, fmt.Sprint("node", number))
		node, err := netspace.Make(path)
		must(t, err)
		t.Cleanup(func() {
			node.Close()
			if err := netspace.Remove(path); err != nil {
				t.Error(err)
			}
		})
		nodes = append(nodes, node)
	}
	before, err := hoststate.Take(hoststate.Options{Only: []string{"out-kill", dir}})
	must(t, err)
	o := Options{
		Folder: filepath.Join(dir, "outbound"), Instance: "out-kill", Servers: []netip.Addr{netip.MustParseAddr(netlab.Names)},
		host: b.Space(),
	}
	seed := require.Seed(t)
	random := rand.New(rand.NewPCG(seed, 0))
	for round := range require.Rounds(5, 12) {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), childEnv+"="+o.Folder)
		c.Stderr = t.Output()
		must(t, b.Start(c))
		time.Sleep(time.Duration(random.IntN(250)) * time.Millisecond)
		alive := c.Process.Kill() == nil
		if err := c.Wait(); !alive || err == nil || err.Error() != "signal: killed" {
			t.Fatalf("seed %d: the child ended by itself: %v", seed, err)
		}
		if round%4 > 0 {
			continue
		}
		e, err := Open(o)
		if err != nil {
			t.Fatalf("seed %d, round %d: %v", seed, round, err)
		}
		for i, node := range nodes {
			if err := e.Attach(t.Context(), i+1, node); err != nil {
				t.Fatalf("seed %d, round %d: %v", seed, round, err)
			}
			if got, err := fetch(node, "http://a.example.org"); err != nil || got != "a.example.org/" {
				t.Errorf("seed %d, round %d: node %d fetched %q, %v", seed, round, i+1, got, err)
			}
		}
		e.Close()
	}
	// A kill during a write leaves a temporary file.
	must(t, os.WriteFile(filepath.Join(o.Folder, "."+changesFile+"123"), nil, 0o600))
	for range 2 { // again does nothing
		must(t, b.Do(func() error { return Remove(o.Folder, o.Instance) }))
	}
	if left := stateOf(t, b); len(left) > 0 {
		t.Errorf("seed %d: left are %q", seed, left)
	}
	hoststate.Await(t, before, 30*time.Second)
}

// TestIncompletePortIsRecreated removes the last part of a node's port: the route back to
// the node, as after a kill.
func TestIncompletePortIsRecreated(t *testing.T) {
	_, e := openInNewLab(t)
	node := attach(t, e, 7)
	err := netlinkIn(e.space, func(h *netlink.Handle) error {
		l, err := mustLink(h, port(7))
		if err != nil {
			return err
		}
		routes, err := h.RouteList(l, unix.AF_INET)
		if err != nil || len(routes) != 1 {
			return fmt.Errorf("%d routes, %w", len(routes), err)
		}
		return errors.Join(h.RouteDel(&routes[0]), h.LinkSetAlias(l, ""))
	})
	must(t, err)
	must(t, e.Attach(t.Context(), 7, node))
	if got, err := fetch(node, "http://a.example.org"); err != nil || got != "a.example.org/" {
		t.Errorf("fetched %q, %v", got, err)
	}
}
