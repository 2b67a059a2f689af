package require

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// Tool returns the path of the program name. It skips the test if the program is not
// installed.
func Tool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Missing(t, name, "the program %s is not installed", name)
	}
	return path
}

// Root skips the test unless it runs as root.
func Root(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		Missing(t, "root", "the test needs root")
	}
}

// NetNS skips the test unless it runs as root on Linux with network namespaces.
func NetNS(t testing.TB) {
	t.Helper()
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		Missing(t, "netns", "network namespaces need root on Linux")
	}
	if _, err := os.Stat("/proc/self/ns/net"); err != nil {
		Missing(t, "netns", "the kernel has no network namespaces")
	}
}

// TUN skips the test unless it can open /dev/net/tun.
func TUN(t testing.TB) {
	t.Helper()
	f, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	if err != nil {
		Missing(t, "tun", "cannot open /dev/net/tun: %v", err)
	}
	f.Close()
}

// SSH returns the path of OpenSSH's client. It skips the test if ssh or ssh-keygen is not
// installed.
func SSH(t testing.TB) string {
	t.Helper()
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		Missing(t, "ssh", "the program ssh-keygen is not installed")
	}
	path, err := exec.LookPath("ssh")
	if err != nil {
		Missing(t, "ssh", "the program ssh is not installed")
	}
	return path
}

// Shared returns the path of the corpus folder, or of the file or folder in it with the path
// elements elems. The corpus has recorded calls, requests and schemas that cannot be in the
// repository, because they are too large or belong to others. Shared skips the test if the
// result does not exist.
func Shared(t testing.TB, elems ...string) string {
	t.Helper()
	dir := os.Getenv("PATCHBAY_CORPUS")
	if dir == "" {
		Missing(t, "shared", "PATCHBAY_CORPUS does not name the folder of the corpus")
	}
	path := filepath.Join(append([]string{dir}, elems...)...)
	if _, err := os.Stat(path); err != nil {
		Missing(t, "shared", "the corpus is incomplete: %v", err)
	}
	return path
}

// Required reports whether name is in the list PATCHBAY_REQUIRE.
func Required(name string) bool {
	return slices.ContainsFunc(strings.Split(os.Getenv("PATCHBAY_REQUIRE"), ","), func(s string) bool {
		return strings.TrimSpace(s) == name
	})
}

// Missing skips the test, or fails it if name is in PATCHBAY_REQUIRE.
func Missing(t testing.TB, name, format string, args ...any) {
	t.Helper()
	if Required(name) {
		t.Fatalf("required by PATCHBAY_REQUIRE: "+format, args...)
	}
	t.Skipf(format, args...)
}
