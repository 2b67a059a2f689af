package hook

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/testkit/require"
	"patchbay/am/testkit/wait"
)

func init() { children["killed"] = childThatIsKilled }

// hookOf returns the hook of the child process. The hook is a program that appends a line to the file "told".
func hookOf(dir string) []Hook {
	return []Hook{{Name: "h", Command: filepath.Join(dir, "hook"), Dir: dir, Timeout: patience}}
}

// childThatIsKilled posts and delivers until it is killed, or its input ends.
func childThatIsKilled() {
	dir := os.Getenv("HOOK_DIR")
	fail := func(err error) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	hooks := hookOf(dir)
	s, err := store.Open(filepath.Join(dir, "state.db"), store.Options{})
	if err != nil {
		fail(err)
	}
	if err := Follow(context.Background(), s, hooks); err != nil {
		fail(err)
	}
	n := 0
	if err := s.Read(func(v *store.View) error {
		return v.Slivers(func(am.Sliver) bool { n++; return true })
	}); err != nil {
		fail(err)
	}
	r, err := New(Config{Store: s, Site: site, Hooks: hooks, Log: slog.New(slog.DiscardHandler), Limits: quick})
	if err != nil {
		fail(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { io.Copy(io.Discard, os.Stdin); cancel() }()
	go func() {
		for ; ctx.Err() == nil; n++ {
			if err := s.Commit(ctx, func(*store.View) (cs store.ChangeSet, err error) {
				cs.PutSliver(reserved(fmt.Sprint("s", n%3), fmt.Sprintf("n%06d", n)))
				return cs, nil
			}); err != nil {
				fail(err)
			}
			time.Sleep(time.Millisecond) // gives the hook time to catch up
		}
	}()
	if err := r.Run(ctx); err != nil {
		fail(err)
	}
}

// TestKilledServersDeliverAtLeastOnceAndInOrder repeatedly kills a process that posts and
// delivers events, then delivers the rest. Each event was delivered at least once, in order.
func TestKilledServersDeliverAtLeastOnceAndInOrder(t *testing.T) {
	dir := t.TempDir()
	told := filepath.Join(dir, "told")
	if err := os.WriteFile(filepath.Join(dir, "hook"), []byte(`#!/bin/sh
sliver=${PATCHBAY_EVENT_SLIVER##*+}
echo "$PATCHBAY_EVENT_SLICE $sliver $PATCHBAY_EVENT_ID" >>told
`), 0o755); err != nil {
		t.Fatal(err)
	}
	size := func() int64 {
		info, err := os.Stat(told)
		if err != nil {
			return 0
		}
		return info.Size()
	}
	kills := require.Rounds(5, 12)
	for range kills {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), "HOOK_CHILD=killed", "HOOK_DIR="+dir)
		child.Stderr = os.Stderr
		in, err := child.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		before, grow := size(), rand.Int64N(2000)
		wait.Until(t, "hooks get events", func() bool { return size() > before+grow })
		child.Process.Kill()
		child.Wait()
		in.Close()
	}
	b := &bench{t: t, file: filepath.Join(dir, "state.db"), clock: &clock{now: time.Now()}, hooks: hookOf(dir), limits: quick}
	defer b.halt()
	b.start()
	waiting := len(b.waiting())
	b.drained()
	l := newLedger()
	if err := b.store.Read(func(v *store.View) error {
		return v.Slivers(func(s am.Sliver) bool {
			k := s.Slice.String()
			l.posted[k] = append(l.posted[k], s.URN.Name)
			return true
		})
	}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(told)
	if err != nil {
		t.Fatal(err)
	}
	for row := range strings.Lines(string(text)) {
		f := strings.Fields(row)
		if len(f) != 3 {
			t.Fatalf("the line %q", row)
		}
		l.tell("h", f[0], f[1], f[2])
	}
	if wrong := l.wrong("h"); wrong != "" {
		t.Error(wrong)
	}
	posted, lines := 0, strings.Count(string(text), "\n")
	for _, list := range l.posted {
		posted += len(list)
	}
	t.Logf("%d kills: %d posted, %d deliveries, %d of them at the end", kills, posted, lines, waiting)
}
