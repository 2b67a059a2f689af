package site

import (
	"context"
	"os"
	"syscall"
	"time"
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

// filePause is how often files are looked at, and how long they must stay as they
// are before they are read, so that none is read while it is being written.
const filePause = 250 * time.Millisecond

// watchFiles calls settled, until ctx ends, whenever the state of files is as it was a
// pause ago, and after so many changes in a row as latest says; 0 is never.
func watchFiles(ctx context.Context, latest int, state func() string, settled func(state string)) {
	ticks := time.NewTicker(filePause)
	defer ticks.Stop()
	last, changes := state(), 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		now := state()
		if changes++; now == last || changes == latest {
			changes = 0
			settled(now)
		}
		last = now
	}
}
