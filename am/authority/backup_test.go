package authority

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRestore restores a backup, and creates a slice again whose creation the backup does not know.
// Its certificate must have another serial number.
func TestRestore(t *testing.T) {
	f := newFixture(t)
	f.createSlice("alice", "before")
	var backup bytes.Buffer
	if err := Backup(f.dir, &backup); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(f.dir, "backup")
	if err := os.WriteFile(file, backup.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	serial := func() string {
		f.createSlice("alice", "after")
		raw := []byte(nil)
		err := f.store.view(func(t *tx) (err error) {
			raw, _, err = get[[]byte](t, certificates, mustURN(sliceURN("after")).Key())
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	first := serial()
	kept, err := Restore(f.dir, file, f.now)
	if err != nil {
		t.Fatal(err)
	}
	f.open()
	if a := credentialFor(f, "alice", "after"); a.code != Argument {
		t.Errorf("a slice after the backup: %v", a)
	}
	if a := credentialFor(f, "alice", "before"); a.code != None {
		t.Errorf("a slice before the backup: %v", a)
	}
	if serial() == first {
		t.Error("the certificate of the new slice is that of the lost one")
	}
	if err := check(kept); err != nil {
		t.Errorf("the previous state: %v", err)
	}

	for name, content := range map[string][]byte{"empty": nil, "text": []byte("x"), "short": backup.Bytes()[:len(backup.Bytes())/2]} {
		wrong := filepath.Join(f.dir, name)
		if err := os.WriteFile(wrong, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Restore(f.dir, wrong, f.now); err == nil || !strings.Contains(err.Error(), "cannot be restored") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := Backup(t.TempDir(), &backup); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no authority: %v", err)
	}
}
