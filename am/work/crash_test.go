package work

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/testkit/require"
	"patchbay/inventory/provider"
)

// gate is a store that calls before at each write, which it may refuse.
type gate struct {
	Store
	before func() error
}

func (g gate) Commit(ctx context.Context, d store.Decision) error {
	if err := g.before(); err != nil {
		return err
	}
	return g.Store.Commit(ctx, d)
}

var errDead = errors.New("the process is dead")

// mortal is a store whose process crashes at the nth commit that changes something: directly before
// the write, or directly after it.
type mortal struct {
	Store
	left   int
	after  bool
	died   chan struct{}
	isDead atomic.Bool
}

func (m *mortal) Commit(ctx context.Context, d store.Decision) error {
	if m.isDead.Load() {
		return errDead
	}
	changes := false
	die := false
	err := m.Store.Commit(ctx, func(v *store.View) (store.ChangeSet, error) {
		cs, err := d(v)
		if changes = !cs.Empty(); changes {
			m.left--
		}
		if die = changes && m.left == 0; die && !m.after {
			return store.ChangeSet{}, errDead
		}
		return cs, err
	})
	if die {
		m.isDead.Store(true)
		close(m.died)
		return errDead
	}
	return err
}

// story plays two slices with every kind of write of the runner: slivers are created, restarted,
// refused, retried and removed, and a lease ends.
func story(e *env, step func()) {
	e.t.Helper()
	temporary := 2
	e.d.refuses["b-2"] = func() *provider.Error {
		if temporary--; temporary < 0 {
			return nil
		}
		return &provider.Error{Kind: provider.Failed, Msg: "busy", Temporary: true}
	}
	half(e.d, "b-3")
	e.d.slow = 300 * time.Millisecond
	e.allocate("a-1", "a-2", "b-1", "b-2", "b-3", "c-1")
	e.provision("a-1", "a-2", "b-1", "b-2", "b-3")
	step()
	e.on("a-1", "a-2", "b-1")
	step()
	e.do(am.ActionRestart, am.GoalRestart, func(d *am.Desired) { d.RestartSerial++ }, "a-1")
	e.lease("c-1", time.Now())
	step()
	e.release("b-1")
	step()
}

const storyEnd = `slice a; slice b; ` +
	`sliver a-1 {geni_provisioned geni_ready} gen 3 on true ""; sliver a-2 {geni_provisioned geni_ready} gen 2 on true ""; ` +
	`sliver b-2 {geni_provisioned geni_notready} gen 1 on false ""; sliver b-3 {geni_provisioned geni_failed} gen 2 on false "no boot image"; `

// settle waits until no task is left and no lease is over.
func (e *env) settle() {
	e.t.Helper()
	e.within(3*time.Minute, "no task is left", func() bool { return !busy(e) })
}

func TestCrashAtEveryCommit(t *testing.T) {
	for n := 1; ; n++ {
		died := false
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("commit %d, after %v", n, after), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e := newEnv(t, 2)
					m := &mortal{left: n, after: after, died: make(chan struct{})}
					e.wrap = func(s Store) Store { m.Store = s; return m }
					e.start()
					story(e, func() {
						for !m.isDead.Load() && busy(e) {
							select {
							case <-m.died:
							case <-time.After(100 * time.Millisecond):
							}
						}
						if m.isDead.Load() && e.wrap != nil {
							died, e.wrap = true, nil
							e.stop()
							e.st.Close()
							time.Sleep(10 * time.Second)
							e.open()
							e.start()
						}
						e.settle()
					})
					if got := e.records(); got != storyEnd {
						t.Errorf("ends with\n%s\nwant\n%s", got, storyEnd)
					}
					for name := range e.d.nodes {
						if name != "a-1" && name != "a-2" && name != "b-2" {
							t.Errorf("%s was left behind", name)
						}
					}
					e.kept()
				})
			})
		}
		if !died {
			if n < 10 {
				t.Errorf("only %d commits", n-1)
			}
			t.Logf("%d commits", n-1)
			return
		}
	}
}

func busy(e *env) bool {
	left := false
	err := e.st.Read(func(v *store.View) error {
		d, _, err := v.Due(1)
		left = len(d) > 0
		return errors.Join(err, v.Tasks(func(am.Task) bool { left = true; return false }))
	})
	if err != nil {
		e.t.Fatal(err)
	}
	return left
}

// No task is lost while the store cannot write.
func TestStoreThatCannotWrite(t *testing.T) {
	bubble(t, 2, func(e *env) {
		var full atomic.Bool
		full.Store(true)
		e.wrap = func(s Store) Store {
			return gate{s, func() error {
				if full.Load() {
					return store.ErrNotCommitted
				}
				return nil
			}}
		}
		e.start()
		e.allocate("a-1", "b-1")
		e.provision("a-1")
		e.lease("b-1", time.Now().Add(time.Minute))
		time.Sleep(time.Hour)
		if !e.exists("b-1") || e.sliver("a-1").Status != pending {
			t.Fatal("a store that is full has written")
		}
		full.Store(false)
		e.within(2*time.Second, "the lease is over", func() bool { return e.over("b-1") })
		e.becomes(time.Minute, notReady, "a-1")
	})
}

func TestRunEndsWhenStoreIsClosed(t *testing.T) {
	bubble(t, 2, func(e *env) {
		ctx := context.Background()
		r := New(Config{Store: e.st, Providers: func(string) (Provider, error) { return e.d, nil }})
		e.st.Close()
		if err := r.Run(ctx); !errors.Is(err, store.ErrClosed) {
			t.Errorf("Run: %v", err)
		}
	})
}

// The provider is an executable, in real time. No process is left when Run returns during
// a call.
func TestRealExecutables(t *testing.T) {
	dir := t.TempDir()
	script := `#!/bin/sh
# Keeps one file per node beside itself; a name that holds "hang" is never answered.
case "$1" in
ral_action=describe)
	cat <<'YAML'
provider:
  type: node
  invoke: json
  suitable: true
  parallel: 2
  timeouts: {set: 5m}
  attributes:
    name: {type: string}
    ensure: {type: "enum[present,absent]"}
    power: {type: "enum[on,off]"}
YAML
	;;
ral_action=get)
	tr -d '" ' | sed 's/.*\[//; s/\].*//' | tr ',' '\n' | {
	sep='{"resources":['
	while read -r n || [ -n "$n" ]; do
		if [ -e "$n.node" ]; then e=present p=$(cat "$n.node"); else e=absent p=off; fi
		printf '%s{"name":"%s","ensure":"%s","power":"%s"}' "$sep" "$n" "$e" "$p"; sep=,
	done
	echo ']}'; }
	;;
ral_action=set)
	sed 's/{"name"/\n{"name"/g' | grep '^{"name":"[ab]-' | {
	while read -r u || [ -n "$u" ]; do
		n=${u#*\"name\":\"} n=${n%%\"*} should=${u#*\"should\":}
		case "$n" in *hang*) sleep 1000 ;; esac
		case "$should" in
		*'"ensure":"absent"'*) rm -f "$n.node" ;;
		*'"power":"on"'*) echo on >"$n.node" ;;
		*) echo off >"$n.node" ;;
		esac
	done; }
	echo '{"derive":true,"changes":[]}'
	;;
esac
`
	file := filepath.Join(dir, "files.prov")
	if err := os.WriteFile(file, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	p, err := provider.Open(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	leaks := goleak.IgnoreCurrent()
	e := newEnv(t, 0)
	e.providers = func(string) (Provider, error) { return Executable(p), nil }
	e.start()
	e.allocate("a-1", "a-2", "b-hang")
	e.provision("b-hang")
	e.provision("a-1", "a-2")
	e.becomes(30*time.Second, notReady, "a-1", "a-2")
	start := time.Now()
	e.on("a-1", "a-2")
	e.becomes(30*time.Second, ready, "a-1", "a-2")
	t.Logf("started in %v beside one that hangs", time.Since(start))
	if b, err := os.ReadFile(filepath.Join(dir, "a-1.node")); err != nil || string(b) != "on\n" {
		t.Errorf("a-1 is %q, %v", b, err)
	}
	e.release("a-1", "a-2")
	e.within(30*time.Second, "they are gone", func() bool { return !e.exists("a-1") && !e.exists("a-2") })
	start = time.Now()
	if err := e.stop(); err != nil || time.Since(start) > 15*time.Second {
		t.Errorf("stop: %v after %v", err, time.Since(start))
	}
	e.st.Close()
	require.NoneLeft(t, leaks)
}
