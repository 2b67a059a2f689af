package ownsite

import (
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/am/client/userfolder"
	"patchbay/am/site"
	"patchbay/am/testkit/require"
)

// TestOwnSiteIsRecreatedAfterInterruption proves that up removes what a killed up has
// left of a new site, but no other files.
func TestOwnSiteIsRecreatedAfterInterruption(t *testing.T) {
	for name, ok := range map[string]bool{site.InventoryName: true, "letters.txt": false} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, name), []byte("half\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", "/nonexistent") // it fails to find our programs
		err := Site{Dir: dir}.create(t.Context(), io.Discard)
		if err == nil || strings.Contains(err.Error(), "not empty") == ok || userfolder.FileExists(filepath.Join(dir, name)) == ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRootIgnoresSitesOfOtherUsers proves that root creates neither a site nor keys in
// folders of other users.
func TestRootIgnoresSitesOfOtherUsers(t *testing.T) {
	require.Root(t)
	foreign := t.TempDir()
	if err := os.Chown(foreign, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	own := Site{Dir: foreign}
	if err := own.checkOwners(); err == nil || !strings.Contains(err.Error(), "belongs to user 65534; unset XDG_STATE_HOME") {
		t.Error(err)
	}
	own = Site{Dir: t.TempDir(), Home: foreign, caller: &user.User{Uid: "12345"}, login: "alice"}
	if err := own.checkOwners(); err == nil || !strings.Contains(err.Error(), "belongs to user 65534 and not to alice") {
		t.Error(err)
	}
}
