package disk

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Kind is a kind of call.
type Kind string

// Kinds of call.
const (
	Write    Kind = "write"
	Sync     Kind = "sync"     // fsync, fdatasync, also of folders
	Truncate Kind = "truncate" // ftruncate
	Allocate Kind = "allocate" // fallocate
	Rename   Kind = "rename"
	Link     Kind = "link"
	Remove   Kind = "remove"
)

// Call is one call of the process.
type Call struct {
	N      int    // the how manieth, from 1
	Kind   Kind   // what it does
	Path   string // the file's name
	To     string // the new name, for Rename and Link
	Offset int64  // where it writes
	Data   []byte // what it writes
	Size   int64  // what it truncates to
}

// Portion is how much of a call is carried out.
type Portion int

// Portions of a call. Only writes have halves: of others, half is nothing.
const (
	Whole Portion = iota
	Half
	None
)

func (p Portion) String() string { return [...]string{"whole", "half", "nothing"}[p] }

// Fault is what happens instead of a call; the zero Fault lets the call succeed.
type Fault struct {
	Do    Portion
	Kill  bool       // then the process is killed, or
	Errno unix.Errno // the call gives this error, if not 0
}

func (f Fault) String() string {
	s := f.Do.String()
	switch {
	case f.Kill:
		return s + ", killed"
	case f.Errno != 0:
		return fmt.Sprintf("%s, %s", s, unix.ErrnoName(f.Errno))
	}
	return s
}

// Event is a call and its result, or, with Said, text that the process has written to
// its standard output.
type Event struct {
	Call
	Done int        // bytes written
	Err  unix.Errno // what the call gave
	Said string

	file uint64 // which file it was, however it is called
}

// ok reports whether the call had its whole effect.
func (e *Event) ok() bool { return e.Err == 0 }

// Log is the events in order.
type Log []Event

// Said returns all that was written to standard output.
func (l Log) Said() string {
	var s string
	for _, e := range l {
		s += e.Said
	}
	return s
}

// Calls returns the number of calls.
func (l Log) Calls() int {
	n := 0
	for _, e := range l {
		n = max(n, e.N)
	}
	return n
}
