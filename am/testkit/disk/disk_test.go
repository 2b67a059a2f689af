package disk

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// writerEnv makes this program one that changes files in the folder it names.
const writerEnv = "PATCHBAY_TEST_DISK_WRITER"

func TestMain(m *testing.M) {
	InstallFilter()
	if dir := os.Getenv(writerEnv); dir != "" {
		write(dir)
		return
	}
	os.Exit(m.Run())
}

// write makes one call of each kind and prints its result.
func write(dir string) {
	say := func(what string, err error) { fmt.Println(what, err) }
	if err := os.Chdir(dir); err != nil {
		fmt.Println(err)
		return
	}
	f, err := os.CreateTemp(".", "a-*")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = f.WriteString("0123456789")
	say("write", err)
	_, err = f.WriteAt([]byte("abcdef"), 4)
	say("write", err)
	say("sync", f.Sync())
	say("sync", unix.Fdatasync(int(f.Fd())))
	say("truncate", f.Truncate(6))
	say("allocate", unix.Fallocate(int(f.Fd()), 0, 0, 8))
	say("link", os.Link(f.Name(), "b"))
	say("rename", os.Rename("b", "c"))
	say("remove", os.Remove(f.Name()))
	other, err := os.Create(filepath.Join(dir, "d"))
	if err == nil {
		_, _ = f.Seek(0, 0)
		_, err = other.ReadFrom(f) // the kernel could copy it
	}
	say("write", err)
}

// calls are the calls of write, as it prints them.
var calls = []Kind{Write, Write, Sync, Sync, Truncate, Allocate, Link, Rename, Remove, Write}

func writer(dir string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), writerEnv+"="+dir)
	return cmd
}

// files are the contents of the files of a folder.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		name := e.Name()
		if strings.HasPrefix(name, "a-") {
			name = "a"
		}
		all[name] = string(b)
	}
	return all
}

func TestUndisturbedCallsAreDone(t *testing.T) {
	Available(t)
	dir := t.TempDir()
	cmd := writer(dir)
	var out bytes.Buffer
	cmd.Stdout = &out
	log, err := Run(cmd, Options{Folder: dir})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := files(t, dir), map[string]string{"c": "0123ab\x00\x00", "d": "0123ab\x00\x00"}; !maps.Equal(got, want) {
		t.Errorf("it left %q, want %q", got, want)
	}
	var kinds []Kind
	for _, e := range log {
		if e.N > 0 {
			kinds = append(kinds, e.Kind)
		}
	}
	if !slices.Equal(kinds, calls) {
		t.Errorf("the calls were %v, want %v", kinds, calls)
	}
	if log.Output() != out.String() || strings.Count(out.String(), "<nil>") != len(calls) {
		t.Errorf("it wrote %q, and the log has %q", out.String(), log.Output())
	}
}

// TestEveryCallCanFail fails each call in each way. It checks the error that the program gets,
// the other calls, and the files that are left.
func TestEveryCallCanFail(t *testing.T) {
	Available(t)
	rows := 0
	for n, kind := range calls {
		for _, f := range []Fault{
			{Do: None, Errno: unix.EIO},
			{Do: None, Errno: unix.ENOSPC},
			{Do: Whole, Errno: unix.EDQUOT},
			{Do: Half, Errno: unix.EIO},
			{Do: None, Kill: true},
			{Do: Whole, Kill: true},
			{},
		} {
			rows++
			name := fmt.Sprintf("%s %d: %v", kind, n+1, f)
			dir := t.TempDir()
			log, err := Run(writer(dir), Options{Folder: dir, Decide: func(c Call) Fault {
				if c.N == n+1 {
					return f
				}
				return Fault{}
			}})
			lines := strings.Split(strings.TrimSpace(log.Output()), "\n")
			switch {
			case f.Kill:
				if cmd, ok := err.(*exec.ExitError); !ok || cmd.ProcessState.ExitCode() != -1 || log.Calls() != n+1 || strings.Count(log.Output(), "\n") != n {
					t.Errorf("%s: %v after %d calls, and it said %q", name, err, log.Calls(), lines)
				}
			case err != nil:
				t.Errorf("%s: %v", name, err)
			case f.Errno == 0:
				if strings.Contains(log.Output(), "error") || log.Calls() != len(calls) {
					t.Errorf("%s: it said %q", name, lines)
				}
			case kind == Remove && f.Do == Whole: // it is tried as a folder, too
			case !strings.Contains(lines[n], f.Errno.Error()):
				t.Errorf("%s: it said %q", name, lines)
			}
			left := files(t, dir)
			switch {
			case kind == Write && n == 0 && f.Do != Whole:
				want := map[Portion]string{None: "", Half: "01234"}[f.Do]
				if f.Kill && left["a"] != want {
					t.Errorf("%s: it left %q", name, left)
				}
				if !f.Kill && !strings.HasPrefix(left["c"], (want + "\x00\x00\x00\x00")[:4]) {
					t.Errorf("%s: it left %q", name, left)
				}
			case kind == Link && f.Kill:
				if _, made := left["b"]; made != (f.Do == Whole) {
					t.Errorf("%s: it left %q", name, left)
				}
			case kind == Remove && f.Do != Whole:
				if _, there := left["a"]; !there {
					t.Errorf("%s: it left %q", name, left)
				}
			case kind == Truncate && f.Do == Whole && !f.Kill:
				if left["c"] != "0123ab\x00\x00" {
					t.Errorf("%s: it left %q", name, left)
				}
			}
		}
	}
	t.Logf("%d rows", rows)
}

func TestOtherFoldersAreUnchanged(t *testing.T) {
	Available(t)
	dir := t.TempDir()
	log, err := Run(writer(dir), Options{Folder: t.TempDir(), Decide: func(c Call) Fault { return Fault{Do: None, Errno: unix.EIO} }})
	if err != nil || log.Calls() != 0 || files(t, dir)["c"] == "" {
		t.Errorf("%v, %d calls, %q", err, log.Calls(), files(t, dir))
	}
}

func TestMissingFilesAreErrors(t *testing.T) {
	dir := t.TempDir()
	cmd := writer(dir)
	cmd.Path = "/nowhere"
	if _, err := Run(cmd, Options{Folder: dir}); err == nil {
		t.Error("a program that is not there ran")
	}
	if _, err := Run(writer(dir), Options{Folder: filepath.Join(dir, "nowhere")}); err == nil {
		t.Error("a folder that is not there was watched")
	}
}

// TestCuts follows a short log by hand.
func TestCuts(t *testing.T) {
	data := func(b byte) []byte { return bytes.Repeat([]byte{b}, 2*sector) }
	w := func(b byte) Event {
		return Event{Call: Call{Kind: Write, Data: data(b)}, Done: 2 * sector, file: 1}
	}
	sync := Event{Call: Call{Kind: Sync, Path: "/x/f"}, file: 1}
	link := Event{Call: Call{Kind: Link, Path: "/x/f", To: "/x/g"}, file: 1}
	folder := Event{Call: Call{Kind: Sync, Path: "/x"}, file: 9}
	failed := sync
	failed.Err = unix.EIO
	old := Snapshot{"/x", map[string]savedFile{"/x/f": {1, data('0')}}}
	for _, tt := range []struct {
		rule string
		log  Log
		can  []string // what the end may leave: names, and the first byte of each sector
		not  []string
	}{
		{"what was not synced is there or not, or in part", Log{w('1')}, []string{"f=00", "f=11", "f=10"}, nil},
		{"what was synced is there", Log{w('1'), sync}, []string{"f=11"}, []string{"f=00", "f=10"}},
		{"what was not synced comes in any order", Log{w('1'), w('2')}, []string{"f=00", "f=11", "f=22"}, nil},
		{"what was synced is not older than it", Log{w('1'), sync, w('2')}, []string{"f=11", "f=22", "f=21"}, []string{"f=00"}},
		{"a name lasts with its folder", Log{link}, []string{"f=00", "f=00 g=00"}, nil},
		{"a sync of the file does not keep its name", Log{link, sync}, []string{"f=00", "f=00 g=00"}, nil},
		{"a sync of the folder does", Log{link, folder}, []string{"f=00 g=00"}, []string{"f=00"}},
		{"after a sync that failed no other helps", Log{w('1'), failed, sync}, []string{"f=00", "f=11"}, nil},
		{"but to write again does", Log{w('1'), failed, w('1'), sync}, []string{"f=11"}, []string{"f=00"}},
		{"standard output is recorded", Log{w('1'), sync, {Output: "x"}}, []string{"f=11"}, nil},
	} {
		got := map[string]bool{}
		for c := range tt.log.Outcomes(old, 1, 8) {
			end := len(tt.log)
			if tt.log[end-1].Output != "" {
				end--
			}
			if c.Event != end {
				continue
			}
			var s []string
			for _, path := range slices.Sorted(maps.Keys(c.Files())) {
				b := c.Files()[path]
				s = append(s, fmt.Sprintf("%s=%c%c", filepath.Base(path), b[0], b[sector]))
			}
			got[strings.Join(s, " ")] = true
		}
		for _, want := range tt.can {
			if !got[want] {
				t.Errorf("%s: %v lacks %s", tt.rule, got, want)
			}
		}
		for _, bad := range tt.not {
			if got[bad] {
				t.Errorf("%s: %v has %s", tt.rule, got, bad)
			}
		}
	}
}
