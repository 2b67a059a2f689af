package site

import (
	"os"
	"syscall"
)

// stamp tells two states of a file apart, without reading it. Of a link to what is
// not there it is the link's.
type stamp struct {
	there  bool
	edited int64 // when its content was, as it says; ns since 1970
	// touched is when its content, owner or mode was; nobody can set it. What could
	// not be read may be readable since.
	touched int64
	size    int64
	inode   uint64
}

func stampOf(file string) stamp {
	info, err := os.Stat(file)
	if err != nil {
		info, err = os.Lstat(file)
	}
	if err != nil {
		return stamp{}
	}
	s := stamp{there: true, edited: info.ModTime().UnixNano(), size: info.Size()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.touched, s.inode = sys.Ctim.Nano(), sys.Ino
	}
	return s
}
