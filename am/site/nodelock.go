package site

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/am/display"
	"patchbay/am/file"
)

// lockWait is the longest wait of a starting server. After a server was killed, a program that it
// was starting may hold the lock for a moment.
const lockWait = time.Second

// lockProviders prevents other servers from using the providers in dir. The lock lasts until the
// returned file is closed or this process ends.
func lockProviders(dir string, log *slog.Logger) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	switch err := file.Lock(f, lockWait); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		defer f.Close()
		return nil, fmt.Errorf("another server%s uses the providers in %s, and two must not act on the same nodes; stop that server, or give this site a folder of its own", lockHolder(f), dir)
	case err != nil: // some network file systems have no such locks
		log.Warn("the folder of the providers cannot be locked; make sure that no other server uses it", "folder", dir, "error", err)
	}
	return f, nil
}

// lockHolder describes the process that has locked f, for a message. The text begins with a
// blank. It is "" if this user cannot see the process.
func lockHolder(f *os.File) string {
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	sys, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	device := fmt.Sprintf("%02x:%02x:", unix.Major(uint64(sys.Dev)), unix.Minor(uint64(sys.Dev)))
	if pid := lockedBy(device, sys.Ino); pid != "" {
		return " " + processName(pid)
	}
	return ""
}

// lockedBy returns the process id by /proc/locks; "" for none. device "" means any device.
func lockedBy(device string, inode uint64) string {
	locks, _ := os.ReadFile("/proc/locks")
	for line := range strings.Lines(string(locks)) {
		// 1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF
		fields := strings.Fields(line)
		if len(fields) >= 6 && fields[1] == "FLOCK" && strings.HasPrefix(fields[5], device) && strings.HasSuffix(fields[5], fmt.Sprintf(":%d", inode)) {
			return fields[4]
		}
	}
	return ""
}

// processName returns the id and the command line in brackets.
func processName(pid string) string {
	command, _ := os.ReadFile("/proc/" + pid + "/cmdline")
	words := strings.TrimSpace(strings.ReplaceAll(string(command), "\x00", " "))
	return fmt.Sprintf("(process %s: %.200s)", pid, display.Printable(words))
}

// StoreHolder describes the process that holds the lock of the store file with the given inode
// number. It returns "" if this user can see no such process on this host.
func StoreHolder(inode uint64) string {
	pid := lockedBy("", inode)
	if pid == "" {
		return ""
	}
	open, _ := filepath.Glob("/proc/" + pid + "/fd/*")
	for _, fd := range open { // a file on another device may have the same inode
		info, err := os.Stat(fd)
		if err != nil {
			continue
		}
		if sys, ok := info.Sys().(*syscall.Stat_t); ok && sys.Ino == inode && info.Mode().IsRegular() {
			return processName(pid)
		}
	}
	return ""
}
