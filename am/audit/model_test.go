package audit

import (
	"os"
	"testing"
	"time"

	"pgregory.net/rapid"

	"patchbay/am"
	"patchbay/am/store"
)

// TestEveryEntryHasOneLine runs random events of an audit: calls that are answered in any order or
// never, tasks, crashes, incomplete lines, moved files, and times without writes. In the end each
// entry of the journal has exactly one line.
func TestEveryEntryHasOneLine(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := newSite(t)
		defer os.RemoveAll(s.dir)
		defer func() { s.store.Close() }()
		s.log.write(s.log.line(eventStart))
		var open []string
		moved := 0
		r.Repeat(map[string]func(*rapid.T){
			"call": func(r *rapid.T) { open = append(open, s.commit()) },
			"work": func(r *rapid.T) {
				s.change(func(cs *store.ChangeSet) {
					for range rapid.IntRange(1, 3).Draw(r, "entries") {
						cs.Log(am.JournalEntry{At: s.now, Event: "geni_expire"})
					}
				})
			},
			"answer": func(r *rapid.T) {
				if len(open) > 0 {
					i := rapid.IntRange(0, len(open)-1).Draw(r, "call")
					s.answered(open[i])
					open = append(open[:i], open[i+1:]...)
				}
			},
			"refuse": func(r *rapid.T) { s.answered("refused") },
			"move": func(r *rapid.T) {
				moved++
				s.now = s.now.Add(time.Second)
				if err := os.Rename(s.path, s.path+"-"+string(rune('a'+moved%26))+string(rune('a'+moved/26))); err != nil && !os.IsNotExist(err) {
					r.Fatal(err)
				}
			},
			"crash": func(r *rapid.T) {
				open = nil
				s.crash()
			},
			"cut": func(r *rapid.T) {
				info, err := os.Stat(s.path)
				if err != nil || info.Size() < 2 {
					return
				}
				if err := os.Truncate(s.path, info.Size()-1); err != nil {
					r.Fatal(err)
				}
				open = nil
				s.crash()
			},
			"blocked": func(r *rapid.T) {
				path := s.log.path
				s.log.path = s.path + "/none/audit.log"
				open = append(open, s.commit())
				s.answered(open[len(open)-1])
				open = open[:len(open)-1]
				s.log.path = path
				if rapid.Bool().Draw(r, "mended") {
					s.log.maintain()
				}
			},
		})
		s.crash()
		lines := map[string]int{}
		for _, l := range s.lines() {
			for _, id := range l.Journal {
				lines[id]++
			}
		}
		err := s.store.Read(func(v *store.View) error {
			return v.Journal(func(e am.JournalEntry) bool {
				if lines[e.ID] != 1 {
					r.Errorf("entry %s has %d lines", e.ID, lines[e.ID])
				}
				delete(lines, e.ID)
				return true
			})
		})
		if err != nil || len(lines) > 0 {
			r.Errorf("lines without an entry: %v, %v", lines, err)
		}
	})
}
