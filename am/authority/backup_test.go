package authority

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/am/api/xmlrpc"
	"patchbay/credentials"
)

// TestRestore restores a backup, and creates a slice again whose creation the backup does not know.
// Its certificate must have another serial number.
func TestRestore(t *testing.T) {
	f := newFixture(t)
	f.createSlice("alice", "before")
	var backup bytes.Buffer
	if err := f.Backup(&backup); err != nil {
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
}

// TestEarlierAuthority opens the authority of an earlier version, whose root has the name sa and has
// issued the users' certificates. Users, their keys and slices stay.
func TestEarlierAuthority(t *testing.T) {
	f := newFixture(t)
	f.dir = t.TempDir()
	for from, to := range map[string]string{"testdata/earlier": "example.org", template() + "/elsewhere.org": "elsewhere.org"} {
		if err := os.CopyFS(filepath.Join(f.dir, to), os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	f.open()
	f.now = time.Now().UTC() // Open has certified the two services now
	if f.read("example.org", "authority.pem")[0].URN.Name != "sa" {
		t.Fatal("the authority is not of an earlier version")
	}
	keys := f.must("alice", "/ma/2", "lookup", "KEY", none, options("match", text("KEY_MEMBER", userURN("alice")))).(xmlrpc.Struct)
	if len(keys) != 1 {
		t.Errorf("%d keys", len(keys))
	}
	if has, err := f.HasSlice("first"); !has || err != nil {
		t.Error("the slice is lost")
	}
	s, err := f.Slice("first", "alice", f.now.Add(time.Hour), f.now)
	if err != nil {
		t.Fatal(err)
	}
	z := f.serviceConfig().Identify
	for name, doc := range map[string][]byte{"by the command": s.Credential, "by a call": nil} {
		if doc == nil {
			list := f.must("alice", "/sa/2", "get_credentials", sliceURN("first"), none, xmlrpc.Struct{}).([]xmlrpc.Value)
			v, _ := list[0].(xmlrpc.Struct).Get("geni_value")
			doc = []byte(v.(string))
		}
		g, err := z.Authorize(z.Identify(f.chain("alice"), f.now), []credentials.Presented{{Type: "geni_sfa", Version: "3", Text: string(doc)}}, "", credentials.RightAllocate, f.now)
		if err == nil {
			_, err = g.Over(s.URN)
		}
		if err != nil {
			t.Errorf("the credential %s: %v", name, err)
		}
	}
	if _, err := f.UserWithKeys("bob", nil, f.now); err != nil {
		t.Fatal(err)
	}
	f.must("bob", "/ma/2", "get_credentials", userURN("bob"), none, xmlrpc.Struct{})
}
