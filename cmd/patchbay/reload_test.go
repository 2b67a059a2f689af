package main

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"patchbay/am/testkit/program"
	"patchbay/am/testkit/wait"
)

// TestHangupReloads proves that SIGHUP reloads the inventory and the certificates, and
// that mistakes change nothing.
func TestHangupReloads(t *testing.T) {
	k := newBackupTest(t)
	s := serve(t, k.dir)
	k.allocate(s, "first")
	hangUp := func(lines ...string) {
		t.Helper()
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		for _, line := range lines {
			wait.Until(t, line, func() bool { return strings.Contains(s.out.String(), line) })
		}
	}
	program.Edit(t, k.path("inventory.yaml"), "names: pc1..pc12", "names: pc1..pc12\n    drained: true")
	hangUp("inventory read", "are drained; they accept no slivers", "pc1: it is drained", "certificates were read again")
	if err := os.Chmod(k.path("server-rsa-key.pem"), 0o644); err != nil {
		t.Fatal(err)
	}
	hangUp("the previous ones stay in use")
	k.call(s, "Status")
}
