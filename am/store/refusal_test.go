package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"patchbay/am"
	"patchbay/am/testkit/require"
)

// TestTruncatedAnywhere truncates a store after each page, and within pages. It is refused and not
// changed, or it has all its records.
func TestTruncatedAnywhere(t *testing.T) {
	path := filled(t)
	original, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for size := 0; size < len(original); size += 4096 - 1000*(size>>12&1) {
		if err := os.WriteFile(path, original[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Open(path, Options{Now: at})
		if err != nil {
			refused++
			if now, _ := os.ReadFile(path); !bytes.Equal(now, original[:size]) {
				t.Fatalf("%d bytes: a refused file was changed", size)
			}
			if !strings.Contains(err.Error(), "restore a backup") || !strings.Contains(err.Error(), path) {
				t.Errorf("%d bytes: the refusal is %v", size, err)
			}
			continue
		}
		sampleRecords().compare(t, s)
		s.Close()
	}
	if refused < 10 {
		t.Errorf("only %d refused", refused)
	}
}

// TestOpenRefusesSpecialFiles checks that Open returns an error for a pipe, a socket and broken
// links, and creates no file.
func TestOpenRefusesSpecialFiles(t *testing.T) {
	for _, tt := range []struct {
		rule string
		make func(path string) error
		want string
	}{
		{"a pipe", func(path string) error { return unix.Mkfifo(path, 0o600) }, "it is a directory, pipe or device; name a file"},
		{"a socket", func(path string) error { return unix.Mknod(path, unix.S_IFSOCK|0o600, 0) }, "it is a directory, pipe or device; name a file"},
		{"a link to nothing", func(path string) error { return os.Symlink(path+"-gone", path) }, "it is a link to a file that does not exist"},
		{"a link to itself", func(path string) error { return os.Symlink(path, path) }, "too many levels of symbolic links"},
		{"a folder that is not there", func(path string) error { return os.Remove(filepath.Dir(path)) }, "no such file or directory"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			path := filepath.Join(dir, "store.db")
			if err := errors.Join(os.Mkdir(dir, 0o700), tt.make(path)); err != nil {
				t.Fatal(err)
			}
			before := folder(t, path)
			_, err := Open(path, Options{})
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("the refusal is %v", err)
			}
			if _, err := Check(path); err == nil {
				t.Error("Check finds nothing wrong")
			}
			if now := folder(t, path); len(now) != len(before) {
				t.Errorf("there is %v, and was %v", now, before)
			}
		})
	}
}

func TestOpenFollowsALink(t *testing.T) {
	path := filled(t)
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	s, err := Open(link, Options{Now: at})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	sampleRecords().compare(t, s)
}

// TestFileCutWhileOpen truncates the file of an open store. Calls return errors, and the process
// survives.
func TestFileCutWhileOpen(t *testing.T) {
	path := filled(t)
	s, err := Open(path, Options{Now: at})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 2*4096); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Slivers(); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("a read: %v", err)
	}
	if err := s.Commit(t.Context(), put(sliver("a", "s", 1))); !errors.Is(err, ErrNotCommitted) {
		t.Errorf("a commit: %v", err)
	}
	if _, err := s.Check(); err == nil {
		t.Error("Check of the open store finds nothing wrong")
	}
	_ = s.Close()
}

// fullEnv names the folder in which the test binary fills a small disk.
const fullEnv = "PATCHBAY_TEST_FULL"

func init() {
	if dir := os.Getenv(fullEnv); dir != "" {
		if err := fillDisk(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

var errNoMount = errors.New("no file system can be mounted here")

// fillDisk uses a store on a disk that becomes full and has room again later.
func fillDisk(dir string) error {
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=4m"); err != nil {
		return fmt.Errorf("%w: %w", errNoMount, err)
	}
	ballast, path := filepath.Join(dir, "ballast"), filepath.Join(dir, "store.db")
	weigh := func(mib int) error { return os.WriteFile(ballast, make([]byte, mib<<20), 0o600) }
	if err := weigh(1); err != nil {
		return err
	}
	s, err := Open(path, Options{Now: at})
	if err != nil {
		return err
	}
	write := func(i int) error {
		name := fmt.Sprint(i)
		return s.Commit(context.Background(), func(*View) (cs ChangeSet, err error) {
			cs.PutSlice(am.Slice{URN: sliceURN(name)})
			cs.PutDocument(am.Document{ID: name, Slice: sliceURN(name), Text: make([]byte, 50_000)})
			x := sliver(name, name, i)
			x.Document = name
			cs.PutSliver(x)
			return cs, nil
		})
	}
	written := 0
	for err == nil {
		if err = write(written); err == nil {
			written++
		}
	}
	if !errors.Is(err, ErrNotCommitted) || errors.Is(err, ErrInDoubt) || !strings.Contains(err.Error(), "no space left on device") {
		return fmt.Errorf("when the disk was full: %w", err)
	}
	for range 10 { // pages of the refused commit may suffice for the next
		if err := write(written); err == nil {
			written++
		} else if !errors.Is(err, ErrNotCommitted) || errors.Is(err, ErrInDoubt) {
			return fmt.Errorf("and again: %w", err)
		}
	}
	check := func() error {
		r, err := s.Check()
		if err == nil {
			err = r.Err()
		}
		if err == nil && (written < 20 || r.Records[Slivers] != written) {
			err = fmt.Errorf("%d were written, %d exist", written, r.Records[Slivers])
		}
		return err
	}
	if err := check(); err != nil {
		return fmt.Errorf("reading while it is full: %w", err)
	}
	// A server that starts meanwhile serves the stored records.
	if err := s.Close(); err != nil {
		return err
	}
	if s, err = Open(path, Options{Now: at}); err != nil {
		return fmt.Errorf("opened while it is full: %w", err)
	}
	if err := check(); err != nil {
		return fmt.Errorf("opened while it is full: %w", err)
	}
	if err := os.Remove(ballast); err != nil {
		return err
	}
	if err := write(written); err != nil {
		return fmt.Errorf("when there is room again: %w", err)
	}
	written++
	if err := errors.Join(check(), s.Close()); err != nil {
		return fmt.Errorf("when there is room again: %w", err)
	}
	return fullMigration(dir, ballast)
}

// fullMigration checks that a file that cannot be copied is not migrated.
func fullMigration(dir, ballast string) error {
	z, err := os.ReadFile(oldFile(1))
	if err != nil {
		return err
	}
	text, err := unpack(z)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "old.db")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return err
	}
	f, err := os.Create(ballast)
	if err != nil {
		return err
	}
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	f.Close()
	if _, err := Open(path, Options{Now: at}); err == nil || !strings.Contains(err.Error(), "cannot be copied") || !strings.Contains(err.Error(), "no space left") {
		return fmt.Errorf("an older file on a full disk: %w", err)
	}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, text) {
		return fmt.Errorf("an older file was changed on a full disk: %w", err)
	}
	if left, _ := filepath.Glob(path + "?*"); len(left) > 0 {
		return fmt.Errorf("on the full disk is left %v", left)
	}
	if err := os.Remove(ballast); err != nil {
		return err
	}
	s, err := Open(path, Options{Now: at})
	if err != nil {
		return err
	}
	return s.Close()
}

// TestFullDisk checks that only commits are refused while the disk is full.
func TestFullDisk(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), fullEnv+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if err == nil {
		return
	}
	if _, ran := errors.AsType[*exec.ExitError](err); !ran || strings.Contains(string(out), errNoMount.Error()) {
		require.Missing(t, "root", "a small disk cannot be made here: %v %s", err, out)
	}
	t.Errorf("%v: %s", err, out)
}
