package hook

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"go.etcd.io/bbolt"

	"patchbay/am/store"
)

// TestEventsOfSchema4 opens a store of schema 4 with events that one of two hooks has not taken.
// The server is stopped after each delivery. Each hook gets what it has not taken, once, in order and
// with the ids that the earlier program has given.
func TestEventsOfSchema4(t *testing.T) {
	b := newBench(t, Hook{Name: "one", Events: []Kind{Allocated}}, Hook{Name: "two", Events: []Kind{Allocated}})
	b.open()
	for _, name := range []string{"a", "b", "c"} {
		b.put(reserved("s", name)) // revisions 2 to 4
	}
	b.halt()
	text := func(name string) []byte {
		e := eventOf(new(reserved("s", name)))
		e.Event = Ready // although no hook asks for it now
		j, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	db, err := bbolt.Open(b.file, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		top := tx.Bucket([]byte("v1"))
		err := errors.Join(top.DeleteBucket([]byte("changes")), top.DeleteBucket([]byte("cursors")))
		events, failed := top.CreateBucket([]byte("events"))
		err = errors.Join(err, failed, top.Bucket([]byte("meta")).Put([]byte("schema"), binary.BigEndian.AppendUint64(nil, 4)))
		for id, m := range map[string]store.Message{
			store.Position(2, 0): {To: []string{"two"}, Text: text("a")},
			store.Position(3, 1): {To: []string{"two", "removed"}, Text: text("b")},
			store.Position(4, 0): {To: []string{"one", "two"}, Text: text("c")},
		} {
			m.At, m.Slice = noon, sliceURN("s")
			j, bad := json.Marshal(m)
			rev := binary.BigEndian.AppendUint64(nil, 4)
			err = errors.Join(err, bad, events.Put([]byte(id), append(rev, j...)))
		}
		return err
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	var got []string
	deliveries := make(chan struct{}, 10)
	b.take = func(_ context.Context, hook string, e Event) error {
		if len(deliveries) > 0 {
			return errNo // one for each start
		}
		got = append(got, hook+" "+e.ID+" "+e.ClientID)
		deliveries <- struct{}{}
		return nil
	}
	b.hooks = b.hooks[1:] // one at a time
	for range 2 {
		b.start()
		<-deliveries
		b.halt()
	}
	b.hooks = append(b.hooks, Hook{Name: "new", Events: []Kind{Ready}, Timeout: patience})
	b.start()
	<-deliveries
	b.drained()
	b.put(reserved("s", "later"))
	<-deliveries
	b.drained()
	var want []string
	for i, name := range []string{"a", "b", "c"} {
		sum := sha256.Sum256(text(name))
		position := []string{store.Position(2, 0), store.Position(3, 1), store.Position(4, 0)}[i]
		want = append(want, "two "+position+"-"+hex.EncodeToString(sum[:8])+" "+name)
	}
	if len(got) != 4 || !slices.Equal(got[:3], want) || got[3][:4] != "two " {
		t.Errorf("delivered %q, want %q and a later one", got, want)
	}
}
