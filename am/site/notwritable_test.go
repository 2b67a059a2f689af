package site

import (
	"os"
	"os/user"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNotWritableNamesUserAndRemedy proves that the message about missing permission has a
// command that can be copied, and that messages about other causes have none.
func TestNotWritableNamesUserAndRemedy(t *testing.T) {
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	got := notWritableMessage("/srv/site/state.db", unix.EACCES)
	if !strings.HasPrefix(got, "/srv/site/state.db is not writable by user "+me.Username+": ") || !strings.HasSuffix(got, "chown "+me.Username+" /srv/site/state.db") || os.Geteuid() != 0 && !strings.Contains(got, ": sudo ") {
		t.Error(got)
	}
	if got := notWritableMessage("/srv/site/state.db", unix.EROFS); strings.Contains(got, "chown") || !strings.Contains(got, unix.EROFS.Error()) {
		t.Error(got)
	}
}
