package compile_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"patchbay/rspec/compile"
)

// TestFilesBesideASource checks which files of the user's folder a blueprint of another author can put
// into a request.
func TestFilesBesideASource(t *testing.T) {
	outside := t.TempDir()
	dir := filepath.Join(outside, "project[1]")
	for _, name := range []string{"project[1]/web.sh", "project[1]/sub/web.sh", "project[1]/.netrc", "project[1]/.aws/credentials", "project[1]/sub/.git/config", "other/secret"} {
		name = filepath.Join(outside, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"link.sh": "web.sh", "up.sh": "../other/secret", "away": "../other", "down": "sub", "dot": ".aws", "nothing": "none"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(outside, "heat.yaml") // the source itself may be a link, which the user names
	if err := os.Symlink(source, filepath.Join(dir, "heat.yaml")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ content, want string }{ // an empty want for a file that is read
		{"web.sh", ""},
		{"sub/web.sh", ""},
		{".netrc", "names that begin with a dot are not read"},
		{".aws/credentials", "names that begin with a dot are not read"},
		{"sub/.git/config", "names that begin with a dot are not read"},
		{"dot/credentials", "it is, or is below, a symbolic link"},
		{"link.sh", "it is, or is below, a symbolic link"},
		{"up.sh", "it is, or is below, a symbolic link"},
		{"away/secret", "it is, or is below, a symbolic link"},
		{"down/web.sh", "it is, or is below, a symbolic link"},
		{"nothing", "it is, or is below, a symbolic link"},
		{"fifo", "it is no regular file"},
		{"sub", "it is no regular file"},
		{"web.sh/x", "not a directory"},
		{"../other/secret", "is neither a relative path nor a URL"},
		{"sub/../web.sh", "is neither a relative path nor a URL"},
		{"/etc/hostname", "is neither a relative path nor a URL"},
		{"none.sh", `there is no file "none.sh"`},
	} {
		folder, err := compile.OpenFolder(filepath.Join(dir, "heat.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		r, err := compile.Compile([]byte("components: {a: {type: server, requires: {run: {type: ShellScript, content: '"+tt.content+"'}}}}"), compile.Options{Files: folder})
		folder.Close()
		switch {
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("content %s: %v, want %s", tt.content, err, tt.want)
		case tt.want == "" && err != nil:
			t.Errorf("content %s: %v", tt.content, err)
		case tt.want == "" && (len(r.Files) != 1 || r.Files[0].Name != tt.content || r.Files[0].Size != len("secret")):
			t.Errorf("content %s: the list of sent files is %v", tt.content, r.Files)
		}
	}
}
