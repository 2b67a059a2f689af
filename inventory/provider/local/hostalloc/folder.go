package hostalloc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"patchbay/am/file"
)

// ErrTaken means that a number has another holder, rests after its release, or is outside
// the range.
var ErrTaken = errors.New("is taken")

// ErrNone means that no number is free.
var ErrNone = errors.New("no number is free")

// Folder holds the claims of one kind of numbers. Goroutines and processes may use it at
// the same time.
type Folder struct {
	dir         string
	what        string // the kind of numbers, for error messages
	first, last uint32
	step        uint32        // the size of a claim: a block of so many numbers
	rest        time.Duration // how long a released number rests; 0 for not at all
	avoid       []span        // numbers that are never allocated
	now         func() time.Time

	mu   sync.Mutex // held while the folder is locked; guards next
	next uint32     // where the search for a free number begins
}

// span is a range of numbers that includes first and excludes end.
type span struct{ first, end uint64 }

// Ports returns the folder ROOT/ports, for claims on the ports firstPort to lastPort. For
// the duration restTime, a released port is given out only if no other port is free.
func Ports(root string, firstPort, lastPort int, restTime time.Duration) *Folder {
	return &Folder{
		dir: filepath.Join(root, "ports"), what: "port", first: uint32(firstPort), last: uint32(lastPort), step: 1,
		rest: restTime, now: time.Now,
	}
}

// withLock runs action while it excludes other processes and goroutines from the folder. It creates a missing
// folder. Only root can open the folder, because any process that can open a folder can
// lock it.
func (f *Folder) withLock(action func(dir *os.File) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		if err := os.MkdirAll(filepath.Dir(f.dir), 0o755); err != nil {
			return err
		}
		if err := os.Mkdir(f.dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		dir, err := os.Open(f.dir)
		if errors.Is(err, os.ErrNotExist) {
			continue // another process removed the empty folder
		}
		if err != nil {
			return err
		}
		same, err := lock(dir)
		if err == nil && same {
			err = action(dir)
		}
		dir.Close()
		if err != nil || same {
			return err
		}
	}
}

// lockPatience limits the wait for the lock. Only a suspended process holds it for so long.
var lockPatience = 20 * time.Second

// lock locks the folder. It reports whether the folder is still at its path: another process may have
// removed it.
func lock(dir *os.File) (same bool, err error) {
	switch err := file.Lock(dir, lockPatience); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return false, fmt.Errorf("cannot lock %s: another process has held it for %v; find that process with lsof %s, and end it", dir.Name(), lockPatience, dir.Name())
	case err != nil:
		return false, fmt.Errorf("cannot lock %s: %w", dir.Name(), err)
	}
	ours, err := dir.Stat()
	if err != nil {
		return false, err
	}
	there, err := os.Lstat(dir.Name())
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(ours, there), err
}

// Allocate gives the holder a free number for which isUsable returns true; if isUsable is
// nil, all numbers are usable. If no number is free, Allocate chooses the resting number
// whose rest ends first. The error wraps ErrNone if all numbers are taken.
func (f *Folder) Allocate(holder string, isUsable func(uint32) bool) (uint32, error) {
	if !isHolder(holder) {
		return 0, fmt.Errorf("%q cannot hold a %s", holder, f.what)
	}
	var taken uint32
	err := f.withLock(func(dir *os.File) error {
		ok, err := f.takeNext(holder, isUsable, &taken)
		if !ok && err == nil { // the rest of some numbers may be over
			_, err = f.each(dir, instanceOf(holder), nil)
			if err == nil {
				ok, err = f.takeNext(holder, isUsable, &taken)
			}
		}
		if !ok && err == nil {
			ok, err = f.takeResting(dir, holder, isUsable, &taken)
		}
		switch {
		case err != nil:
			return err
		case !ok:
			return fmt.Errorf("%w: all from %d to %d are taken; see %s", ErrNone, f.first, f.last, f.dir)
		}
		return dir.Sync()
	})
	return taken, err
}

// takeNext stores the next free and usable number in number, and reports whether there is
// one.
func (f *Folder) takeNext(holder string, isUsable func(uint32) bool, number *uint32) (bool, error) {
	n := f.next
	for range uint64(f.last-f.first)/uint64(f.step) + 1 {
		if n < f.first || n > f.last {
			n = f.first
		}
		if ok, err := f.tryNumber(n, holder, isUsable); ok || err != nil {
			*number, f.next = n, n+f.step
			return ok, err
		}
		n += f.step
	}
	return false, nil
}

// takeResting gives the holder the resting number whose rest ends first, and stores it in *number.
func (f *Folder) takeResting(dir *os.File, holder string, isUsable func(uint32) bool, number *uint32) (bool, error) {
	all, err := f.claims(dir)
	if err != nil {
		return false, err
	}
	resting := slices.DeleteFunc(all, func(c claim) bool { return c.holder != "" || !f.offers(c.n) })
	slices.SortFunc(resting, func(a, b claim) int { return a.rest.until.Compare(b.rest.until) })
	for _, c := range resting {
		if err := os.Remove(f.path(c.n)); err != nil {
			return false, err
		}
		if ok, err := f.tryNumber(c.n, holder, isUsable); ok || err != nil {
			*number = c.n
			return ok, err
		}
		if err := f.link(c.n, c.rest.text()); err != nil {
			return false, err
		}
	}
	return false, nil
}

// Free returns how many numbers Allocate can still give out. Resting numbers count as free.
func (f *Folder) Free() (left int, err error) {
	for n := uint64(f.first); n <= uint64(f.last); n += uint64(f.step) {
		if f.offers(uint32(n)) {
			left++
		}
	}
	if _, err := os.Lstat(f.dir); errors.Is(err, os.ErrNotExist) {
		return left, nil
	}
	err = f.withLock(func(dir *os.File) error {
		all, err := f.claims(dir)
		for _, c := range all {
			if c.holder != "" && f.offers(c.n) {
				left--
			}
		}
		return err
	})
	return left, err
}

func (f *Folder) offers(n uint32) bool {
	return n >= f.first && n <= f.last && (n-f.first)%f.step == 0 && !f.isAvoided(n)
}

// claims includes resting numbers, and leaves out claims that cannot be parsed.
func (f *Folder) claims(dir *os.File) (list []claim, err error) {
	if _, err := dir.Seek(0, io.SeekStart); err != nil { // a call may have read the folder before
		return nil, err
	}
	names, err := dir.Readdirnames(-1)
	for _, name := range names {
		if c, bad := f.read(name); bad == nil {
			list = append(list, c)
		}
	}
	return list, err
}

// tryNumber reports whether it gave n to the holder.
func (f *Folder) tryNumber(n uint32, holder string, isUsable func(uint32) bool) (bool, error) {
	if f.isAvoided(n) {
		return false, nil
	}
	if err := f.link(n, holder); errors.Is(err, os.ErrExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	if isUsable == nil || isUsable(n) {
		return true, nil
	}
	return false, os.Remove(f.path(n))
}

// Claim gives n to the holder. It succeeds if the holder has n already. The error wraps
// ErrTaken if n has another holder.
func (f *Folder) Claim(n uint32, holder string) error {
	if !isHolder(holder) {
		return fmt.Errorf("%q cannot hold a %s", holder, f.what)
	}
	if f.step > 1 && (n < f.first || n > f.last || (n-f.first)%f.step != 0) || f.isAvoided(n) {
		return fmt.Errorf("%s %d %w: it is not in the range to allocate from", f.what, n, ErrTaken)
	}
	return f.withLock(func(dir *os.File) error {
		err := f.link(n, holder)
		if errors.Is(err, os.ErrExist) {
			c, err := f.read(strconv.FormatUint(uint64(n), 10))
			switch {
			case err != nil:
				return err
			case c.holder == holder:
				return nil
			}
			return fmt.Errorf("%s %d %w: %s", f.what, n, ErrTaken, c)
		}
		if err != nil {
			return err
		}
		return dir.Sync()
	})
}

// Release releases n, which then rests. If the holder does not hold n, nothing happens.
func (f *Folder) Release(n uint32, holder string) error {
	return f.withLock(func(dir *os.File) error {
		c, err := f.read(strconv.FormatUint(uint64(n), 10))
		if errors.Is(err, os.ErrNotExist) || err == nil && c.holder != holder {
			return nil
		}
		if err != nil {
			return err
		}
		return errors.Join(f.free(c), dir.Sync())
	})
}

// free removes a claim. If the folder delays the reuse of its numbers, it then marks the
// number. If the program is killed in between, the number can be used again at once.
func (f *Folder) free(c claim) error {
	err := os.Remove(f.path(c.n))
	if err != nil || f.rest <= 0 {
		return err
	}
	now := f.now()
	return f.link(c.n, rest{now.Add(f.rest), now, instanceOf(c.holder)}.text())
}

// Sweep releases the numbers of an instance for which isUsed returns false. It also frees
// all numbers whose rest is over. problems lists files that are no claims; Sweep does not
// remove them.
func (f *Folder) Sweep(instance string, isUsed func(holder string, n uint32) bool) (problems []error, err error) {
	err = f.withLock(func(dir *os.File) error {
		problems, err = f.each(dir, instance, func(c claim) error {
			if instanceOf(c.holder) == instance && !isUsed(c.holder, c.n) {
				return f.free(c)
			}
			return nil
		})
		return errors.Join(err, dir.Sync())
	})
	return problems, err
}

// each calls handle, if not nil, with every claim that has a holder, and frees numbers
// whose rest is over. instance is the caller's instance, for isResting. problems lists
// files that are no claims.
func (f *Folder) each(dir *os.File, instance string, handle func(claim) error) (problems []error, err error) {
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		c, bad := f.read(name)
		switch {
		case bad != nil:
			problems = append(problems, bad)
		case c.holder == "" && !f.isResting(c.rest, instance):
			err = errors.Join(err, os.Remove(f.path(c.n)))
		case c.holder != "" && handle != nil:
			err = errors.Join(err, handle(c))
		}
	}
	return problems, err
}

// Close removes the folder if it has no claims.
func (f *Folder) Close() error {
	if _, err := os.Lstat(f.dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return f.withLock(func(*os.File) error {
		err := os.Remove(f.dir)
		if errors.Is(err, syscall.ENOTEMPTY) {
			return nil
		}
		return err
	})
}

// isAvoided reports whether the block that begins at n overlaps f.avoid.
func (f *Folder) isAvoided(n uint32) bool {
	first, end := uint64(n), uint64(n)+uint64(f.step)
	for _, s := range f.avoid {
		if first < s.end && s.first < end {
			return true
		}
	}
	return false
}

// isResting ignores a rest longer than longestRest, because the clock was wrong when the
// rest was written. If the caller's instance released the number, the number rests at most
// f.rest, because the setting may have become shorter since the release.
func (f *Folder) isResting(r rest, instance string) bool {
	until := r.until
	if r.instance == instance && instance != "" && r.released.Add(f.rest).Before(until) {
		until = r.released.Add(f.rest)
	}
	left := until.Sub(f.now())
	return left > 0 && left <= longestRest
}

func (f *Folder) path(n uint32) string {
	return filepath.Join(f.dir, strconv.FormatUint(uint64(n), 10))
}

// link returns an error that wraps os.ErrExist if n has a claim already.
func (f *Folder) link(n uint32, text string) error { return os.Symlink(text, f.path(n)) }

func instanceOf(holder string) string {
	return holder[:max(0, strings.IndexAny(holder, "/:"))]
}
