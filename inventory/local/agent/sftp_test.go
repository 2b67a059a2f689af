package agent

import (
	"bytes"
	"io"
	"os"
	"testing"

	"github.com/pkg/sftp"
)

func TestSFTP(t *testing.T) {
	n := newNode(t)
	p, in, out := n.start(Command{User: "bob", SFTP: true})
	c, err := sftp.NewClientPipe(out, in)
	check(t, err)
	data := bytes.Repeat([]byte("data"), 1<<18)
	t.Run("PathsBeginInTheHome", func(t *testing.T) {
		f, err := c.Create("file")
		check(t, err)
		_, err = f.Write(data)
		check(t, err)
		check(t, f.Close())
		f, err = c.Open("/home/bob/file")
		check(t, err)
		defer f.Close()
		got, err := io.ReadAll(f)
		if err != nil || !bytes.Equal(got, data) {
			t.Error(len(got), err)
		}
		if wd, err := c.Getwd(); err != nil || wd != "/home/bob" {
			t.Error(wd, err)
		}
		if got := n.line("bob", "stat -c '%U %s' file"); got != "bob 1048576" {
			t.Error(got)
		}
	})
	t.Run("LinksLeadWhereTheyAreTold", func(t *testing.T) {
		check(t, c.Mkdir("folder"))
		check(t, c.Symlink("../file", "folder/link"))
		if to, err := c.ReadLink("folder/link"); err != nil || to != "../file" {
			t.Error(to, err)
		}
	})
	t.Run("WithTheRightsOfTheAccount", func(t *testing.T) {
		n.line("root", "chmod 600 /etc/shadow")
		if _, err := c.Open("/etc/shadow"); !os.IsPermission(err) {
			t.Error(err)
		}
		if err := c.Mkdir("/etc/folder"); !os.IsPermission(err) {
			t.Error(err)
		}
	})
	t.Run("UnderTheLimitsOfJobs", func(t *testing.T) {
		got := n.line("root", "grep -l '^Uid:.1001' /proc/[0-9]*/status | while read f; do cat ${f%status}oom_score_adj; done | sort -u")
		if got != "0" {
			t.Error(got)
		}
	})
	check(t, c.Close())
	in.Close()
	if exit, err := p.Wait(); err != nil || exit != (Exit{}) {
		t.Error(exit, err)
	}
}
