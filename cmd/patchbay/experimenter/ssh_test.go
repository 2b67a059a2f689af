package experimenter

import (
	"os"
	"path/filepath"
	"testing"

	"patchbay/am/client/experiment"
	"patchbay/am/testkit/require"
	"patchbay/am/testkit/wait"
	"patchbay/cmd/patchbay/command"
)

// TestOpenSSHHasTheRightsOfTheFolder proves that root's ssh runs with the rights of the owner of
// its configuration.
func TestOpenSSHHasTheRightsOfTheFolder(t *testing.T) {
	require.Root(t)
	bin, folder := t.TempDir(), t.TempDir()
	err := os.WriteFile(filepath.Join(bin, "ssh"), []byte("#!/bin/sh\nid -u\n"), 0o755)
	if err == nil {
		err = os.Chown(folder, 65534, 65534)
	}
	if err != nil {
		t.Fatal(err)
	}
	for dir := bin; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	out := new(wait.Buffer)
	if err := runSSH(command.Console{Out: out, Err: out}, filepath.Join(folder, "ssh_config"), "node"); err != nil || out.String() != "65534\n" {
		t.Errorf("OpenSSH runs as user %q, %v; its configuration names programs", out, err)
	}
}

// TestNodeNamesAreNoFlags proves that printed command lines do not use the name of a node
// as a flag.
func TestNodeNamesAreNoFlags(t *testing.T) {
	for name, want := range map[string]string{"web": "web", "--ca=x": "ca-x.lab", "-": "node.lab"} {
		if got := sshName(experiment.Hosts("lab", []experiment.Node{{Name: name}})[0]); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
