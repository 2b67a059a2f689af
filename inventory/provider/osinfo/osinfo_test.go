package osinfo

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// elfHead is the beginning of a program for a machine, in little endian.
func elfHead(machine byte) string {
	return "\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 11) + string([]byte{machine, 0})
}

func TestRead(t *testing.T) {
	const ansible = "# x\n__version__ = '2.14.18'\n"
	for _, tt := range []struct {
		rule  string
		files map[string]string // a text that begins with -> is a link
		want  string
	}{
		{"an empty folder", nil, "disk.0.os.name=linux"},
		{"Debian", map[string]string{"usr/lib/os-release": "# x\nPRETTY_NAME=\"Debian GNU/Linux 12\"\nVERSION_ID='12'\nID=debian\nnonsense\n", "etc/os-release": "->../usr/lib/os-release", "usr/bin/dash": elfHead(62), "bin": "->usr/bin", "usr/bin/sh": "->dash"},
			"disk.0.os.name=linux cpu.arch=x86_64 disk.0.os.flavour=debian disk.0.os.version=12"},
		{"links from the root stay inside", map[string]string{"etc/os-release": "->/usr/lib/os-release", "usr/lib/os-release": "ID=alpine\n", "bin/sh": "->/bin/busybox", "bin/busybox": elfHead(183)}, "disk.0.os.name=linux cpu.arch=aarch64 disk.0.os.flavour=alpine"},
		{"links out of the folder", map[string]string{"etc/os-release": "->../../../../../../etc/passwd", "bin/sh": "->../../../../../../../bin/ls"}, "disk.0.os.name=linux"},
		{"a folder in place of a file", map[string]string{"etc/os-release/x": "", "bin/sh/x": ""}, "disk.0.os.name=linux"},
		{"a script in place of a program", map[string]string{"bin/sh": "#!/bin/true and some more text"}, "disk.0.os.name=linux"},
		{"a 32-bit system", map[string]string{"bin/sh": elfHead(3)}, "disk.0.os.name=linux cpu.arch=i686"},
		{"a big-endian system", map[string]string{"bin/sh": "\x7fELF\x02\x02\x01" + strings.Repeat("\x00", 12) + "\x15"}, "disk.0.os.name=linux cpu.arch=ppc64"},
		{"a big-endian 32-bit system", map[string]string{"bin/sh": "\x7fELF\x01\x02\x01" + strings.Repeat("\x00", 12) + "\x16"}, "disk.0.os.name=linux cpu.arch=s390"},
		{"Ansible without jmespath", map[string]string{"usr/bin/ansible-playbook": "", "usr/lib/python3/dist-packages/ansible/release.py": ansible}, "disk.0.os.name=linux"},
		{"the program of Ansible only", map[string]string{"usr/bin/ansible-playbook": ""}, "disk.0.os.name=linux"},
		{"Ansible", map[string]string{"usr/bin/ansible-playbook": "", "usr/lib/python3/dist-packages/ansible/release.py": ansible, "usr/lib/python3.11/dist-packages/jmespath/x": ""}, "disk.0.os.name=linux software.ansible=2.14.18"},
		{"Ansible of pip", map[string]string{"usr/local/bin/ansible-playbook": "", "usr/local/lib/python3.11/site-packages/ansible/release.py": ansible, "usr/local/lib/python3.11/site-packages/jmespath/x": ""}, "disk.0.os.name=linux software.ansible=2.14.18"},
	} {
		root := t.TempDir()
		for name, text := range tt.files {
			file := filepath.Join(root, name)
			err := os.MkdirAll(filepath.Dir(file), 0o755)
			if to, ok := strings.CutPrefix(text, "->"); err == nil && ok {
				err = os.Symlink(to, file)
			} else if err == nil {
				err = os.WriteFile(file, []byte(text), 0o644)
			}
			if err != nil {
				t.Fatal(tt.rule, err)
			}
		}
		if got := strings.Join(Read(root, "usr", "usr/local").Items(), " "); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.rule, got, tt.want)
		}
	}
}
