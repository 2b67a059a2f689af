package image

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// standardFolders are created in an image if they are missing. If noLink is set, the path
// must not be a symbolic link, because nodes mount file systems on the folder, or write into
// it before their root is isolated.
var standardFolders = [...]struct {
	path   string
	mode   uint32
	noLink bool
}{
	{"dev", 0o755, true},
	{"etc", 0o755, true},
	{"home", 0o755, false},
	{"proc", 0o555, true},
	{"root", 0o700, true},
	{"run", 0o755, true},
	{"sys", 0o555, true},
	{"tmp", 0o1777, true},
	{"usr", 0o755, true},
	{"usr/local", 0o755, true},
	{"usr/local/bin", 0o755, true},
	{"var", 0o755, true},
	{"var/tmp", 0o1777, false},
}

// completeRoot creates the missing standard folders. It fails if the folder is not a usable root
// file system.
func completeRoot(root string) error {
	fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := checkShell(fd); err != nil {
		return err
	}
	if err := checkPasswd(fd); err != nil {
		return err
	}
	for _, d := range standardFolders {
		var st unix.Stat_t
		err := unix.Fstatat(fd, d.path, &st, unix.AT_SYMLINK_NOFOLLOW)
		switch {
		case errors.Is(err, unix.ENOENT):
			if err := unix.Mkdirat(fd, d.path, 0o700); err != nil {
				return fmt.Errorf("cannot create its folder /%s: %w", d.path, err)
			}
			if err := unix.Fchmodat(fd, d.path, d.mode, 0); err != nil {
				return fmt.Errorf("cannot create its folder /%s: %w", d.path, err)
			}
		case err != nil:
			return fmt.Errorf("cannot read its /%s: %w", d.path, err)
		case d.noLink && st.Mode&unix.S_IFMT != unix.S_IFDIR:
			return fmt.Errorf("its /%s is not a folder; replace it by a folder, since nodes mount file systems on it or write into it", d.path)
		}
	}
	return nil
}

// openInRoot opens a regular file. It resolves path as if the folder root were "/".
func openInRoot(root int, path string) (*os.File, error) {
	fd, err := unix.Openat2(root, path, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	})
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	if i, err := f.Stat(); err != nil || !i.Mode().IsRegular() {
		f.Close()
		return nil, errors.Join(errors.New("it is not a regular file"), err)
	}
	return f, nil
}

// checkShell fails unless there is a /bin/sh that this host can execute.
func checkShell(root int) error {
	f, err := openInRoot(root, "bin/sh")
	if err != nil {
		return fmt.Errorf("it has no /bin/sh (%v); the top of the folder or tarball must be the root of a Linux system", err)
	}
	defer f.Close()
	i, err := f.Stat()
	if err != nil {
		return err
	}
	if i.Mode().Perm()&0o111 != 0o111 {
		return fmt.Errorf("its /bin/sh has mode %04o, so not every user can execute it", i.Mode().Perm())
	}
	head := make([]byte, 20)
	if _, err := io.ReadFull(f, head); err != nil || !bytes.HasPrefix(head, []byte(elf.ELFMAG)) {
		return nil // a script: its interpreter is not checked
	}
	machine := elf.Machine(uint16(head[18]) | uint16(head[19])<<8)
	if elf.Data(head[elf.EI_DATA]) == elf.ELFDATA2MSB {
		machine = elf.Machine(uint16(head[19]) | uint16(head[18])<<8)
	}
	if want, known := elfMachine(runtime.GOARCH); known && machine != want {
		return fmt.Errorf("its programs are for another processor (%v), and this host is %s; use an image for %s", machine, runtime.GOARCH, runtime.GOARCH)
	}
	return nil
}

func elfMachine(arch string) (elf.Machine, bool) {
	switch arch {
	case "amd64":
		return elf.EM_X86_64, true
	case "arm64":
		return elf.EM_AARCH64, true
	case "riscv64":
		return elf.EM_RISCV, true
	}
	return 0, false
}

// checkPasswd fails unless there is an account root with the id 0.
func checkPasswd(root int) error {
	f, err := openInRoot(root, "etc/passwd")
	if err != nil {
		return fmt.Errorf("it has no /etc/passwd (%v)", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 1<<20))
	if err != nil {
		return fmt.Errorf("cannot read its /etc/passwd: %w", err)
	}
	for line := range strings.Lines(string(b)) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) >= 7 && fields[0] == "root" && fields[2] == "0" {
			return nil
		}
	}
	return errors.New("its /etc/passwd has no account root with the id 0")
}
