package audit

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"patchbay/am"
	"patchbay/am/store"
)

// TestEveryEntryHasOneLine runs random events of an audit: changes, calls, crashes, incomplete lines,
// moved files, and times without writes. In the end each entry of the journal has exactly one line.
func TestEveryEntryHasOneLine(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := newSite(t)
		defer os.RemoveAll(s.dir)
		defer func() { s.store.Close() }()
		s.log.write(s.log.line(eventStart))
		entries, moved := 0, 0
		r.Repeat(map[string]func(*rapid.T){
			"change": func(r *rapid.T) {
				s.change(func(cs *store.ChangeSet) {
					for range rapid.IntRange(1, 3).Draw(r, "entries") {
						cs.Log(am.JournalEntry{At: s.now, Event: fmt.Sprint("e", entries)})
						entries++
					}
				})
			},
			"follow": func(*rapid.T) { s.follow() },
			"save":   func(*rapid.T) { s.log.save(t.Context()) },
			"prune": func(r *rapid.T) {
				s.log.save(t.Context())
				if err := s.store.PruneChanges(t.Context(), store.ChangeLimits{}); err != nil {
					r.Fatal(err)
				}
			},
			"answer": func(r *rapid.T) { s.answered("call") },
			"move": func(r *rapid.T) {
				moved++
				s.now = s.now.Add(time.Second)
				if err := os.Rename(s.path, s.path+"-"+string(rune('a'+moved%26))+string(rune('a'+moved/26))); err != nil && !os.IsNotExist(err) {
					r.Fatal(err)
				}
			},
			"crash": func(r *rapid.T) { s.crash() },
			"cut": func(r *rapid.T) {
				text, err := os.ReadFile(s.path)
				if err != nil || bytes.Count(text, []byte("\n")) < 2 || s.log.next == s.log.saved {
					return // only what is not synced can be lost
				}
				if l, ok := decode(text[bytes.LastIndexByte(text[:len(text)-1], '\n')+1:]); !ok || l.Next == "" {
					return
				}
				if err := os.Truncate(s.path, int64(len(text)-1)); err != nil {
					r.Fatal(err)
				}
				s.crash()
			},
			"blocked": func(r *rapid.T) {
				path := s.log.path
				s.log.path = s.path + "/none/audit.log"
				s.answered("call")
				s.follow()
				s.log.path = path
				if rapid.Bool().Draw(r, "mended") {
					s.log.maintain()
				}
			},
		})
		s.crash()
		var got []string
		for _, l := range s.lines() {
			if l.Event == eventWork {
				got = append(got, l.What)
			}
		}
		var want []string
		for i := range entries {
			want = append(want, fmt.Sprint("e", i))
		}
		if !slices.Equal(got, want) {
			r.Errorf("the lines are %q, want %q", got, want)
		}
	})
}
