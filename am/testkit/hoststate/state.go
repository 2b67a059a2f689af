package hoststate

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// Options select the objects of a state.
type Options struct {
	// Only are the marks of the test's own objects: names of instances, folders and
	// programs. At least one is required. A process has a mark if its command,
	// environment, working folder, program, cgroup or mounts contain the mark. A mark
	// that is the path of a program also matches processes that run this program under
	// another name.
	Only []string
	// Except are the marks of objects that never belong to the state.
	Except []string
	// Roots are files and folders that are listed with all their content. If a root has a mark,
	// all files in it belong to the state. Otherwise only files with a mark belong to the
	// state. The mark may be in the file's path, in the content of a file of up to 64 KiB, or
	// in the target of a link.
	Roots []string
	// Temp are prefixes of names in the folder for temporary files. The content of folders with
	// such names is not listed.
	Temp []string
}

// State is the set of observed objects at one moment.
type State struct {
	options Options
	objects map[string]int // how often each object exists, by its description
}

// Take observes the host. It fails if it cannot see everything.
func Take(o Options) (State, error) {
	if os.Geteuid() != 0 {
		return State{}, errors.New("cannot observe the host's state: only root can see all of it")
	}
	if len(o.Only) == 0 || slices.Contains(slices.Concat(o.Only, o.Except, o.Temp), "") {
		return State{}, errors.New("cannot observe the host's state: a mark is missing or empty, and would match everything")
	}
	k := &taker{State: State{options: o, objects: make(map[string]int)}}
	for _, part := range []func() error{
		k.takeProcesses, k.takeNamespaces, k.takeCgroups, k.takeMounts, k.takeInterfaces,
		k.takeLoops, k.takeRoots, k.takeTemp,
	} {
		if err := part(); err != nil {
			return State{}, fmt.Errorf("cannot observe the host's state: %w", err)
		}
	}
	return k.State, nil
}

// Diff returns a line for each object that exists in only one of the states. The lines are
// sorted.
func Diff(old, current State) []string {
	var lines []string
	compare := func(word string, a, b map[string]int) {
		for line, n := range a {
			switch more := n - b[line]; {
			case more == 1:
				lines = append(lines, word+line)
			case more > 1:
				lines = append(lines, fmt.Sprintf("%s%s (%d times)", word, line, more))
			}
		}
	}
	compare("new: ", current.objects, old.objects)
	compare("gone: ", old.objects, current.objects)
	// Ignore objects of earlier tests that disappear late. Namespaces and interfaces, which
	// have no mark, disappear when the last thread that uses them ends. Ended processes
	// disappear when their parent collects them.
	lines = slices.DeleteFunc(lines, func(line string) bool {
		return strings.HasPrefix(line, "gone: namespace ") ||
			strings.HasPrefix(line, "gone: network interface ") && strings.HasSuffix(line, " on the host") ||
			strings.HasPrefix(line, "gone: process ") && strings.HasSuffix(line, zombie)
	})
	slices.Sort(lines)
	return lines
}

// Await observes the host until its state equals baseline. The kernel frees some objects only a
// short time after the last use. If differences remain after the duration patience, Await fails
// the test and lists them.
func Await(t testing.TB, baseline State, patience time.Duration) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		after, err := Take(baseline.options)
		if err != nil {
			t.Fatal(err)
		}
		lines := Diff(baseline, after)
		if len(lines) == 0 {
			return
		}
		if time.Now().After(deadline) {
			const most = 40
			if extra := len(lines) - most; extra > 0 {
				lines = append(lines[:most], fmt.Sprintf("and %d more", extra))
			}
			t.Fatalf("the host's state differs from the state before:\n%s", strings.Join(lines, "\n"))
		}
		time.Sleep(pause)
	}
}

type taker struct {
	State
	processes []*process
}

// add counts an object unless it has a mark of Options.Except.
func (k *taker) add(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if !hasMark(line, k.options.Except) {
		k.objects[line]++
	}
}

// addOnce adds an object that may be found several times but must be counted once.
func (k *taker) addOnce(format string, args ...any) {
	if line := fmt.Sprintf(format, args...); k.objects[line] == 0 {
		k.add("%s", line)
	}
}

func (k *taker) isMarked(text string) bool {
	return hasMark(text, k.options.Only)
}

// hasMark reports whether the text contains one of the marks as a whole word. For example,
// x-t10 does not contain the mark x-t1.
func hasMark(text string, marks []string) bool {
	for _, mark := range marks {
		for rest := text; ; {
			i := strings.Index(rest, mark)
			if i < 0 {
				break
			}
			end := i + len(mark)
			continuesBefore := i > 0 && isAlphanumeric(rest[i-1]) && isAlphanumeric(mark[0])
			continuesAfter := end < len(rest) && isAlphanumeric(rest[end]) && isAlphanumeric(mark[len(mark)-1])
			if !continuesBefore && !continuesAfter {
				return true
			}
			rest = rest[i+1:]
		}
	}
	return false
}

func isAlphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
