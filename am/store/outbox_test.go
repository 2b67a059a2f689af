package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/am"
)

// tellAll posts a message with the old and new state of each changed sliver.
func tellAll(c Change) (list []Message) {
	amount := func(s *am.Sliver) string {
		if s == nil {
			return "-"
		}
		return fmt.Sprint(s.Slice.Name, s.Amount.Slots)
	}
	for _, x := range c.Slivers {
		s := x.After
		if s == nil {
			s = x.Before
		}
		text, _ := json.Marshal(s.URN.Name + " " + amount(x.Before) + ">" + amount(x.After))
		list = append(list, Message{At: c.At, Slice: s.Slice, To: []string{"mail", "wiki"}, Text: text})
	}
	return list
}

func sized(name string, slots int64) am.Sliver {
	s := sliver(name, "s", 10)
	s.Amount = am.Amount{Slots: slots}
	return s
}

// waiting returns the messages of a store: ids, and texts with their receivers.
func waiting(t testing.TB, s *Store) (ids, texts []string) {
	t.Helper()
	err := s.Read(func(v *View) error {
		return v.MessagesAfter("", func(id string, m Message) bool {
			var text string
			if err := json.Unmarshal(m.Text, &text); err != nil {
				t.Error(err)
			}
			ids, texts = append(ids, id), append(texts, text+" "+strings.Join(m.To, ","))
			return true
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return ids, texts
}

func TestMessagesShareTheFateOfTheirChange(t *testing.T) {
	var failing atomic.Bool
	s := open(t, Options{Outbox: tellAll, Write: commitAfter(func() error {
		if failing.Load() {
			return errNo
		}
		return nil
	})})
	refuse := func(*View) (ChangeSet, error) {
		var cs ChangeSet
		cs.PutSliver(sized("no", 1))
		return cs, errNo
	}
	// Each decision of a group sees the changes of those before it.
	together(t, s, context.Background(), put(sized("a", 1)), refuse, put(sized("a", 2), sized("b", 1), sized("b", 3)),
		func(*View) (cs ChangeSet, err error) {
			cs.Remove(SliverKey(sliverURN("a")), SliverKey(sliverURN("absent")))
			return cs, nil
		})
	failing.Store(true)
	if err := s.Commit(t.Context(), put(sized("b", 4))); !errors.Is(err, ErrNotCommitted) {
		t.Errorf("a failed write says %v", err)
	}
	failing.Store(false)
	commit(t, s, put(sized("b", 5)))
	ids, texts := waiting(t, s)
	want := []string{"a ->s1 mail,wiki", "a s1>s2 mail,wiki", "b ->s3 mail,wiki", "a s2>- mail,wiki", "b s3>s5 mail,wiki"}
	if diff := cmp.Diff(want, texts); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"0000000000000001-0000", "0000000000000002-0000", "0000000000000002-0001", "0000000000000003-0000", "0000000000000004-0000"}, ids); diff != "" {
		t.Error(diff)
	}
	consistent(t, s)
}

func TestAMessageStaysUntilAllHaveTakenIt(t *testing.T) {
	s := open(t, Options{Outbox: tellAll})
	commit(t, s, put(sized("a", 1), sized("b", 1)))
	ids, _ := waiting(t, s)
	take := func(by map[string][]string) (deleted int) {
		t.Helper()
		commit(t, s, func(v *View) (cs ChangeSet, err error) {
			deleted, err = MarkTaken(v, &cs, by)
			return cs, err
		})
		return deleted
	}
	if n := take(map[string][]string{ids[0]: {"mail"}, ids[1]: {"wiki", "mail"}, "0": {"mail"}}); n != 1 {
		t.Errorf("%d deleted", n)
	}
	if _, texts := waiting(t, s); !cmp.Equal(texts, []string{"a ->s1 wiki"}) {
		t.Errorf("left: %q", texts)
	}
	if n := take(map[string][]string{ids[0]: {"mail", "wiki"}}); n != 1 {
		t.Errorf("%d deleted", n)
	}
	if _, texts := waiting(t, s); texts != nil {
		t.Errorf("left: %q", texts)
	}
	err := s.Read(func(v *View) error { _, err := v.Message(ids[0]); return err })
	if !errors.Is(err, ErrNotFound) {
		t.Errorf("a message that was taken: %v", err)
	}
}

func TestAPanicRefusesItsChangeOnly(t *testing.T) {
	s := open(t, Options{Outbox: func(c Change) []Message {
		if c.Slivers[0].After.URN.Name == "bad" {
			panic("no words")
		}
		return nil
	}})
	bug := func(*View) (ChangeSet, error) { panic("a bug") }
	answers := together(t, s, context.Background(), put(sized("a", 1)), put(sized("bad", 1)), put(sized("b", 1)), bug)
	if answers[0] != nil || answers[2] != nil || answers[1] == nil || !strings.Contains(answers[1].Error(), "no words") || answers[3] == nil || !strings.Contains(answers[3].Error(), "a bug") {
		t.Errorf("answers %v", answers)
	}
	if diff := cmp.Diff([]string{"a", "b"}, names(t, s)); diff != "" {
		t.Error(diff)
	}
}

func TestEndingGivesLeasesInOrder(t *testing.T) {
	s := open(t, Options{})
	frozen := sliver("frozen", "s", 3)
	frozen.Frozen = true
	commit(t, s, put(sliver("d", "s", 40), sliver("c", "s", 30), sliver("b1", "s", 20), sliver("b2", "s", 20), sliver("a", "s", 10), frozen))
	for _, step := range []struct {
		minutes, limit int
		want           []string
	}{{5, 10, nil}, {30, 2, []string{"a", "b1"}}, {30, 9, []string{"a", "b1", "b2", "c"}}} {
		var got []string
		err := s.Read(func(v *View) error {
			return v.EachEnding(noon.Add(time.Duration(step.minutes)*time.Minute), func(x am.Sliver) bool {
				got = append(got, x.URN.Name)
				return len(got) < step.limit
			})
		})
		if err != nil || !cmp.Equal(got, step.want) {
			t.Errorf("%d minutes on, up to %d: %q, want %q; %v", step.minutes, step.limit, got, step.want, err)
		}
	}
}
