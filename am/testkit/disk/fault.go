package disk

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Kind is a kind of system call.
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

// Call is one watched system call of the process.
type Call struct {
	N      int    // its number; the first call is 1
	Kind   Kind   // what it does
	Path   string // the file's name
	To     string // the new name, for Rename and Link
	Offset int64  // the position of a Write
	Data   []byte // the bytes of a Write
	Size   int64  // the new size, for Truncate
}

// Portion is the part of a call that is carried out.
type Portion int

// Portions of a call. Half applies only to a Write; for other calls it is the same as None.
const (
	Whole Portion = iota
	Half
	None
)

func (p Portion) String() string { return [...]string{"whole", "half", "nothing"}[p] }

// Fault is the test's decision about a call. The zero Fault means that the whole call is
// carried out.
type Fault struct {
	Do    Portion    // the part that is carried out first
	Kill  bool       // the process is then killed
	Errno unix.Errno // the call returns this error, if not 0
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

// Event is a call with its result or, if Output is set, a write to standard output.
type Event struct {
	Call
	Done   int        // the number of bytes written
	Err    unix.Errno // the error that the call returned, or 0
	Output string     // the text that the process wrote to its standard output

	file uint64 // the file's inode
}

func (e *Event) succeeded() bool { return e.Err == 0 }

// Log is a list of events, in their order.
type Log []Event

// Output returns everything that the process wrote to its standard output.
func (l Log) Output() string {
	var s string
	for _, e := range l {
		s += e.Output
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
