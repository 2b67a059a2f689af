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

// Options say what is looked at.
type Options struct {
	// Only are marks of the test's own things: names of instances, folders,
	// programs. A process bears a mark in its command, environment, folder,
	// program, cgroup or mounts; a mark that is the path of a program also stands
	// for the program under other names. Without marks everything on the host
	// counts.
	Only []string
	// Except are marks of what does not count, whoever it belongs to.
	Except []string
	// Roots are files and folders that are listed with all that is in them. In
	// a root that bears no mark itself, only those files count that do, in their
	// path or, up to 64 KiB, in what is written in them; links in their target.
	Roots []string
	// Temp are beginnings of names in the folder for temporary files; what is
	// below is not listed.
	Temp []string
}

// State is what was there at one moment.
type State struct {
	options Options
	things  map[string]int // the line that tells of it, and how often it is there
}

// Take looks at the whole host. It fails if it may not see everything.
func Take(o Options) (State, error) {
	if os.Geteuid() != 0 {
		return State{}, errors.New("cannot take a state: only root sees all of the host")
	}
	if len(o.Only) == 0 || slices.Contains(slices.Concat(o.Only, o.Except, o.Temp), "") {
		return State{}, errors.New("cannot take a state: an empty mark stands for everything")
	}
	k := &taker{State: State{options: o, things: make(map[string]int)}}
	for _, part := range []func() error{
		k.takeProcesses, k.takeNamespaces, k.takeCgroups, k.takeMounts, k.takeInterfaces, k.takeSockets,
		k.takeLoops, k.takeRoots, k.takeTemp,
	} {
		if err := part(); err != nil {
			return State{}, fmt.Errorf("cannot take a state: %w", err)
		}
	}
	return k.State, nil
}

// Diff tells, in a line for each, what is there after and was not before, and
// what was there before and is not after.
func Diff(before, after State) []string {
	var lines []string
	tell := func(word string, a, b map[string]int) {
		for line, n := range a {
			switch more := n - b[line]; {
			case more == 1:
				lines = append(lines, word+line)
			case more > 1:
				lines = append(lines, fmt.Sprintf("%s%s (%d times)", word, line, more))
			}
		}
	}
	tell("new: ", after.things, before.things)
	tell("gone: ", before.things, after.things)
	// Interfaces of the host and namespaces bear no mark. What has gone of them was not
	// the test's, which had not begun: the last thread of an earlier one may have ended.
	// A child of an earlier test may have been waited for only now.
	lines = slices.DeleteFunc(lines, func(line string) bool {
		return strings.HasPrefix(line, "gone: namespace ") ||
			strings.HasPrefix(line, "gone: network interface ") && strings.HasSuffix(line, " on the host") ||
			strings.HasPrefix(line, "gone: process ") && strings.HasSuffix(line, unwaited)
	})
	slices.Sort(lines)
	return lines
}

// Await takes the same state again until nothing differs, for the kernel frees
// some things a little after the call that lets go of them. What still differs
// when patience is over fails the test.
func Await(t testing.TB, before State, patience time.Duration) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		after, err := Take(before.options)
		if err != nil {
			t.Fatal(err)
		}
		lines := Diff(before, after)
		if len(lines) == 0 {
			return
		}
		if time.Now().After(deadline) {
			const most = 40
			if extra := len(lines) - most; extra > 0 {
				lines = append(lines[:most], fmt.Sprintf("and %d more", extra))
			}
			t.Fatalf("the host is not as it was:\n%s", strings.Join(lines, "\n"))
		}
		time.Sleep(pause)
	}
}

// taker is a state that is being taken.
type taker struct {
	State
	processes []*process
	holders   map[string]bool // inodes of sockets that processes of the test hold
}

// add counts a thing, unless its line bears a mark of what does not count.
func (k *taker) add(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if !bears(line, k.options.Except) {
		k.things[line]++
	}
}

// addLine counts a thing that may be met more than once, but is one.
func (k *taker) addLine(format string, args ...any) {
	if line := fmt.Sprintf(format, args...); k.things[line] == 0 {
		k.add("%s", line)
	}
}

// isMarked reports whether a text bears a mark of the test's own things.
func (k *taker) isMarked(text string) bool {
	return bears(text, k.options.Only)
}

// bears reports whether a mark is in the text, and not as part of a longer
// number or word: x-t1 is not in x-t10.
func bears(text string, marks []string) bool {
	for _, mark := range marks {
		for rest := text; ; {
			i := strings.Index(rest, mark)
			if i < 0 {
				break
			}
			end := i + len(mark)
			if !(i > 0 && word(rest[i-1]) && word(mark[0])) && !(end < len(rest) && word(rest[end]) && word(mark[len(mark)-1])) {
				return true
			}
			rest = rest[i+1:]
		}
	}
	return false
}

// word reports whether c is an ASCII letter or digit.
func word(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
