package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Argv0 is the first argument of the program where it runs as a stage of making
// a node; the main function then calls Stage at once.
const Argv0 = "patchbay-node"

// The stages, as their first argument.
const (
	outerStage = "outer"
	innerStage = "inner"
)

// stageInput is what the stages are told.
type stageInput struct {
	Spec     Spec
	Disk     string // the disk, on the host
	Repair   bool   // check the disk even if it looks clean
	Assembly string // the folder over which to assemble
	Program  string // the folder of this program, on the host
}

// maxInput bounds the text of an order, maxReport that of what stages report.
const (
	maxInput  = 64 << 10
	maxReport = 16 << 10
)

// report is what a stage tells Start, a line of JSON each.
type report struct {
	PID   int    `json:",omitempty"` // of PID 1, on the host
	Error string `json:",omitempty"`
}

// stage is the descriptors of a stage: from 3 on the agent's socket and the
// files of jobs, which the agent inherits, then the order and the reports.
type stage struct {
	inherited int // how many the agent inherits
	input     *os.File
	output    *os.File
}

func openStage(inherited int) stage {
	first := 3 + inherited
	unix.CloseOnExec(first)
	unix.CloseOnExec(first + 1)
	return stage{inherited, os.NewFile(uintptr(first), "order"), os.NewFile(uintptr(first+1), "report")}
}

// files are the descriptors, as os/exec takes them, for a stage that gets order.
func (s stage) files(order *os.File) []*os.File {
	var files []*os.File
	for i := range s.inherited {
		files = append(files, os.NewFile(uintptr(3+i), "inherited"))
	}
	return append(files, order, s.output)
}

func (s stage) sendReport(r report) error { return json.NewEncoder(s.output).Encode(r) }

// readInput reads the order. When its maker died there is none.
func (s stage) readInput() (input stageInput, err error) {
	b, err := io.ReadAll(io.LimitReader(s.input, maxInput))
	if err != nil {
		return input, err
	}
	if len(b) == 0 {
		return input, errOrphan
	}
	return input, json.Unmarshal(b, &input)
}

var errOrphan = errors.New("who wanted the node is gone")

// Stage is one of the steps between Start and the agent. It does not return.
func Stage() {
	// Name spaces and rights belong to threads: everything is done on this one,
	// which then becomes the agent.
	runtime.LockOSThread()
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "this is a part of patchbay-local and is not run by hand")
		os.Exit(2)
	}
	inherited, err := strconv.Atoi(os.Args[2])
	if err != nil || inherited < 1 || inherited > 8 {
		os.Exit(2)
	}
	s := openStage(inherited)
	syscall.Umask(0)
	switch os.Args[1] {
	case outerStage:
		err = outer(s)
	case innerStage:
		err = inner(s)
	default:
		os.Exit(2)
	}
	if err != nil {
		s.sendReport(report{Error: err.Error()})
		os.Exit(1)
	}
	os.Exit(0)
}
