package file

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"patchbay/am/testkit/disk"
)

// writerEnv makes this program one that writes the file that it names, three times.
const writerEnv = "PATCHBAY_TEST_DURABLE_WRITER"

func TestMain(m *testing.M) {
	disk.InstallFilter()
	if path := os.Getenv(writerEnv); path != "" {
		for n := 1; n <= 3; n++ {
			fmt.Println(n, Write(path, content(n), 0o640))
		}
		return
	}
	os.Exit(m.Run())
}

// content is longer than a sector, and different in each, for every n.
func content(n int) []byte { return []byte(strings.Repeat(fmt.Sprintf("%d of three\n", n), 100)) }

func writer(path string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), writerEnv+"="+path)
	return cmd
}

// version is which of the contents b is, -1 if it is none.
func version(b []byte) int {
	for n := range 4 {
		if string(b) == string(content(n)) {
			return n
		}
	}
	return -1
}

// acknowledged is the last version that the writer said was written.
func acknowledged(said string) int {
	n := 0
	for line := range strings.Lines(said) {
		if strings.HasSuffix(line, " <nil>\n") {
			_, _ = fmt.Sscan(line, &n)
		}
	}
	return n
}

func begin(t *testing.T) (dir, path string) {
	t.Helper()
	disk.Available(t)
	dir = t.TempDir()
	path = filepath.Join(dir, "file")
	if err := os.WriteFile(path, content(0), 0o640); err != nil {
		t.Fatal(err)
	}
	return dir, path
}

// TestPowerCuts looks at what the disk may hold after each call.
func TestPowerCuts(t *testing.T) {
	dir, path := begin(t)
	before, err := disk.TakeSnapshot(dir)
	if err != nil {
		t.Fatal(err)
	}
	log, err := disk.Run(writer(path), disk.Options{Folder: dir})
	if err != nil || acknowledged(log.Output()) != 3 {
		t.Fatalf("%v: %q", err, log.Output())
	}
	cuts := 0
	for cut := range log.Outcomes(before, 1, 8) {
		cuts++
		b, ok := cut.Files()["file"]
		if n := version(b); !ok || n < acknowledged(cut.Output) {
			t.Errorf("after %d events, %s: version %d, there %v, with %q said", cut.Event, cut.What, n, ok, cut.Output)
		}
	}
	if cuts < 20 {
		t.Errorf("only %d cuts", cuts)
	}
}

// TestEveryCallFails lets each call fail, by half or whole, or kills the writer at it.
func TestEveryCallFails(t *testing.T) {
	dir, path := begin(t)
	log, err := disk.Run(writer(path), disk.Options{Folder: dir})
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= log.Calls(); n++ {
		for _, fault := range []disk.Fault{
			{Do: disk.None, Errno: unix.EIO}, {Do: disk.Half, Errno: unix.ENOSPC}, {Do: disk.Half, Kill: true}, {Do: disk.Whole, Kill: true},
		} {
			dir, path := begin(t)
			log, err := disk.Run(writer(path), disk.Options{Folder: dir, Decide: func(c disk.Call) disk.Fault {
				if c.N == n {
					return fault
				}
				return disk.Fault{}
			}})
			if _, killed := errors.AsType[*exec.ExitError](err); err != nil && !(fault.Kill && killed) {
				t.Fatal(err)
			}
			b, err := os.ReadFile(path)
			if v := version(b); err != nil || v < acknowledged(log.Output()) {
				t.Errorf("call %d, %v: version %d, %v, with %q said", n, fault, v, err, log.Output())
			}
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if name := e.Name(); name != "file" && (!fault.Kill || Unfinished(name) != "file") {
					t.Errorf("call %d, %v: it left %s", n, fault, name)
				}
			}
		}
	}
}

func TestModeIsExact(t *testing.T) {
	defer unix.Umask(unix.Umask(0o077))
	path := filepath.Join(t.TempDir(), "file")
	for _, mode := range []os.FileMode{0o644, 0o600} {
		if err := Write(path, nil, mode); err != nil {
			t.Fatal(err)
		}
		if i, err := os.Stat(path); err != nil || i.Mode() != mode {
			t.Errorf("%v, %v; want %v", i.Mode(), err, mode)
		}
	}
}

func TestUnfinished(t *testing.T) {
	for name, want := range map[string]string{".file12": "file", ".file": "", "file12": "", "": "", ".12": ""} {
		if got := Unfinished(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestMissingFolder(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for _, err := range []error{Write(filepath.Join(missing, "file"), nil, 0o600), SyncFolder(missing)} {
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("got %v", err)
		}
	}
}
