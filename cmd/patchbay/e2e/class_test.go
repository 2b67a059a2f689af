package e2e

import (
	"archive/zip"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"patchbay/am/testkit/program"
)

// classMember is a user of a class, with the unpacked folder of their bundle.
type classMember struct {
	name, slice, dir string
	url              string
}

// unpack unpacks a bundle into a new folder, as its user does on another machine.
func unpack(t testing.TB, file, name, slice string) *classMember {
	t.Helper()
	z, err := zip.OpenReader(file)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	root := t.TempDir()
	for _, f := range z.File {
		if !filepath.IsLocal(f.Name) || !strings.HasPrefix(f.Name, name+"/") {
			t.Fatalf("%s holds %s", file, f.Name)
		}
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(root, f.Name)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, text, f.Mode()); err != nil {
			t.Fatal(err)
		}
	}
	s := &classMember{name: name, slice: slice, dir: filepath.Join(root, name)}
	where := program.ReadFile(t, filepath.Join(s.dir, "aggregate.yaml"))
	m := regexp.MustCompile(`(?m)^url: (\S+)$`).FindStringSubmatch(where)
	if m == nil || !strings.Contains(where, "\nca: server-ca.pem\n") {
		t.Fatalf("aggregate.yaml is\n%s", where)
	}
	s.url = m[1]
	return s
}

// call runs patchbay in the user's folder, which is in no site.
func (s *classMember) call(t testing.TB, args ...string) string {
	t.Helper()
	bin, err := program.Build()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(bin, "patchbay"), append([]string{"call", "--url", s.url, "--ca", "server-ca.pem", "--user", ".", "--slice", s.slice}, args...)...)
	cmd.Dir = s.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %v\n%s", s.name, args, err, out)
	}
	return string(out)
}

// setPublicURL sets public_url of a site.
func setPublicURL(t testing.TB, dir, url string) {
	t.Helper()
	file := filepath.Join(dir, "patchbay.yaml")
	text := program.ReadFile(t, file)
	listen := regexp.MustCompile(`(?m)^listen: .*$`)
	if !listen.MatchString(text) || strings.Contains(text, "\npublic_url:") {
		t.Fatalf("%s is not as expected:\n%s", file, text)
	}
	program.Write(t, file, listen.ReplaceAllString(text, "${0}\npublic_url: "+url))
}

func TestBundleSufficesOnAnotherMachine(t *testing.T) {
	t.Parallel()
	dir := program.NewSite(t)
	program.RemoveSimulatedDelays(t, dir)
	setPublicURL(t, dir, serve(t, dir).url)
	list := filepath.Join(t.TempDir(), "class.txt")
	program.Write(t, list, "alice\n")
	bundles := filepath.Join(t.TempDir(), "bundles")
	if code, out := program.Run(t, "user", "--list", list, "--slice", "lab1", "--bundle", bundles, "--config", dir); code != 0 {
		t.Fatal(out)
	}
	const name = "alice"
	s := unpack(t, filepath.Join(bundles, name+".zip"), name, "lab1-"+name)
	program.WantTexts(t, s.call(t, "Allocate", "request.xml"), " allocated ")
	program.WantTexts(t, s.call(t, "Provision", "-o", "-"), fmt.Sprintf("login=%q", name))
	program.WantTexts(t, s.call(t, "Delete"), " unallocated ")
	// alice cannot create slices, and has only one.
	if code, out := program.Run(t, "up", "--user", s.dir, filepath.Join(s.dir, "request.xml")); code != 0 || !strings.Contains(out, "down --user "+s.dir+" lab1-"+name) {
		t.Errorf("up: %d\n%s", code, out)
	}
	for _, f := range []string{"omni_config", "README.txt", "aggregate.yaml"} {
		if text := program.ReadFile(t, filepath.Join(s.dir, f)); strings.Contains(text, dir) {
			t.Errorf("%s names a folder of the site:\n%s", f, text)
		}
	}
	readme := program.ReadFile(t, filepath.Join(s.dir, "README.txt"))
	program.WantTexts(t, readme, "patchbay up --user . --slice lab1-"+name+" request.xml", "omni -c omni_config -a "+s.url)
	for _, f := range regexp.MustCompile(`[a-z0-9_/-]+\.(xml|pem|pub)|omni_config|id_ed25519`).FindAllString(readme, -1) {
		if _, err := os.Stat(filepath.Join(s.dir, f)); err != nil {
			t.Errorf("README.txt names %s: %v", f, err)
		}
	}
}
