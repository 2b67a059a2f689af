package sysctl

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeRoot returns a folder with settings.
func fakeRoot(t *testing.T, all map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range all {
		if err := os.MkdirAll(filepath.Dir(path(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		setFile(t, dir, name, text)
	}
	return dir
}

func setFile(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(path(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func expectSetting(t *testing.T, when, dir, name, want string) {
	t.Helper()
	if got, err := read(dir, name); err != nil || got.String() != want {
		t.Errorf("%s: %s is %v, %v, want %s", when, name, got, err, want)
	}
}

var quiet = slog.New(slog.DiscardHandler)

// fewSettings has settings of several shapes: one number, several, and a missing one.
var fewSettings = []setting{
	{"kernel.pid_max", values{4096}},
	{"net.ipv4.tcp_mem", values{100, 200, 300}},
	{"net.ipv6.neigh.default.gc_thresh1", values{7}},
}

func TestRestoreRestoresRaisedSettings(t *testing.T) {
	for _, tt := range []struct {
		name                     string
		pids, sockets            string
		between                  string // the value to which another program sets pid_max
		raisedPIDs, raisedSocket string
		leftPIDs                 string
	}{
		{"as usual", "512\n", "10\t20\t30\n", "", "4096", "100 200 300", "512"},
		{"larger ones stay", "5000\n", "400\t500\t600\n", "", "5000", "400 500 600", "5000"},
		{"each number by itself", "512\n", "10\t500\t30\n", "", "4096", "100 500 300", "512"},
		{"an operator's of later stay", "512\n", "10\t20\t30\n", "9000", "4096", "100 200 300", "9000"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			folder := t.TempDir()
			dir := fakeRoot(t, map[string]string{"kernel.pid_max": tt.pids, "net.ipv4.tcp_mem": tt.sockets})
			for range 2 {
				if err := raise(dir, fewSettings, folder, quiet); err != nil {
					t.Fatal(err)
				}
				expectSetting(t, "raised", dir, "kernel.pid_max", tt.raisedPIDs)
				expectSetting(t, "raised", dir, "net.ipv4.tcp_mem", tt.raisedSocket)
			}
			if tt.between != "" {
				setFile(t, dir, "kernel.pid_max", tt.between)
			}
			for range 2 {
				if err := restore(dir, folder); err != nil {
					t.Fatal(err)
				}
				expectSetting(t, "set back", dir, "kernel.pid_max", tt.leftPIDs)
				expectSetting(t, "set back", dir, "net.ipv4.tcp_mem", strings.Join(strings.Fields(tt.sockets), " "))
			}
			if list, err := os.ReadDir(folder); err != nil || len(list) > 0 {
				t.Errorf("left are %v, %v", list, err)
			}
		})
	}
}

// TestOldValuesAreRecordedFirst uses a folder in which no record can be written.
func TestOldValuesAreRecordedFirst(t *testing.T) {
	dir := fakeRoot(t, map[string]string{"kernel.pid_max": "512"})
	if err := raise(dir, fewSettings, filepath.Join(t.TempDir(), "missing"), quiet); err == nil {
		t.Error("no error, though nothing can be noted")
	}
	expectSetting(t, "not noted", dir, "kernel.pid_max", "512")
}

// TestErrorNamesCommandToRaise uses a setting that refuses to be written, as the kernel
// refuses values that are too large.
func TestErrorNamesCommandToRaise(t *testing.T) {
	folder := t.TempDir()
	dir := fakeRoot(t, map[string]string{"kernel.pid_max": "512", "net.ipv4.tcp_mem": "1 2 3"})
	// A read-only file of the kernel with a number.
	stubborn := append([]setting{{"kernel.random.entropy_avail", values{1 << 40}}}, fewSettings...)
	if err := os.MkdirAll(filepath.Join(dir, "kernel/random"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/proc/sys/kernel/random/entropy_avail", path(dir, "kernel.random.entropy_avail")); err != nil {
		t.Fatal(err)
	}
	err := raise(dir, stubborn, folder, quiet)
	if err == nil || strings.Count(err.Error(), "\n") > 0 || !strings.Contains(err.Error(), "sysctl -w kernel.random.entropy_avail='1099511627776'") {
		t.Errorf("error %v, want one line with the command", err)
	}
	expectSetting(t, "the others", dir, "kernel.pid_max", "4096")
	expectSetting(t, "the others", dir, "net.ipv4.tcp_mem", "100 200 300")
	n, err := readRecord(folder)
	if _, noted := n.Raised["kernel.random.entropy_avail"]; err != nil || noted || len(n.Raised) != 2 {
		t.Errorf("noted are %v, %v, want the two that were raised", n.Raised, err)
	}
	for _, l := range limits(dir, stubborn) {
		switch missing := errors.Is(l.Err, fs.ErrNotExist); {
		case l.Name == "kernel.random.entropy_avail" && (l.Enough || l.Err == nil || missing):
			t.Errorf("a setting that cannot be raised: %+v", l)
		case l.Name == "kernel.pid_max" && (!l.Enough || l.Err != nil):
			t.Errorf("a raised setting: %+v", l)
		case l.Name == fewSettings[2].name && !missing:
			t.Errorf("a missing setting: %+v", l)
		}
	}
}

func TestRecordOfAnotherBootIsIgnored(t *testing.T) {
	folder := t.TempDir()
	dir := fakeRoot(t, map[string]string{"kernel.pid_max": "4096"})
	for _, text := range []string{
		`{"boot":"another","raised":{"kernel.pid_max":{"was":[1],"set":[4096]}}}`, `{"boot":`, "",
		`{"boot":"another","raised":{"../../x":{"was":[1],"set":[2]}}}`,
	} {
		if err := os.WriteFile(filepath.Join(folder, File), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := restore(dir, folder); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		expectSetting(t, text, dir, "kernel.pid_max", "4096")
	}
}

// TestSettingsLeaveRoomOnAnyHost computes the settings for hosts of several sizes. Memory
// beyond them must be charged to nodes. TCP also has memory that is charged to no node,
// so its limit is only a part.
func TestSettingsLeaveRoomOnAnyHost(t *testing.T) {
	for _, tt := range []struct {
		memory              int64
		threads, files, tcp string
	}{
		{2 << 30, "65536", "8388608", "114688 122880 131072"},
		{24 << 30, "786432", "100663296", "1376256 1474560 1572864"},
		{1 << 40, "4194304", "4294967296", "58720256 62914560 67108864"},
	} {
		got := map[string]string{}
		for _, s := range settings(tt.memory) {
			got[s.name] = s.want.String()
		}
		if got["kernel.threads-max"] != tt.threads || got["fs.file-max"] != tt.files || got["net.ipv4.tcp_mem"] != tt.tcp || got["kernel.pid_max"] != "4194304" {
			t.Errorf("for %d bytes of memory: %v", tt.memory, got)
		}
	}
}
