package session

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/am/display"
	"patchbay/am/site"
)

// credentialFor returns an unsigned credential for a target.
func credentialFor(kind, target string) string {
	return `<signed-credential><credential xml:id="ref0"><type>privilege</type>
<owner_urn>urn:publicid:IDN+a.example.org+user+alice</owner_urn>
<target_urn>urn:publicid:IDN+a.example.org+` + kind + "+" + target + `</target_urn><expires>2030-01-02T03:04:05Z</expires></credential></signed-credential>`
}

func TestSliceOfCaller(t *testing.T) {
	const slice = "urn:publicid:IDN+a.example.org+slice+s1"
	dir := t.TempDir()
	for name, text := range map[string]string{"alice-cert.pem": "-----BEGIN CERTIFICATE-----", "alice-usercred.xml": credentialFor("user", "alice"), "id_ed25519.pub": "ssh-ed25519 AAAA alice\n", "slices/s1-cred.xml": credentialFor("slice", "s1")} {
		if err := site.ReplaceFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ name, slice, want string }{
		{"ByName", "s1", slice},
		{"ByURN", slice, slice},
		{"ByURNWithoutCredential", "urn:publicid:IDN+b.example.org+slice+x", "urn:publicid:IDN+b.example.org+slice+x"},
		{"ByFile", filepath.Join(dir, "slices", "s1-cred.xml"), slice},
	} {
		t.Run("Slice"+c.name, func(t *testing.T) {
			me, err := ReadCaller([]string{dir}, c.slice)
			if err != nil || me.SliceURN != c.want {
				t.Errorf("got %v, %v", me, err)
			}
		})
	}
	for slice, want := range map[string]string{
		"s2":                                     `there is no slice "s2"; did you mean s1? (looked for ` + filepath.Join(dir, "slices", "s2-cred.xml") + ")",
		"other":                                  `there is no slice "other"; there is only s1; or create it with: ` + display.Command("slice", "other", "--owner", "alice") + ` (looked for `,
		"urn:publicid:IDN+b.example.org+user+x":  "is not the URN of a slice",
		filepath.Join(dir, "alice-usercred.xml"): "is not a slice credential; it is over",
	} {
		if _, err := ReadCaller([]string{dir}, slice); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--slice %s: got %v, want %q", slice, err, want)
		}
	}
}

func TestExpiredCredentialsNameTheRemedy(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "patchbay.yaml")
	slices := filepath.Join(dir, "users", "alice", "slices")
	file := filepath.Join(slices, "s1-cred.xml")
	if err := os.MkdirAll(slices, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "authority"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{config: "", file: credentialFor("slice", "s1")} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	me, err := ReadCaller(nil, file)
	if err != nil {
		t.Fatal(err)
	}
	end := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	if got := me.Expired(end.Add(-time.Second), false); len(got) > 0 {
		t.Errorf("it has expired too early: %v", got)
	}
	command := display.Command("slice", "s1", "--owner", "alice", "--config", dir)
	if got := strings.Join(me.Expired(end, false), "\n"); !strings.Contains(got, "slice+s1 expired on 2030-01-02") || !strings.Contains(got, command) {
		t.Errorf("%s", got)
	}
	if got := me.Expired(end, true); len(got) != 1 || strings.Contains(got[0], "expired") || !strings.HasSuffix(got[0], command) {
		t.Errorf("where the aggregate has said it: %q", got)
	}
	if err := os.Remove(filepath.Join(dir, "authority")); err != nil {
		t.Fatal(err)
	}
	if got := me.Expired(end, true); len(got) > 0 {
		t.Errorf("without the trial authority: %q", got)
	}
}
