package work

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/inventory/provider"
)

// removing removes a node, which takes 10 s, or one that was given up. look changes the nth
// answer of the provider about it, counted from 1. removing fails if the component is freed
// while the node exists. It returns the number of gets after the node was gone, 0 if the
// component is not free.
func removing(t *testing.T, givenUp bool, look func(n int, r provider.Resource) provider.Resource) (looks int) {
	t.Helper()
	bubble(t, 2, func(e *env) {
		l := &liar{double: e.d, looks: map[string]int{}, said: map[string]bool{}}
		e.providers = func(string) (Provider, error) { return l, nil }
		e.start()
		goal := am.GoalRemove
		if givenUp {
			goal = am.GoalUndo
			e.allocate("a-1")
			e.provision("a-1")
			e.becomes(time.Minute, notReady, "a-1")
		} else {
			e.makeReady("a-1")
		}
		after := 0
		l.with(func() {
			l.slow = 10 * time.Second
			first := l.looks["a-1"]
			l.look = func(n int, _ string, r provider.Resource) provider.Resource {
				if nothingLeft(r) {
					after++
				}
				return look(n-first, r)
			}
		})
		if givenUp {
			e.commit(func(v *store.View) (cs store.ChangeSet, err error) {
				s, _, err := v.Sliver(sliverURN("a-1"))
				s.Status = am.After(s.Status, am.EventGaveUp)
				undo(v, &cs, &s, "")
				cs.PutSliver(s)
				return cs, err
			})
		} else {
			e.release("a-1")
		}
		for range 60 * 10 {
			time.Sleep(100 * time.Millisecond)
			if x, busy := e.task("a-1"); busy && x.Goal == goal {
				continue
			}
			if e.node("a-1") {
				t.Error("freed while the node exists")
			}
			looks = after
			return
		}
	})
	return looks
}

// nothingLeft reports whether the double has removed the node. Until then it is absent and changing.
func nothingLeft(r provider.Resource) bool {
	return provider.Gone(r) && r.Text(provider.AttrState) == ""
}

// TestOneOmittingGetFreesNothing has one answer during a removal omit the node, at
// each position.
func TestOneOmittingGetFreesNothing(t *testing.T) {
	for _, undo := range []bool{false, true} {
		for lost := 1; lost <= 8; lost++ {
			t.Run(fmt.Sprintf("undo %v, look %d", undo, lost), func(t *testing.T) {
				if looks := removing(t, undo, func(n int, r provider.Resource) provider.Resource {
					if n == lost {
						return nil
					}
					return r
				}); looks == 0 {
					t.Error("it is not free a minute later")
				}
			})
		}
		t.Run(fmt.Sprintf("undo %v, each second look", undo), func(t *testing.T) {
			removing(t, undo, func(n int, r provider.Resource) provider.Resource {
				if n%2 == 1 {
					return nil
				}
				return r
			})
		})
	}
}

// TestReportedAbsenceNeedsNoSecondGet checks that a second get is only made if the first one
// omitted the node.
func TestReportedAbsenceNeedsNoSecondGet(t *testing.T) {
	if n := removing(t, false, func(_ int, r provider.Resource) provider.Resource { return r }); n != 1 {
		t.Errorf("%d gets of a node reported absent, want 1", n)
	}
	if n := removing(t, false, func(_ int, r provider.Resource) provider.Resource {
		if nothingLeft(r) {
			return nil
		}
		return r
	}); n != 2 {
		t.Errorf("%d gets of an omitted node, want 2", n)
	}
}

// TestOmittedNodeOfProviderThatCannotRemove checks that a node is gone only after the second answer
// that omits it, also if its provider cannot remove nodes.
func TestOmittedNodeOfProviderThatCannotRemove(t *testing.T) {
	p := withoutEnsure{newDouble(1)}
	res := provider.Result{Err: &provider.Error{Kind: provider.Unknown}, LeftOut: true}
	for _, tt := range []struct {
		missing, leftOut bool
		want             verdict
	}{{false, true, wait}, {true, true, gone}, {false, false, gone}} {
		res.LeftOut = tt.leftOut
		i := &item{sliver: am.Sliver{URN: sliverURN("a-1")}, task: am.Task{Goal: am.GoalRemove}, missing: tt.missing}
		if o := judge(p, i, res, time.Hour); o.verdict != tt.want || o.vanished != (tt.want == wait) {
			t.Errorf("%+v: %+v", tt, o)
		}
	}
}

// TestTaskIsKeptIfItsRecordCannotBeRead checks that a task is kept if the record of its sliver
// cannot be read, because the sliver may still exist.
func TestTaskIsKeptIfItsRecordCannotBeRead(t *testing.T) {
	e := newEnv(t, 1)
	e.allocate("a-1")
	e.provision("a-1")
	x, ok := e.task("a-1")
	if !ok {
		t.Fatal("there is no task")
	}
	discard := func() error { return New(Config{Store: e.st}).discard(t.Context(), []am.Task{x}) }
	if err := discard(); err != nil {
		t.Errorf("a task that is wanted: %v", err)
	}
	if _, ok := e.task("a-1"); !ok {
		t.Error("a task that is wanted is gone")
	}
	damage(t, e, x.Sliver)
	if err := discard(); !errors.Is(err, store.ErrBroken) {
		t.Errorf("the error of a damaged record is %v", err)
	}
	if _, ok := e.task("a-1"); !ok {
		t.Error("the task of a sliver that could not be read is gone")
	}
}

// damage cuts the record of a sliver to half in the closed file, and opens it again.
func damage(t *testing.T, e *env, sliver urn.URN) {
	t.Helper()
	e.st.Close()
	db, err := bbolt.Open(e.path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		b, k := tx.Bucket([]byte("v1")).Bucket([]byte(store.Slivers)), []byte(sliver.Key())
		v := bytes.Clone(b.Get(k))
		return b.Put(k, v[:len(v)/2])
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	if e.st, err = store.Open(e.path, store.Options{}); err != nil {
		t.Fatal(err)
	}
}
