package setup

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Argv0 is the name under which the program does this.
const Argv0 = "patchbay-setup"

// What follows the name.
const (
	argRun  = "run"
	argWait = "wait"
)

// RunArgs begin step n, WaitWords wait for its end. Steps count from 1.
func RunArgs(n int) []string  { return []string{Argv0, argRun, strconv.Itoa(n)} }
func WaitArgs(n int) []string { return []string{Argv0, argWait, strconv.Itoa(n)} }

// States of a step.
const (
	Waiting = "waiting" // it has not begun
	Running = "running"
	Done    = "done"
	Failed  = "failed"
)

// Bounds on a report, in bytes.
const (
	MaxOutput   = 2 << 10
	maxMessage  = 300
	maxProgress = 40
	maxLine     = 32 << 10
)

// Interrupted is the message of a step that ended without a word. Whether the node
// ended with it, the testbed knows.
const Interrupted = "interrupted: something in the node ended it, perhaps for want of memory"

// Report is how a step is.
type Report struct {
	State string `json:"state"`
	Exit  int    `json:"exit,omitempty"`
	// Message is why it failed, one line for the experimenter.
	Message string `json:"message,omitempty"`
	// Output is the end of what it printed, at most MaxOutput bytes of UTF-8, without
	// control characters but \n and \t.
	Output string `json:"output,omitempty"`
	// Progress is how far it is while it runs, such as "45 %".
	Progress string `json:"progress,omitempty"`
}

// Ended tells whether the step is over.
func (r Report) Ended() bool { return r.State == Done || r.State == Failed }

// Bounded is r as it may stand in answers: of known form and bounded.
func (r Report) Bounded() Report {
	r.Message = singleLine(r.Message, maxMessage)
	r.Progress = singleLine(r.Progress, maxProgress)
	r.Output = Tail(r.Output, MaxOutput)
	r.Exit = max(0, min(r.Exit, 255))
	return r
}

// singleLine makes one line of s.
func singleLine(s string, most int) string {
	s = printable(s, "")
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most-3], "") + "..."
	}
	return s
}

// printable is s in UTF-8, with spaces for control characters that are not kept: they
// steer terminals, and are long as JSON.
func printable(s, keep string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && !strings.ContainsRune(keep, r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// Tail is the end of s, as Output may be and at most so many bytes.
func Tail(s string, most int) string {
	s = printable(s, "\n\t")
	if len(s) <= most {
		return s
	}
	s = s[len(s)-most:]
	for s != "" && !utf8.RuneStart(s[0]) {
		s = s[1:]
	}
	return s
}

// ReadReports calls each for every report that r brings, which comes out of a
// node, up to the one that says that the step is over: what is no report, or too
// long, is an error.
func ReadReports(r io.Reader, each func(Report)) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 1<<10), maxLine)
	for lines.Scan() {
		var got Report
		if err := json.Unmarshal(lines.Bytes(), &got); err != nil {
			return fmt.Errorf("what the node tells of a step cannot be read: %w", err)
		}
		switch got.State {
		case Waiting, Running, Done, Failed:
		default:
			return fmt.Errorf("the node tells of a step that is %.40q", got.State)
		}
		if each(got.Bounded()); got.Ended() {
			return nil
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("what the node tells of a step has more than %d bytes", maxLine)
	} else if err != nil {
		return err
	}
	return nil
}

func (r Report) encode() []byte {
	b, _ := json.Marshal(r.Bounded()) // it has only texts and a number
	return append(b, '\n')
}
