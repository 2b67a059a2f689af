package node

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"patchbay/inventory/node/agent"
)

// TestSudoGivesNoMoreThanTheNodesRoot attacks the setuid root program in a node. Accounts of the
// experiment become only the node's root, without rights that the node lacks. Other users
// cannot become another user, under any name of the program. No user can change it, and users of
// the host cannot run it.
func TestSudoGivesNoMoreThanTheNodesRoot(t *testing.T) {
	h := openHost(t, "node-sudo")
	s := spec("n1", testImage(t))
	r := launch(t, h, s)
	runLine(t, h, "n1", "mkdir -p /var/lib/patchbay /mnt; echo 'ada 1000' > /var/lib/patchbay/accounts; chmod 600 /var/lib/patchbay/accounts; echo daemon:x:2:2::/tmp:/bin/sh >> /etc/passwd")
	const (
		file    = "/run/patchbay/bin/sudo"
		alice   = "setpriv --reuid 1000 --regid 1000 --clear-groups "
		daemon  = "setpriv --reuid 2 --regid 2 --clear-groups "
		refused = "is not an account of the experiment"
	)
	expectOutput(t, h, "n1", alice+file+" id -u", "0\n")
	const rights = "grep -e ^Cap -e ^Seccomp: /proc/self/status; cat /proc/self/uid_map"
	before, _ := runLine(t, h, "n1", rights)
	expectOutput(t, h, "n1", alice+file+" sh -c '"+rights+"'", before)
	for _, tt := range []struct{ line, says string }{
		{daemon + file + " id", refused},
		{daemon + "bash -c 'exec -a patchbay-local " + file + " id'", refused},
		{daemon + "bash -c 'exec -a " + agent.Argv0 + " " + file + " id'", refused},
		{daemon + "bash -c 'exec -a " + Argv0 + " " + file + " outer 1'", refused},
		{daemon + "env GODEBUG=inittrace=1 GOTRACEBACK=crash TZ=:/etc/shadow LD_PRELOAD=/tmp/x.so " + file + " id", refused},
		{alice + file + " -u '#70000' id", "unknown user"},
		{alice + file + " -u '#-1' id", "unknown user"},
		{alice + file + " unshare -Ur id", "not permitted"},
		{alice + file + " nsenter -t 1 -m true", "denied"},
		{alice + file + " /usr/bin/mount --bind /tmp /mnt", "permission denied"},
		{alice + file + " /usr/bin/mount -o remount,rw /run/patchbay/bin", "permission denied"},
		{"echo > " + file, "Read-only file system"},
		{"chmod 777 " + file, "Read-only file system"},
		{"rm " + file, "Read-only file system"},
		{"ln " + file + " /tmp/sudo", "cross-device"},
	} {
		out, exit := runLine(t, h, "n1", tt.line)
		if exit.Status == 0 || !strings.Contains(out, tt.says) {
			t.Errorf("%s\n got %q %+v\nwant %q", tt.line, out, exit, tt.says)
		}
	}
	for _, path := range []string{fmt.Sprintf("/proc/%d/root%s", r.PID, file), h.State + "/" + sudoFile} {
		for _, uid := range []uint32{65534, s.Base + 65534} {
			cmd := exec.Command(path, "id")
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
			if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(err.Error(), "permission denied") {
				t.Errorf("user %d of the host runs %s: %q, %v", uid, path, out, err)
			}
		}
	}
}
