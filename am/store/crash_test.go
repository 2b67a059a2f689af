package store

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"patchbay/am"
	"patchbay/am/testkit/require"
)

// writerEnv makes the test binary a writer on the file it names.
const writerEnv = "PATCHBAY_TEST_WRITER"

// runAsWriter commits until it is killed, and prints each name once its commit is
// acknowledged. If the path begins with "nobody:", it runs as the user nobody.
func runAsWriter() bool {
	path := os.Getenv(writerEnv)
	if path == "" {
		return false
	}
	if rest, ok := strings.CutPrefix(path, "nobody:"); ok {
		if err := syscall.Setuid(65534); err != nil {
			fmt.Println(err)
			return true
		}
		path = rest
	}
	s, err := Open(path, Options{})
	if err != nil {
		fmt.Println(err)
		return true
	}
	var out sync.Mutex
	var all sync.WaitGroup
	for c := range 4 {
		all.Go(func() {
			for i := 0; ; i++ {
				name := fmt.Sprintf("%d-%d-%d", os.Getpid(), c, i)
				err := s.Commit(context.Background(), func(*View) (ChangeSet, error) {
					var cs ChangeSet
					cs.PutSlice(am.Slice{URN: sliceURN(name)})
					cs.PutSliver(sliver(name, name, i))
					if i > 2 { // and the one before the last goes
						cs.Remove(SliverKey(sliverURN(fmt.Sprintf("%d-%d-%d", os.Getpid(), c, i-2))))
					}
					return cs, nil
				})
				if err != nil {
					return
				}
				out.Lock()
				fmt.Println(name)
				out.Unlock()
			}
		})
	}
	all.Wait()
	return true
}

func writer(t *testing.T, path string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), writerEnv+"="+path)
	return cmd
}

// TestKilledWriterLosesNothing kills a writer many times directly after an acknowledged commit, and
// checks that every acknowledged commit is in the store.
func TestKilledWriterLosesNothing(t *testing.T) {
	rounds := require.Rounds(6, 15)
	path := filepath.Join(t.TempDir(), "store.db")
	acknowledged := map[string]bool{}
	for round := range rounds {
		cmd := writer(t, path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			acknowledged[lines.Text()] = true
			if n == 20+7*round {
				_ = cmd.Process.Kill()
			}
		}
		_ = cmd.Wait()
		s, err := Open(path, Options{})
		if err != nil {
			t.Fatalf("after %d kills: %v", round+1, err)
		}
		consistent(t, s)
		err = s.Read(func(v *View) error {
			slices := map[string]bool{}
			if err := v.Slices(func(x am.Slice) bool { slices[x.URN.Name] = true; return true }); err != nil {
				return err
			}
			for name := range acknowledged {
				if !slices[name] {
					t.Errorf("round %d: %s was acknowledged and is lost", round, name)
				}
			}
			// A sliver never exists without the slice of the same change set.
			return v.Slivers(func(x am.Sliver) bool {
				if !slices[x.Slice.Name] {
					t.Errorf("round %d: half of %s is written", round, x.URN.Name)
				}
				return true
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		db, err := bbolt.Open(path, 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		err = db.View(func(tx *bbolt.Tx) error {
			for err := range tx.Check() {
				t.Errorf("round %d: %v", round, err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		db.Close()
	}
	if len(acknowledged) < 20*rounds {
		t.Errorf("only %d commits in %d rounds", len(acknowledged), rounds)
	}
	t.Logf("%d rounds, %d acknowledged commits, none lost", rounds, len(acknowledged))
}

// good makes a store file with some records in it and gives its bytes.
func good(t *testing.T, path string) []byte {
	t.Helper()
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		commit(t, s, put(sliver(fmt.Sprint(i), "s", i)))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestOpenRefuses checks that Open refuses an incomplete or foreign file with a reason and does not
// change it.
func TestOpenRefuses(t *testing.T) {
	change := func(f func(*bbolt.Tx) error) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			good(t, path)
			db, err := bbolt.Open(path, 0o600, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if err := db.Update(f); err != nil {
				t.Fatal(err)
			}
		}
	}
	write := func(b []byte) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, tt := range []struct {
		rule  string
		spoil func(t *testing.T, path string)
		want  string
	}{
		{"garbage", write([]byte(strings.Repeat("garbage\n", 4096))), "damaged or not a store"},
		{"a short text", write([]byte("hello\n")), "damaged or not a store"},
		{"zeros", write(make([]byte, 65536)), "damaged or not a store"},
		{"truncated to nothing", write(nil), "it is empty"},
		{"another program's bbolt file", func(t *testing.T, path string) {
			db, err := bbolt.Open(path, 0o600, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if err := db.Update(func(tx *bbolt.Tx) error { _, err := tx.CreateBucket([]byte("theirs")); return err }); err != nil {
				t.Fatal(err)
			}
		}, "bbolt file of another program"},
		{"a newer schema", change(func(tx *bbolt.Tx) error {
			return tx.Bucket(root).Bucket([]byte(metaBucket)).Put([]byte(schemaName), binary.BigEndian.AppendUint64(nil, schemaVersion+1))
		}), "it has schema 7 and this program knows 6"},
		{"no schema number", change(func(tx *bbolt.Tx) error {
			return tx.Bucket(root).Bucket([]byte(metaBucket)).Delete([]byte(schemaName))
		}), "its schema number is missing"},
		{"no meta bucket", change(func(tx *bbolt.Tx) error { return tx.Bucket(root).DeleteBucket([]byte(metaBucket)) }), "missing"},
		{"a bucket missing", change(func(tx *bbolt.Tx) error { return tx.Bucket(root).DeleteBucket([]byte(Tasks)) }), "missing"},
		{"no calendar", change(func(tx *bbolt.Tx) error { return tx.Bucket(root).DeleteBucket([]byte(calendarBucket)) }), "missing"},
		{"a damaged revision", change(func(tx *bbolt.Tx) error {
			return tx.Bucket(root).Bucket([]byte(metaBucket)).Put([]byte(revisionName), []byte("x"))
		}), "its revision is not a number"},
		{"a folder", func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}, "directory"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "store.db")
			tt.spoil(t, path)
			before, _ := os.ReadFile(path)
			s, err := Open(path, Options{})
			if err == nil {
				s.Close()
				t.Fatal("it is opened")
			}
			if !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("the error is %v; want %s", err, tt.want)
			}
			if after, _ := os.ReadFile(path); string(after) != string(before) {
				t.Error("the file was changed")
			}
		})
	}
}

func TestOpenLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	out, _ := writer(t, path).Output()
	if !strings.Contains(string(out), "another process has it open") {
		t.Errorf("a second process says %q", out)
	}
}

func TestOpenReadOnly(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "store.db")
	good(t, path)
	if err := os.Chmod(path, 0o444); err != nil {
		t.Fatal(err)
	}
	who := path
	if os.Geteuid() == 0 { // root may write everything, so use another user
		who = "nobody:" + path
		for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
			if err := os.Chmod(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	began := time.Now()
	out, _ := writer(t, who).Output()
	if !strings.Contains(string(out), "this user may not write it") {
		t.Errorf("the output is %q after %v", out, time.Since(began))
	}
}

// TestNewStoreIsCompleteOrMissing checks the folder after each step at which the creation of a
// store may be killed. No incomplete file has the store's name.
func TestNewStoreIsCompleteOrMissing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "store")
	// Files left by a killed process do not matter.
	if err := os.WriteFile(path+".new-1", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 8 { // makers at the same time do not replace each other's file
		all.Go(func() {
			if err := create(path); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	left, _ := filepath.Glob(path + "*")
	if len(left) != 2 {
		t.Errorf("left behind: %v", left)
	}
}
