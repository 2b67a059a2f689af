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

// Argv0 is the argv[0] of a process that is a stage of creating a node. Its main function must
// call Stage immediately.
const Argv0 = "patchbay-node"

// Stages, as the first argument.
const (
	outerStage = "outer"
	innerStage = "inner"
)

type stageInput struct {
	Spec     Spec
	Disk     string   // path on the host
	Data     []string // the same for Spec.Disks
	Repair   bool     // check the disks even if they look clean
	Assembly string   // folder on which to assemble mounts
	Program  string   // folder of this executable, on the host
}

// maxInput bounds the encoded stageInput, maxReport all reports of the stages.
const (
	maxInput  = 64 << 10
	maxReport = 16 << 10
)

// report is a message of a stage to Start: one line of JSON.
type report struct {
	PID   int    `json:",omitempty"` // of PID 1, on the host
	Error string `json:",omitempty"`
}

// stage holds the descriptors of a stage. From 3 on come the descriptors that the agent
// inherits: its socket and the files of jobs. Then come the stage's input and output.
type stage struct {
	inherited int // number of descriptors for the agent
	input     *os.File
	output    *os.File
}

func openStage(inherited int) stage {
	first := 3 + inherited
	unix.CloseOnExec(first)
	unix.CloseOnExec(first + 1)
	return stage{inherited, os.NewFile(uintptr(first), "input"), os.NewFile(uintptr(first+1), "report")}
}

func (s stage) files(input *os.File) []*os.File {
	var files []*os.File
	for i := range s.inherited {
		files = append(files, os.NewFile(uintptr(3+i), "inherited"))
	}
	return append(files, input, s.output)
}

func (s stage) sendReport(r report) error { return json.NewEncoder(s.output).Encode(r) }

// readInput fails if the parent died before sending the input.
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

var errOrphan = errors.New("the process that started the node has ended")

// Stage runs the stage that the first argument names. It does not return.
func Stage() {
	// Namespaces and rights belong to threads: all work is done on this thread, which then
	// becomes the agent.
	runtime.LockOSThread()
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "this is an internal part of patchbay-local; do not run it directly")
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
