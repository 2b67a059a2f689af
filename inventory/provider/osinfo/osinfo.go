// Package osinfo finds out what system a root file system holds: architecture, flavour, version
// and Ansible.
package osinfo

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// System is what Read has found. A value that is unknown is empty.
type System struct {
	Arch    string // as uname -m writes it
	Flavour string // ID in os-release, such as debian
	Version string // VERSION_ID
	Title   string // PRETTY_NAME
	Ansible string // the version of Ansible that can run playbooks
}

// Items returns the features of the system, such as "cpu.arch=x86_64".
func (s System) Items() []string {
	items := []string{"disk.0.os.name=linux"}
	for _, x := range []struct{ feature, value string }{
		{"cpu.arch", s.Arch}, {"disk.0.os.flavour", s.Flavour}, {"disk.0.os.version", s.Version}, {"software.ansible", s.Ansible},
	} {
		if x.value != "" {
			items = append(items, x.feature+"="+x.value)
		}
	}
	return items
}

// Read looks into the folder root, whose files may be hostile: it follows no link out of root, and
// reads a bounded part of regular files only. Programs are looked for below the folders prefixes,
// such as usr.
func Read(root string, prefixes ...string) System {
	d, err := os.Open(root)
	if err != nil {
		return System{}
	}
	defer d.Close()
	f := files{int(d.Fd())}
	release := ParseRelease(f.text("etc/os-release"))
	if len(release) == 0 {
		release = ParseRelease(f.text("usr/lib/os-release"))
	}
	s := System{Flavour: release["ID"], Version: release["VERSION_ID"], Title: release["PRETTY_NAME"]}
	for _, name := range []string{"bin/sh", "bin/busybox", "sbin/init"} {
		if s.Arch = f.arch(name); s.Arch != "" {
			break
		}
	}
	for _, usr := range prefixes {
		if s.Ansible = f.ansible(usr); s.Ansible != "" {
			break
		}
	}
	return s
}

// ParseRelease reads os-release(5).
func ParseRelease(text string) map[string]string {
	m := make(map[string]string)
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if ok && !strings.HasPrefix(key, "#") {
			m[key] = strings.Trim(value, `"'`)
		}
	}
	return m
}

// files opens files below a folder.
type files struct{ dir int }

// maxText is in bytes.
const maxText = 64 << 10

func (f files) open(name string, flags uint64) (*os.File, error) {
	fd, err := unix.Openat2(f.dir, name, &unix.OpenHow{
		Flags:   flags | unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

func (f files) regular(name string) (*os.File, error) {
	file, err := f.open(name, 0)
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		file.Close()
		return nil, errors.New("not a regular file")
	}
	return file, nil
}

// text returns "" for a file that cannot be read.
func (f files) text(name string) string {
	file, err := f.regular(name)
	if err != nil {
		return ""
	}
	defer file.Close()
	b, _ := io.ReadAll(io.LimitReader(file, maxText))
	return string(b)
}

// names returns the names in a folder that begin with prefix and end with suffix.
func (f files) names(dir, prefix, suffix string) (all []string) {
	d, err := f.open(dir, unix.O_DIRECTORY)
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(10_000)
	for _, n := range names {
		if strings.HasPrefix(n, prefix) && strings.HasSuffix(n, suffix) {
			all = append(all, path.Join(dir, n))
		}
	}
	return all
}

func (f files) exists(name string) bool {
	file, err := f.open(name, 0)
	if err == nil {
		file.Close()
	}
	return err == nil
}

// arch returns the architecture of a program, in the words of uname -m. It returns "" for a file that is no ELF
// program or cannot be read, and for machines that are not listed.
func (f files) arch(name string) string {
	file, err := f.regular(name)
	if err != nil {
		return ""
	}
	defer file.Close()
	head := make([]byte, 20)
	if _, err := io.ReadFull(file, head); err != nil || string(head[:4]) != elf.ELFMAG {
		return ""
	}
	is64 := elf.Class(head[elf.EI_CLASS]) == elf.ELFCLASS64
	if elf.Data(head[elf.EI_DATA]) == elf.ELFDATA2MSB {
		return map[elf.Machine]string{elf.EM_PPC64: "ppc64", elf.EM_S390: map[bool]string{true: "s390x", false: "s390"}[is64]}[elf.Machine(binary.BigEndian.Uint16(head[18:]))]
	}
	return map[elf.Machine]string{
		elf.EM_X86_64: "x86_64", elf.EM_386: "i686", elf.EM_AARCH64: "aarch64", elf.EM_ARM: "armv7l",
		elf.EM_RISCV: map[bool]string{true: "riscv64", false: "riscv32"}[is64], elf.EM_PPC64: "ppc64le",
	}[elf.Machine(binary.LittleEndian.Uint16(head[18:]))]
}

// ansible returns the version of Ansible below usr; "" if it lacks Ansible, or jmespath, which the
// filter json_query needs.
func (f files) ansible(usr string) (version string) {
	if !f.exists(path.Join(usr, "bin/ansible-playbook")) {
		return ""
	}
	hasLibrary := false
	for _, python := range f.names(path.Join(usr, "lib"), "python3", "") {
		for _, packages := range f.names(python, "", "-packages") {
			hasLibrary = hasLibrary || f.exists(path.Join(packages, "jmespath"))
			_, rest, _ := strings.Cut(f.text(path.Join(packages, "ansible/release.py")), "\n__version__ = '")
			if found, _, ok := strings.Cut(rest, "'"); ok {
				version = found
			}
		}
	}
	if !hasLibrary {
		return ""
	}
	return version
}
