package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"patchbay/am"
	"patchbay/am/testkit/disk"
	"patchbay/am/testkit/require"
)

// storyEnv makes the test binary run the story on the file it names: it opens the store,
// makes commits first to last-1, and prints the result of each.
const (
	storyEnv  = "PATCHBAY_TEST_STORY"
	storyFrom = "PATCHBAY_TEST_STORY_FROM"
	storyLen  = 7
)

func init() {
	disk.InstallFilter()
	if path := os.Getenv(storyEnv); path != "" {
		first := 0
		_, _ = fmt.Sscan(os.Getenv(storyFrom), &first)
		tell(path, first)
		os.Exit(0)
	}
}

func tell(path string, first int) {
	s, err := Open(path, Options{Now: at})
	if err != nil {
		fmt.Printf("refused: %v\n", err)
		return
	}
	for i := first; i < first+storyLen; i++ {
		if err := s.Commit(context.Background(), chapter(i)); err != nil {
			fmt.Printf("no %d %v\n", i, err)
		} else {
			fmt.Printf("ok %d\n", i)
		}
	}
	fmt.Printf("closed %v\n", s.Close())
}

// chapter is one commit: records of all kinds, some large, and the sliver of
// three before goes.
func chapter(i int) Decision {
	return func(*View) (cs ChangeSet, err error) {
		name := chapterName(i)
		cs.PutSlice(am.Slice{URN: sliceURN(name)})
		cs.PutDocument(am.Document{ID: name, Slice: sliceURN(name), Text: bytes.Repeat([]byte{'x'}, 1+i%3*20000)})
		cs.PutSliver(sliver(name, name, i))
		cs.PutTask(am.Task{Sliver: sliverURN(name), Goal: am.GoalMake})
		cs.Log(am.JournalEntry{At: noon, Event: name})
		cs.Remove(SliverKey(sliverURN(chapterName(i - 3))))
		return cs, nil
	}
}

func chapterName(i int) string { return fmt.Sprintf("chapter-%03d", i) }

// book is a file that the story runs on.
type book struct {
	what string
	make func(t *testing.T, path string) []byte // nil for none yet
	has  func(t *testing.T, s *Store)           // checks the records of make
}

var books = []book{
	{"a new file", nil, func(*testing.T, *Store) {}},
	{"a file of today", good, func(t *testing.T, s *Store) {
		n := 0
		for _, name := range names(t, s) {
			if !strings.HasPrefix(name, "chapter-") {
				n++
			}
		}
		if n != 50 {
			t.Errorf("of 50 slivers %d are left", n)
		}
	}},
	{"a file of an older schema", func(t *testing.T, path string) []byte { return old(t, schemaVersion-1, path) }, func(t *testing.T, s *Store) {
		err := s.Read(func(v *View) error {
			for _, x := range sampleOf(schemaVersion - 1).slivers {
				if _, _, err := v.Sliver(x.URN); err != nil {
					return fmt.Errorf("%s: %w", x.URN, err)
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}},
}

// text returns the content of the book, nil if there is none.
func (b book) text(t *testing.T) []byte {
	t.Helper()
	if b.make == nil {
		return nil
	}
	return b.make(t, filepath.Join(t.TempDir(), "store.db"))
}

// scratch returns a folder, in memory if possible, for thousands of synced files. It is
// removed with the test.
func scratch(t *testing.T) string {
	t.Helper()
	memory := "/dev/shm"
	if info, err := os.Stat(memory); err != nil || !info.IsDir() {
		memory = ""
	}
	dir, err := os.MkdirTemp(memory, "patchbay-book-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// shelf makes a folder with a book in it.
func shelf(t *testing.T, text []byte) (dir, path string) {
	t.Helper()
	dir = scratch(t)
	path = filepath.Join(dir, "store.db")
	if text != nil {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, path
}

func teller(path string, first int) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), storyEnv+"="+path, fmt.Sprintf("%s=%d", storyFrom, first))
	return cmd
}

// said has the results that a story printed.
type said struct {
	ok, no, doubt []int // commits by their answers
	refused       string
}

func hear(text string) (x said) {
	for line := range strings.Lines(text) {
		var i int
		switch {
		case !strings.HasSuffix(line, "\n"):
		case strings.HasPrefix(line, "refused: "):
			x.refused = line
		case scans(line, "ok %d", &i):
			x.ok = append(x.ok, i)
		case scans(line, "no %d", &i):
			if strings.Contains(line, ErrInDoubt.Error()) {
				x.doubt = append(x.doubt, i)
			} else {
				x.no = append(x.no, i)
			}
		}
	}
	return x
}

func scans(line, format string, i *int) bool {
	_, err := fmt.Sscanf(line, format, i)
	return err == nil
}

// verify opens the file after a story. Each commit is stored completely or not at all;
// acknowledged ones are stored, refused ones are not; and the store works.
func (b book) verify(t *testing.T, path string, x said) {
	t.Helper()
	s, err := Open(path, Options{Now: at})
	if err != nil {
		t.Errorf("it is refused: %v", err)
		return
	}
	defer s.Close()
	consistent(t, s)
	b.has(t, s)
	there := map[int]bool{}
	err = s.Read(func(v *View) error {
		told := map[string]int{}
		err := v.Journal(func(e am.JournalEntry) bool { told[e.Event]++; return true })
		for i := range 3 * storyLen {
			name := chapterName(i)
			_, _, slice := v.Slice(sliceURN(name))
			_, _, document := v.Document(name)
			_, _, task := v.Task(sliverURN(name))
			there[i] = slice == nil
			if there[i] != (document == nil) || there[i] != (task == nil) || told[name] > 1 || there[i] != (told[name] == 1) {
				t.Errorf("commit %d is incomplete: %v, %v, %v, in the journal %d times", i, slice, document, task, told[name])
			}
		}
		for i := range 3 * storyLen {
			_, _, err := v.Sliver(sliverURN(chapterName(i)))
			if want := there[i] && !there[i+3]; want != (err == nil) {
				t.Errorf("commit %d or %d is incomplete: %v", i, i+3, err)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	for _, i := range x.ok {
		if !there[i] {
			t.Errorf("commit %d was acknowledged and is lost", i)
		}
	}
	for _, i := range x.no {
		if there[i] {
			t.Errorf("refused commit %d is stored", i)
		}
	}
	if err := s.Commit(context.Background(), chapter(900)); err != nil {
		t.Errorf("it takes nothing more: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	sound(t, path)
}

// sound has bbolt check its pages.
func sound(t *testing.T, path string) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		t.Error(err)
		return
	}
	defer db.Close()
	err = db.View(func(tx *bbolt.Tx) error {
		var all error
		for err := range tx.Check() {
			all = errors.Join(all, err)
		}
		return all
	})
	if err != nil {
		t.Error(err)
	}
}

// long reports whether whole tables are asked for; else they are drawn from.
func long() bool { return require.Long() }

// rows returns n such that every nth row of a table gives about limit rows, equally many
// of each kind.
func rows(total, limit, kinds int) (every int) {
	if long() || total <= limit {
		return 1
	}
	every = (total + limit - 1) / limit
	for a, b := every, kinds; ; a, b = every, kinds {
		for b != 0 {
			a, b = b, a%b
		}
		if a == 1 {
			return every
		}
		every++
	}
}

type fault struct {
	what string
	disk.Fault
	onward bool // all later calls, too
}

var faults = []fault{
	{"fails", disk.Fault{Do: disk.None, Errno: unix.EIO}, false},
	{"fails from then on", disk.Fault{Do: disk.None, Errno: unix.EIO}, true},
	{"finds the disk full", disk.Fault{Do: disk.None, Errno: unix.ENOSPC}, false},
	{"finds the disk full from then on", disk.Fault{Do: disk.None, Errno: unix.ENOSPC}, true},
	{"is half done and fails", disk.Fault{Do: disk.Half, Errno: unix.EIO}, false},
	{"is done and says that it failed", disk.Fault{Errno: unix.EIO}, false},
	{"is not done, and the process killed", disk.Fault{Do: disk.None, Kill: true}, false},
	{"is half done, and the process killed", disk.Fault{Do: disk.Half, Kill: true}, false},
	{"is done, and the process killed", disk.Fault{Kill: true}, false},
}

// TestEveryCallFails lets each system call of the story fail in each possible way, and
// verifies the store afterwards.
func TestEveryCallFails(t *testing.T) {
	disk.Available(t)
	for _, b := range books {
		t.Run(b.what, func(t *testing.T) {
			t.Parallel()
			text := b.text(t)
			dir, path := shelf(t, text)
			log, err := disk.Run(teller(path, 0), disk.Options{Folder: dir})
			if x := hear(log.Output()); err != nil || len(x.ok) != storyLen || !strings.Contains(log.Output(), "closed <nil>") {
				t.Fatalf("undisturbed: %v, %q", err, log.Output())
			}
			b.verify(t, path, hear(log.Output()))
			os.RemoveAll(dir)
			calls := log.Calls()
			if calls < 10*storyLen/2 {
				t.Errorf("only %d calls", calls)
			}
			every := rows(calls*len(faults), 36, len(faults))
			done, disturbed := map[string]int{}, 0
			for row := 0; row < calls*len(faults); row += every {
				n, f := 1+row/len(faults), faults[row%len(faults)]
				var call disk.Kind
				dir, path := shelf(t, text)
				log, err := disk.Run(teller(path, 0), disk.Options{Folder: dir, Decide: func(c disk.Call) disk.Fault {
					if c.N == n || f.onward && c.N > n {
						if c.N == n {
							call = c.Kind
						}
						return f.Fault
					}
					return disk.Fault{}
				}})
				if _, killed := errors.AsType[*exec.ExitError](err); err != nil && !(f.Kill && killed) {
					t.Fatal(err)
				}
				x := hear(log.Output())
				if len(x.ok) < storyLen {
					disturbed++
				}
				if x.refused != "" && !strings.Contains(x.refused, path) {
					t.Errorf("call %d %s: the refusal does not name the file: %s", n, f.what, x.refused)
				}
				t.Run(fmt.Sprintf("call %d, a %s, %s", n, call, f.what), func(t *testing.T) { b.verify(t, path, x) })
				done[f.what]++
				os.RemoveAll(dir)
			}
			var s []string
			for _, f := range faults {
				s = append(s, fmt.Sprintf("%s %d", f.what, done[f.what]))
			}
			t.Logf("%d calls, %d faults, %d of which were felt: %s", calls, sum(done), disturbed, strings.Join(s, "; "))
		})
	}
}

func sum(m map[string]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}

// TestPowerCutsAfterARestart lets each sync fail, or the process die instead of it,
// opens the store again as an operator would, goes on, and cuts the power then.
// After a failed sync Linux may have lost unsynced data but still return it to readers.
func TestPowerCutsAfterARestart(t *testing.T) {
	disk.Available(t)
	for _, b := range books {
		t.Run(b.what, func(t *testing.T) {
			t.Parallel()
			text := b.text(t)
			var all []iter.Seq[disk.Outcome]
			ends := []disk.Fault{{Errno: unix.EIO}, {Do: disk.None, Kill: true}}
			for n, syncs := 0, 1; n < syncs*len(ends); n++ {
				dir, path := shelf(t, text)
				before, err := disk.TakeSnapshot(dir)
				if err != nil {
					t.Fatal(err)
				}
				at := 0
				log, err := disk.Run(teller(path, 0), disk.Options{Folder: dir, Decide: func(c disk.Call) disk.Fault {
					if c.Kind == disk.Sync {
						if at++; at == 1+n/len(ends) {
							return ends[n%len(ends)]
						}
					}
					return disk.Fault{}
				}})
				if _, killed := errors.AsType[*exec.ExitError](err); err != nil && !killed {
					t.Fatal(err)
				}
				syncs = max(syncs, at)
				rest, err := disk.Run(teller(path, storyLen), disk.Options{Folder: dir})
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, func(yield func(disk.Outcome) bool) {
					for c := range append(log, rest...).Outcomes(before, uint64(n), draws()) {
						if first := c.Event - len(log); first >= 0 && first < 40 && !yield(c) { // later all is as without a restart
							return
						}
					}
				})
				os.RemoveAll(dir)
			}
			b.cuts(t, all...)
		})
	}
}

// TestPowerCuts verifies the images that a power cut after each call of the story may leave.
func TestPowerCuts(t *testing.T) {
	disk.Available(t)
	for _, b := range books {
		t.Run(b.what, func(t *testing.T) {
			t.Parallel()
			dir, path := shelf(t, b.text(t))
			defer os.RemoveAll(dir)
			before, err := disk.TakeSnapshot(dir)
			if err != nil {
				t.Fatal(err)
			}
			log, err := disk.Run(teller(path, 0), disk.Options{Folder: dir})
			if err != nil {
				t.Fatal(err)
			}
			b.cuts(t, log.Outcomes(before, 1, draws()))
		})
	}
}

// draws is how many random images are made of each power cut.
func draws() int {
	if long() {
		return 20
	}
	return 2
}

// cuts verifies images, or as many of them as there is time for.
func (b book) cuts(t *testing.T, all ...iter.Seq[disk.Outcome]) {
	t.Helper()
	total, seen, made := 0, 0, 0
	for _, log := range all {
		for range log {
			total++
		}
	}
	every := rows(total, 48, 8)
	for _, log := range all {
		for c := range log {
			if seen++; seen%every != 0 {
				continue
			}
			made++
			dir := scratch(t)
			if err := c.Make(dir); err != nil {
				t.Fatal(err)
			}
			t.Run(fmt.Sprintf("after event %d there is %s", c.Event, c.What), func(t *testing.T) {
				b.verify(t, filepath.Join(dir, "store.db"), hear(c.Output))
			})
			os.RemoveAll(dir)
		}
	}
	t.Logf("%d images of %d", made, total)
}
