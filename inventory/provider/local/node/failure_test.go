package node

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/am/testkit/require"
	"patchbay/am/testkit/wait"
)

// expectStartFailure starts a node, which must fail with these texts and leave nothing.
func expectStartFailure(t *testing.T, h *Host, ctx context.Context, s Spec, words ...string) {
	t.Helper()
	_, err := h.Start(ctx, s)
	for _, w := range words {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("error %v, want words about %q", err, w)
		}
	}
	if pids, err := h.tree.IDs(); err != nil || len(pids) > 0 {
		t.Errorf("left: groups %v %v", pids, err)
	}
	for pid, uid := range livingProcesses(t) {
		if uid >= s.Base && uid < s.Base+idCount {
			t.Errorf("left: process %d", pid)
		}
	}
}

func TestFailuresAreExplainedAndLeaveNothing(t *testing.T) {
	h := openHost(t, "node-fails")
	ctx := t.Context()
	image := testImage(t)
	prepare(t, h, spec("n1", image))

	s := spec("n1", image)
	s.Image.Root = "/no/such/image"
	expectStartFailure(t, h, ctx, s, "/no/such/image", "no such file")
	s = spec("n1", image)
	s.Image.Usr = "/no/such/usr"
	expectStartFailure(t, h, ctx, s, "/no/such/usr", "no such file")
	s = spec("n1", image)
	s.Image.Root = "/proc"
	expectStartFailure(t, h, ctx, s, "/proc", "idmapped")

	late, cancel := context.WithCancel(ctx)
	cancel()
	expectStartFailure(t, h, late, spec("n1", image), "canceled")
	soon, cancel := context.WithTimeout(ctx, 2*time.Millisecond)
	defer cancel()
	expectStartFailure(t, h, soon, spec("n1", image), "deadline")

	start(t, h, spec("n1", image)) // the failures left it usable
	expectOutput(t, h, "n1", "echo alive", "alive\n")
}

// The stages of a start are killed as if the node's memory did not suffice: PID 1 before the stage
// that is its parent, so that PID 1 becomes a child of this process.
func TestKilledStartsLeaveNoZombies(t *testing.T) {
	h := openHost(t, "node-zombies")
	s := spec("n1", testImage(t))
	prepare(t, h, s)
	others := listZombies(t) // left to this process by other tests
	left := func() []int {
		return slices.DeleteFunc(slices.Collect(maps.Keys(listZombies(t))), func(pid int) bool { return others[pid] })
	}
	failed := 0
	for range 20 {
		over := make(chan struct{})
		started := make(chan error, 1)
		go func() {
			_, err := h.Start(t.Context(), s)
			close(over)
			started <- err
		}()
		for killed := false; !killed; time.Sleep(200 * time.Microsecond) {
			select {
			case <-over:
				killed = true // too late
				continue
			default:
			}
			pids, err := h.tree.PIDs("n1")
			if err == nil && slices.ContainsFunc(pids, func(pid int) bool { return livingProcesses(t)[pid] == s.Base }) {
				for _, pid := range slices.Backward(pids) {
					unix.Kill(pid, unix.SIGKILL)
				}
				killed = true
			}
		}
		if err := <-started; err != nil {
			failed++
		}
		kill(t, h, "n1")
		wait.Holds(t, func() bool { return len(left()) == 0 }, func() string { return fmt.Sprintf("processes %v are zombies of this process", left()) })
	}
	if failed == 0 {
		t.Error("no start was killed")
	}
}

// listZombies returns the dead children of this process.
func listZombies(t testing.TB) map[int]bool {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	must(t, err)
	all := make(map[int]bool)
	for _, path := range stats {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		text := string(b)
		fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
		if len(fields) < 2 || fields[0] != zombie || fields[1] != strconv.Itoa(os.Getpid()) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		must(t, err)
		all[pid] = true
	}
	return all
}

// The folders for mounts in these images are symbolic links to places that must not change.
func TestImagesWithLinksAsMountPoints(t *testing.T) {
	h := openHost(t, "node-links")
	for _, dir := range []string{"dev", "run", "proc", "sys", "usr"} {
		for _, target := range []string{"/tmp", "../../../../../..", "tmp"} {
			image := testImage(t)
			must(t, os.Remove(filepath.Join(image.Root, dir)))
			must(t, os.Symlink(target, filepath.Join(image.Root, dir)))
			s := spec("n1", image)
			prepare(t, h, s)
			expectStartFailure(t, h, t.Context(), s, "/"+dir)
		}
	}
	image := testImage(t)
	for _, dir := range []string{"dev", "run", "proc", "sys", "usr"} {
		must(t, os.Remove(filepath.Join(image.Root, dir)))
	}
	s := spec("n2", image)
	launch(t, h, s) // missing folders are created
	expectOutput(t, h, "n2", "stat -c %u:%a /dev /run /usr; echo > /dev/null", "0:755\n0:755\n0:755\n")
}

func TestDamagedDisks(t *testing.T) {
	h := openHost(t, "node-damage")
	s := spec("n1", testImage(t))
	launch(t, h, s)
	runLine(t, h, "n1", "echo kept > /kept; echo lost > /lost; sync")
	kill(t, h, "n1")
	path := filepath.Join(h.Dir("n1"), diskFile)
	debugfs := require.Tool(t, "debugfs")
	set := func(what, value string) {
		t.Helper()
		if out, err := exec.Command(debugfs, "-w", "-R", "set_super_value "+what+" "+value, path).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	// look returns the disk's state: whether it is unclean, and when it was last checked.
	look := func() (bad bool, checked uint32) {
		t.Helper()
		disk, err := os.Open(path)
		must(t, err)
		defer disk.Close()
		var b [4]byte
		if _, err := disk.ReadAt(b[:], 1024+0x40); err != nil {
			t.Fatal(err)
		}
		bad, err = isUnclean(disk)
		if err != nil {
			t.Error(err)
		}
		return bad, binary.LittleEndian.Uint32(b[:])
	}
	again := func() {
		t.Helper()
		start(t, h, s)
		expectOutput(t, h, "n1", "cat /kept", "kept\n")
		kill(t, h, "n1")
	}
	if bad, _ := look(); bad {
		t.Error("after Kill the disk is unclean")
	}
	set("lastcheck", "20010101")
	_, old := look()
	again()
	if bad, checked := look(); bad || checked != old {
		t.Error("a clean disk was checked in the same boot")
	}
	set("state", "0") // it was not unmounted
	if bad, _ := look(); !bad {
		t.Error("it should be unclean")
	}
	again()
	if bad, checked := look(); bad || checked == old {
		t.Error("an unclean disk was not checked")
	}
	set("lastcheck", "20010101")
	record := filepath.Join(h.Dir("n1"), recordFile)
	for _, text := range []string{`{"pid":1,"started":"1","boot":"before"}`, ""} {
		must(t, os.WriteFile(record, []byte(text), 0o600))
		again()
		if _, checked := look(); checked == old {
			t.Errorf("the disk was not checked after another boot, or one that is not known: %q", text)
		}
		set("lastcheck", "20010101")
	}
	// Damage that e2fsck repairs only with -y.
	set("state", "0")
	if out, err := exec.Command(debugfs, "-w", "-R", "unlink upper/lost", path).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	again()
	// Damage that cannot be repaired.
	must(t, os.WriteFile(path, make([]byte, 1<<20), 0o600))
	expectStartFailure(t, h, t.Context(), s, "no file system", "remove the node")
}

// A loop device of the node's disk is in use.
func TestDiskInUseIsNotMounted(t *testing.T) {
	h := openHost(t, "node-twice")
	s := spec("n1", testImage(t))
	prepare(t, h, s)
	disk, err := os.OpenFile(filepath.Join(h.Dir("n1"), diskFile), os.O_RDWR, 0)
	must(t, err)
	device, err := AttachLoop(disk)
	must(t, err)
	disk.Close() // the device keeps it open
	free, err := os.OpenFile(filepath.Join(h.Dir("n1"), diskFile), os.O_RDWR, 0)
	must(t, err)
	defer free.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := lockDisk(ctx, free); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a disk that is in use: %v", err)
	}
	free.Close()
	began := time.Now()
	time.AfterFunc(100*time.Millisecond, func() { device.Close() })
	start(t, h, s) // waits until it is unused
	if took := time.Since(began); took < 100*time.Millisecond {
		t.Errorf("mounted after %v, while another had it", took)
	}
}

func TestRemoveRefusesMounts(t *testing.T) {
	h := openHost(t, "node-mounted")
	s := spec("n1", testImage(t))
	prepare(t, h, s)
	dir := filepath.Join(h.Dir("n1"), "mounted")
	must(t, os.Mkdir(dir, 0o700))
	victim := t.TempDir()
	must(t, os.WriteFile(filepath.Join(victim, "file"), []byte("kept"), 0o600))
	must(t, unix.Mount(victim, dir, "", unix.MS_BIND, ""))
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	if err := h.Remove(t.Context(), "n1"); err == nil || !strings.Contains(err.Error(), "mounted at "+dir) {
		t.Errorf("error %v, want one that names %s", err, dir)
	}
	must(t, unix.Unmount(dir, 0))
	// An unexpected folder is not entered.
	if err := h.Remove(t.Context(), "n1"); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("error %v, want one about a folder", err)
	}
	trash, err := filepath.Glob(filepath.Join(h.State, trashFolder, "n1.*", "mounted"))
	if err != nil || len(trash) != 1 {
		t.Fatalf("in the trash: %v %v", trash, err)
	}
	reopenBeside(t, h) // the error is only logged
	must(t, os.Remove(trash[0]))
	if err := h.emptyTrash(); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(filepath.Join(victim, "file")); err != nil || string(b) != "kept" {
		t.Errorf("another program's file: %q %v", b, err)
	}
	checkNothingLeft(t, h, s)
}

// TestOpenRemovesOldFiles creates the rest of interrupted calls.
func TestOpenRemovesOldFiles(t *testing.T) {
	h := openHost(t, "node-tidy")
	for _, file := range []string{"trash/n1.abc/disk.img", "disks/1048576.xyz", "nodes/n2/disk.img.new"} {
		path := filepath.Join(h.State, file)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, nil, 0o600))
	}
	again := reopenBeside(t, h)
	for _, gone := range []string{"trash/n1.abc", "disks/1048576.xyz"} {
		if _, err := os.Lstat(filepath.Join(h.State, gone)); err == nil {
			t.Errorf("%s is left", gone)
		}
	}
	if ids, err := again.IDs(); err != nil || fmt.Sprint(ids) != "[n2]" {
		t.Errorf("nodes %v %v, want n2", ids, err)
	}
	prepare(t, again, spec("n2", testImage(t)))
	removeAll(t, again)
	checkNothingLeft(t, again)
}
