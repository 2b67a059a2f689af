package hostalloc

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestMain(m *testing.M) {
	if root := os.Getenv("CLAIM_TEST_ROOT"); root != "" {
		child(root, os.Getenv("CLAIM_TEST_HOLDER"))
		return
	}
	os.Exit(m.Run())
}

func testIDs(t testing.TB) *Folder {
	f, err := IDs(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f.avoid = nil
	return f
}

func TestAllocateClaimRelease(t *testing.T) {
	f := testIDs(t)
	a, err := f.Allocate("x/a", nil)
	if err != nil || a != firstID {
		t.Fatal(a, err)
	}
	if text, err := os.Readlink(filepath.Join(f.dir, strconv.Itoa(firstID))); err != nil || text != "x/a" {
		t.Errorf("the claim says %q, %v", text, err)
	}
	b, err := f.Allocate("y/b", nil)
	if err != nil || b != firstID+Size {
		t.Fatal(b, err)
	}
	for _, tt := range []struct {
		rule   string
		err    error
		wanted error
	}{
		{"what it holds it may hold", f.Claim(a, "x/a"), nil},
		{"a free one", f.Claim(a+2*Size, "x/c"), nil},
		{"another's", f.Claim(b, "x/a"), ErrTaken},
		{"no block begins there", f.Claim(a+1, "x/a"), ErrTaken},
		{"below all", f.Claim(Size, "x/a"), ErrTaken},
		{"above all", f.Claim(lastID+Size, "x/a"), ErrTaken},
		{"release another's", f.Release(b, "x/a"), nil},
		{"release a free number", f.Release(lastID, "x/a"), nil},
		{"release", f.Release(a, "x/a"), nil},
		{"release once more", f.Release(a, "x/a"), nil},
		{"it is still another's", f.Claim(b, "y/b"), nil},
		{"it is free now", f.Claim(a, "z/z"), nil},
	} {
		if !errors.Is(tt.err, tt.wanted) {
			t.Errorf("%s: %v", tt.rule, tt.err)
		}
	}
	for _, holder := range []string{"", "x", "x/", "/a", "x/a/b", "X/a", "x/..", "~1", "x/" + strings.Repeat("a", maxHolder)} {
		if _, err := f.Allocate(holder, nil); err == nil {
			t.Errorf("%q took one", holder)
		}
		if f.Claim(lastID, holder) == nil {
			t.Errorf("%q holds one", holder)
		}
	}
}

func TestUnfitNumbersAreSkipped(t *testing.T) {
	f := Ports(t.TempDir(), 100, 104, 0)
	f.avoid = []span{{100, 102}, {103, 104}}
	var asked []uint32
	n, err := f.Allocate("x/a", func(n uint32) bool { asked = append(asked, n); return n != 102 })
	if err != nil || n != 104 || !slices.Equal(asked, []uint32{102, 104}) {
		t.Errorf("took %d, %v, asked for %v", n, err, asked)
	}
	if n, err := f.Allocate("x/b", nil); err != nil || n != 102 {
		t.Errorf("after the last the first: %d, %v", n, err)
	}
	if _, err := f.Allocate("x/c", nil); !errors.Is(err, ErrNone) {
		t.Errorf("no number is left: %v", err)
	}
}

func TestPortsRest(t *testing.T) {
	f, now := Ports(t.TempDir(), 100, 101, time.Minute), time.Now()
	f.now = func() time.Time { return now }
	for _, holder := range []string{"x/a", "x/b"} {
		if _, err := f.Allocate(holder, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Release(100, "x/a"); err != nil {
		t.Fatal(err)
	}
	if err := f.Claim(100, "x/a"); !errors.Is(err, ErrTaken) {
		t.Errorf("a port that rests is held: %v", err)
	}
	now = now.Add(2 * time.Minute)
	if n, err := f.Allocate("x/c", nil); err != nil || n != 100 {
		t.Errorf("after its rest: %d, %v", n, err)
	}
	if err := f.Release(100, "x/c"); err != nil {
		t.Fatal(err)
	}
	now = now.Add(-48 * time.Hour) // the clock was wrong
	if problems, err := f.Sweep("x", func(string, uint32) bool { return true }); err != nil || problems != nil {
		t.Fatal(problems, err)
	}
	if err := f.Claim(100, "x/d"); err != nil {
		t.Errorf("it rests for days: %v", err)
	}
}

// A resting port is given out when no other is left: the one with the shortest time left
// that fits.
func TestRestingPortIsTakenLast(t *testing.T) {
	f, now := Ports(t.TempDir(), 100, 103, time.Minute), time.Now()
	f.now = func() time.Time { return now }
	for range 4 {
		if _, err := f.Allocate("x/a", nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range []uint32{102, 101, 100} {
		if err := f.Release(n, "x/a"); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Second)
	}
	if left, err := f.Free(); left != 3 || err != nil {
		t.Errorf("%d left, %v: want the three that rest", left, err)
	}
	if n, err := f.Allocate("y/b", func(n uint32) bool { return n != 102 }); n != 101 || err != nil {
		t.Errorf("took %d, %v: 102 does not fit, and 101 rests longest", n, err)
	}
	if err := f.Claim(102, "x/a"); !errors.Is(err, ErrTaken) {
		t.Errorf("what did not fit rests no more: %v", err)
	}
	for range 2 {
		if _, err := f.Allocate("y/b", nil); err != nil {
			t.Error(err)
		}
	}
	if n, err := f.Allocate("y/b", nil); !errors.Is(err, ErrNone) {
		t.Errorf("took %d, which is another's: %v", n, err)
	}
	if left, err := f.Free(); left != 0 || err != nil {
		t.Errorf("%d left, %v", left, err)
	}
}

// A shorter rest, or none, as when an instance is removed, also applies to resting ports
// of the same instance. Ports that other instances and earlier versions released rest as
// recorded.
func TestShorterRestAppliesToRestingPorts(t *testing.T) {
	for _, tt := range []struct {
		rest  time.Duration
		after time.Duration
		still bool
	}{{time.Hour, time.Minute, true}, {2 * time.Minute, time.Minute, true}, {time.Minute, 2 * time.Minute, false}, {0, 0, false}, {2 * time.Hour, 61 * time.Minute, false}} {
		root, now := t.TempDir(), time.Now()
		f := Ports(root, 100, 110, time.Hour)
		f.now = func() time.Time { return now }
		for i, holder := range []string{"x/a", "y/a"} {
			if n, err := f.Allocate(holder, nil); err != nil || n != uint32(100+i) {
				t.Fatal(n, err)
			}
			if err := f.Release(uint32(100+i), holder); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink(fmt.Sprint("~", now.Add(time.Hour).Unix()), filepath.Join(f.dir, "102")); err != nil {
			t.Fatal(err)
		}
		now = now.Add(tt.after)
		f.rest = tt.rest
		if problems, err := f.Sweep("x", func(string, uint32) bool { return true }); err != nil || problems != nil {
			t.Fatal(problems, err)
		}
		for n, want := range map[uint32]bool{100: tt.still, 101: tt.after < time.Hour, 102: tt.after < time.Hour} {
			if rests := errors.Is(f.Claim(n, "z/z"), ErrTaken); rests != want {
				t.Errorf("rest %v, %v later: %d rests: %v", tt.rest, tt.after, n, rests)
			}
		}
	}
}

func TestSweep(t *testing.T) {
	f := testIDs(t)
	ids := map[string]uint32{}
	for _, holder := range []string{"x/a", "x/b", "x:gateway", "xy/a", "y/a"} {
		n, err := f.Allocate(holder, nil)
		if err != nil {
			t.Fatal(err)
		}
		ids[holder] = n
	}
	for name, text := range map[string]string{"12x": "x/z", strconv.Itoa(lastID): "rubbish", "007": "x/z"} {
		if err := os.Symlink(text, filepath.Join(f.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(f.dir, strconv.Itoa(lastID-Size)), []byte("x/z"), 0o600); err != nil {
		t.Fatal(err)
	}
	problems, err := f.Sweep("x", func(holder string, n uint32) bool { return holder == "x/b" && n == ids[holder] })
	if err != nil || len(problems) != 4 {
		t.Errorf("%v, problems %v", err, problems)
	}
	left := maps.Collect(func(yield func(string, bool) bool) {
		entries, _ := os.ReadDir(f.dir)
		for _, e := range entries {
			text, err := os.Readlink(filepath.Join(f.dir, e.Name()))
			if err == nil && !yield(text, true) {
				return
			}
		}
	})
	if want := map[string]bool{"x/b": true, "xy/a": true, "y/a": true, "rubbish": true, "x/z": true}; !maps.Equal(left, want) {
		t.Errorf("left are %v, want %v", left, want)
	}
	for _, n := range []uint32{lastID, lastID - Size} {
		if f.Claim(n, "x/c") == nil || f.Release(n, "x/z") == nil {
			t.Errorf("%d was trusted", n)
		}
	}
}

func TestCloseRemovesEmptyFolder(t *testing.T) {
	f := testIDs(t)
	if err := f.Close(); err != nil {
		t.Errorf("no folder: %v", err)
	}
	n, err := f.Allocate("x/a", nil)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(f.dir); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", st, err)
	}
	if err := f.Close(); err != nil || f.Claim(n, "x/a") != nil {
		t.Errorf("with a claim: %v", err)
	}
	if err := errors.Join(f.Release(n, "x/a"), f.Close()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(f.dir); !os.IsNotExist(err) {
		t.Errorf("the folder is still there: %v", err)
	}
}

func TestSubordinate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "subuid")
	for _, tt := range []struct {
		text string
		want []span
		ok   bool
	}{
		{"", nil, true},
		{"# none\n\nalice:1879048192:65536\nbob:100000:1\n", []span{{firstID, firstID + Size}, {100000, 100001}}, true},
		{"alice:1:2:3\n", nil, false},
		{"alice:x:2\n", nil, false},
		{"alice:1:-2\n", nil, false},
		{"alice:1:99999999999\n", nil, false},
	} {
		if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := readSubordinate(path)
		if (err == nil) != tt.ok || tt.ok && !slices.Equal(got, tt.want) {
			t.Errorf("%q: %v, %v", tt.text, got, err)
		}
	}
	if got, err := readSubordinate(path + "x"); got != nil || err != nil {
		t.Errorf("no file: %v, %v", got, err)
	}
	f := testIDs(t)
	f.avoid = []span{{firstID + Size - 1, firstID + Size + 1}}
	if n, err := f.Allocate("x/a", nil); err != nil || n != firstID+2*Size {
		t.Errorf("took %#x, %v", n, err)
	}
	if err := f.Claim(firstID, "x/b"); !errors.Is(err, ErrTaken) {
		t.Errorf("an account's ids are held: %v", err)
	}
}

// child allocates and releases numbers for some time, and keeps some.
func child(root, holder string) {
	f, err := IDs(root)
	for i := 0; i < 60 && err == nil; i++ {
		var n uint32
		if n, err = f.Allocate(fmt.Sprintf("%s/%d", holder, i), nil); err == nil && i%3 > 0 {
			err = f.Release(n, fmt.Sprintf("%s/%d", holder, i))
			err = errors.Join(err, f.Close())
		}
		if err == nil && i%3 == 0 {
			fmt.Println(n)
		}
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func TestTwoProcessesAtOnce(t *testing.T) {
	root := t.TempDir()
	outs := make(chan string, 3)
	for _, holder := range []string{"x", "y", "z"} {
		go func() {
			c := exec.Command(os.Args[0])
			c.Env = append(os.Environ(), "CLAIM_TEST_ROOT="+root, "CLAIM_TEST_HOLDER="+holder)
			out, err := c.CombinedOutput()
			if err != nil {
				out = append(out, err.Error()...)
			}
			outs <- string(out)
		}()
	}
	seen := map[string]bool{}
	for range 3 {
		for n := range strings.FieldsSeq(<-outs) {
			if _, err := strconv.Atoi(n); err != nil || seen[n] {
				t.Errorf("%s was given out twice, or is no number", n)
			}
			seen[n] = true
		}
	}
	if len(seen) != 60 {
		t.Errorf("%d were given out", len(seen))
	}
}

// TestModel compares the folder with a map, while processes are replaced at any time.
func TestModel(t *testing.T) {
	dir, round := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		round++
		root, now := filepath.Join(dir, strconv.Itoa(round)), time.Unix(1e9, 0)
		open := func() *Folder {
			f := Ports(root, 1, 6, 10*time.Second)
			f.now = func() time.Time { return now }
			return f
		}
		f, model, rest := open(), map[uint32]string{}, map[uint32]time.Time{}
		holder := func() string { return rapid.SampledFrom([]string{"x/a", "x/b", "y/a"}).Draw(t, "holder") }
		free := func(n uint32) bool { return model[n] == "" && !rest[n].After(now) }
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				h := holder()
				n, err := f.Allocate(h, nil)
				fits := slices.DeleteFunc([]uint32{1, 2, 3, 4, 5, 6}, func(n uint32) bool { return !free(n) })
				if len(fits) == 0 { // then the resting ones with the shortest time left
					for i := range rest {
						if model[i] == "" && !slices.ContainsFunc(fits, func(o uint32) bool { return rest[o].Before(rest[i]) }) {
							fits = append(slices.DeleteFunc(fits, func(o uint32) bool { return rest[o].After(rest[i]) }), i)
						}
					}
				}
				if (err == nil) != (len(fits) > 0) || err == nil && !slices.Contains(fits, n) {
					t.Fatalf("took %d, %v; there are %v, %v", n, err, model, rest)
				}
				if err == nil {
					model[n] = h
					delete(rest, n)
				}
			},
			"release": func(t *rapid.T) {
				n, h := rapid.Uint32Range(1, 6).Draw(t, "n"), holder()
				if err := f.Release(n, h); err != nil {
					t.Fatal(err)
				}
				if model[n] == h {
					delete(model, n)
					rest[n] = now.Add(10 * time.Second)
				}
			},
			"sweep": func(t *rapid.T) {
				if _, err := f.Sweep("x", func(h string, n uint32) bool { return h == "x/b" }); err != nil {
					t.Fatal(err)
				}
				for n, h := range model {
					if h == "x/a" {
						delete(model, n)
						rest[n] = now.Add(10 * time.Second)
					}
				}
			},
			"time":    func(t *rapid.T) { now = now.Add(time.Duration(rapid.IntRange(1, 12).Draw(t, "s")) * time.Second) },
			"replace": func(t *rapid.T) { f = open() },
			"close": func(t *rapid.T) {
				if err := f.Close(); err != nil {
					t.Fatal(err)
				}
			},
			"": func(t *rapid.T) {
				for n, h := range model {
					if err := f.Claim(n, h); err != nil {
						t.Fatal(err)
					}
				}
			},
		})
	})
}

// TestLockTimesOut covers a process that was stopped while it held the lock.
func TestLockTimesOut(t *testing.T) {
	f := testIDs(t)
	a, err := f.Allocate("x/a", nil)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.Open(f.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(10*time.Second, func() { dir.Close() }) // otherwise the test would never end
	defer func(was time.Duration) { lockPatience = was }(lockPatience)
	lockPatience = 20 * time.Millisecond
	if err := f.Claim(a, "x/a"); err == nil || !strings.Contains(err.Error(), "lsof "+f.dir) {
		t.Errorf("while another process has the folder: %v", err)
	}
}
