package setup

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Argv0 is the name under which this executable is the setup program.
const Argv0 = "patchbay-setup"

// Verbs: the first argument.
const (
	argRun  = "run"
	argWait = "wait"
	argEnd  = "end"

	argDeliver = "deliver"
)

// RunArgs returns the command line that starts step n. Steps are numbered from 1.
func RunArgs(n int) []string { return []string{Argv0, argRun, strconv.Itoa(n)} }

// WaitArgs returns the command line that waits for the end of step n.
func WaitArgs(n int) []string { return []string{Argv0, argWait, strconv.Itoa(n)} }

// EndArgs returns the command line that ends step n if it runs.
func EndArgs(n int) []string { return []string{Argv0, argEnd, strconv.Itoa(n)} }

// DeliverArgs returns the command line that takes a file of the site's catalogue for step n: its
// SHA-256 in hexadecimal, and then its content. It reports Done or Failed.
func DeliverArgs(n int) []string { return []string{Argv0, argDeliver, strconv.Itoa(n)} }

// States of a step.
const (
	Waiting = "waiting" // not started
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

// Interrupted is the message of a step that ended without a result. If the step ended
// together with the node, the testbed replaces this message.
const Interrupted = "interrupted: something in the node ended it, perhaps for lack of memory"

// EndedEarly is the message of a step that EndArgs ended.
const EndedEarly = "it was ended before it had finished"

// Report is the state of a step.
type Report struct {
	State string `json:"state"`
	// Attempt is the attempt of the Assignment that began the step.
	Attempt int `json:"attempt,omitempty"`
	// BeganAt and EndedAt are in UTC and in whole seconds, and zero if they are unknown.
	BeganAt time.Time `json:"began,omitzero"`
	EndedAt time.Time `json:"ended,omitzero"`
	Exit    int       `json:"exit,omitempty"`
	// Message explains a failure to the experimenter, in one line.
	Message string `json:"message,omitempty"`
	// Output is the end of the output so far, at most MaxOutput bytes of UTF-8, without control
	// characters except \n and \t.
	Output string `json:"output,omitempty"`
	// Progress describes a running step, such as "45 %".
	Progress string `json:"progress,omitempty"`
}

// Ended reports whether the step has ended.
func (r Report) Ended() bool { return r.State == Done || r.State == Failed }

// Bounded returns r with bounded texts without control characters, and with an exit status of
// 0 to 255.
func (r Report) Bounded() Report {
	r.BeganAt, r.EndedAt = wholeSeconds(r.BeganAt), wholeSeconds(r.EndedAt)
	r.Message = singleLine(r.Message, maxMessage)
	r.Progress = singleLine(r.Progress, maxProgress)
	r.Output = Tail(r.Output, MaxOutput)
	r.Exit = max(0, min(r.Exit, 255))
	return r
}

// wholeSeconds returns t in UTC, and the zero time if JSON cannot have t.
func wholeSeconds(t time.Time) time.Time {
	t = t.UTC().Truncate(time.Second)
	if year := t.Year(); year < 1970 || year > 9999 {
		return time.Time{}
	}
	return t
}

// singleLine returns s as one printable line of at most limit bytes.
func singleLine(s string, limit int) string {
	s = printable(s, "")
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit-3], "") + "..."
	}
	return s
}

// printable returns s as UTF-8, with a space for each control character that is not in
// allowed. Control characters could control terminals, and are long in JSON.
func printable(s, allowed string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && !strings.ContainsRune(allowed, r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// Tail returns the end of s as printable lines, at most limit bytes.
func Tail(s string, limit int) string {
	s = printable(s, "\n\t")
	return strings.ToValidUTF8(s[max(0, len(s)-limit):], "")
}

// ReadReports reads the reports of a node from r and calls handle for each. It returns after
// the report that the step has ended, or at the end of r. It fails if a report is invalid or
// too long.
func ReadReports(r io.Reader, handle func(Report)) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 1<<10), maxLine)
	for lines.Scan() {
		var got Report
		if err := json.Unmarshal(lines.Bytes(), &got); err != nil {
			return fmt.Errorf("the node's report of a step cannot be read: %w", err)
		}
		switch got.State {
		case Waiting, Running, Done, Failed:
		default:
			return fmt.Errorf("the node reports the unknown state %.40q of a step", got.State)
		}
		if handle(got.Bounded()); got.Ended() {
			return nil
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("the node's report of a step has more than %d bytes", maxLine)
	} else if err != nil {
		return err
	}
	return nil
}

func (r Report) encode() []byte {
	b, _ := json.Marshal(r.Bounded()) // cannot fail: only texts, numbers and times that JSON can have
	return append(b, '\n')
}
