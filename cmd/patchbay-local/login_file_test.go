package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pkg/sftp"

	"patchbay/am/testkit/require"
)

// loginFiles moves files.
func loginFiles(t *testing.T, s *loginSite) {
	alice := s.client(t, "alice", "a", "b")
	dir := t.TempDir()
	big := filepath.Join(dir, "big")
	content := make([]byte, 5<<20)
	_, _ = rand.NewChaCha8([32]byte{2}).Read(content)
	if err := os.WriteFile(big, content, 0o640); err != nil {
		t.Fatal(err)
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(content))
	same := func(t *testing.T, path string) {
		t.Helper()
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%s has other %d bytes, %v", filepath.Base(path), len(got), err)
		}
	}
	for node, options := range map[string][]string{"a": nil, "by-a": {"-O"}} {
		t.Run("Scp_"+node, func(t *testing.T) {
			back := filepath.Join(t.TempDir(), "back")
			name := "scp" + node
			alice.run("scp", append(options, "-q", "-p", big, node+":"+name)...).expectOutput(t, "")
			alice.ssh("a", "sha256sum <"+name+"; stat -c %a "+name).expectOutput(t, sum+"  -\n640\n")
			alice.run("scp", append(options, "-q", node+":"+name, back)...).expectOutput(t, "")
			same(t, back)
			if r := alice.run("scp", append(options, "-q", node+":nothing", back)...); r.status == 0 || !strings.Contains(r.err, "No such file") {
				t.Errorf("what is not there: %+v", r)
			}
		})
	}
	t.Run("SftpBatch", func(t *testing.T) {
		back := filepath.Join(t.TempDir(), "back")
		batch := strings.Join([]string{
			"mkdir sftp", "cd sftp", "put " + big + " one", "rename one two", "chmod 600 two", "symlink two link", "ln two hard",
			"get link " + back, "ls -l", "df", "rm hard", "mkdir gone", "rmdir gone", "-rm nothing", "pwd", "",
		}, "\n")
		r := alice.with(strings.NewReader(batch), "sftp", "-q", "-b", "-", "a")
		if r.status != 0 || !strings.Contains(r.out, "-rw-------") || !strings.Contains(r.out, "Remote working directory: /home/alice/sftp") || !strings.Contains(r.out, "Avail") {
			t.Errorf("%+v", r)
		}
		same(t, back)
		alice.ssh("a", "cd sftp; ls; stat -c %a two; readlink link").expectOutput(t, "link\ntwo\n600\ntwo\n")
	})
	t.Run("SftpWithoutRights", func(t *testing.T) {
		r := alice.with(strings.NewReader("get /etc/shadow "+dir+"\n"), "sftp", "-q", "-b", "-", "a")
		if r.status == 0 || !strings.Contains(r.err, "ermission denied") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("RsyncBothWays", func(t *testing.T) {
		rsync, from, to := require.Tool(t, "rsync"), filepath.Join(t.TempDir(), "from"), t.TempDir()
		if err := os.CopyFS(from, os.DirFS(".")); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("main.go", filepath.Join(from, "link")); err != nil {
			t.Fatal(err)
		}
		run := func(args ...string) {
			t.Helper()
			finish(alice.externalProgram(rsync, append([]string{"-a", "-e", "ssh -F " + alice.config}, args...)...), nil).expectOutput(t, "")
		}
		run(from+"/", "by-a:rsync")
		run(from+"/", "by-a:rsync") // nothing to do
		run("--delete", "a:rsync/", to)
		if out, err := exec.Command("diff", "-r", from, to).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	t.Run("AsAMountedFolder", func(t *testing.T) { // what sshfs asks for
		c, err := s.dial(t, "a", "alice")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		f, err := sftp.NewClient(c)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for extension, want := range map[string]string{"statvfs@openssh.com": "2", "posix-rename@openssh.com": "1", "hardlink@openssh.com": "1"} {
			if version, ok := f.HasExtension(extension); !ok || version != want {
				t.Errorf("%s: %q, %v", extension, version, ok)
			}
		}
		if st, err := f.StatVFS("."); err != nil || st.TotalSpace() < 1<<30 || st.TotalSpace() > 5<<30 {
			t.Errorf("a disk of 4G is %+v, %v", st, err)
		}
		if err := f.MkdirAll("m/n"); err != nil {
			t.Fatal(err)
		}
		w, err := f.OpenFile("m/file", os.O_RDWR|os.O_CREATE|os.O_EXCL)
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.ReadFrom(bytes.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.WriteAt([]byte("middle"), 1<<20); err != nil {
			t.Error(err)
		}
		part := make([]byte, 6)
		if _, err := w.ReadAt(part, 1<<20); err != nil || string(part) != "middle" {
			t.Errorf("%q, %v", part, err)
		}
		if err := w.Truncate(1<<20 + 6); err != nil {
			t.Error(err)
		}
		w.Close()
		if _, err := f.OpenFile("m/file", os.O_WRONLY|os.O_CREATE|os.O_EXCL); err == nil {
			t.Error("what is there is made again")
		}
		then := time.Unix(1e9, 0)
		if err := f.Chtimes("m/file", then, then); err != nil {
			t.Error(err)
		}
		if err := f.Symlink("file", "m/link"); err != nil {
			t.Error(err)
		}
		if to, err := f.ReadLink("m/link"); err != nil || to != "file" {
			t.Errorf("the link leads to %q, %v", to, err)
		}
		if err := f.Link("m/file", "m/hard"); err != nil {
			t.Error(err)
		}
		if err := f.PosixRename("m/file", "m/hard2"); err != nil {
			t.Error(err)
		}
		if st, err := f.Lstat("m/link"); err != nil || st.Mode()&os.ModeSymlink == 0 {
			t.Errorf("%v, %v", st, err)
		}
		if st, err := f.Stat("m/hard"); err != nil || st.Size() != 1<<20+6 || !st.ModTime().Equal(then) {
			t.Errorf("%v, %v", st, err)
		}
		names, err := f.ReadDir("m")
		if err != nil || len(names) != 4 {
			t.Errorf("%v, %v", names, err)
		}
		if r, err := f.Open("m/hard2"); err != nil {
			t.Error(err)
		} else if n, err := io.Copy(io.Discard, r); err != nil || n != 1<<20+6 {
			t.Errorf("%d bytes, %v", n, err)
		}
	})
}

// externalProgram is a program that runs ssh itself.
func (c *client) externalProgram(path string, args ...string) *exec.Cmd {
	cmd := c.command(c.ctx, path)
	cmd.Args = append([]string{path}, args...)
	return cmd
}
