package hostalloc

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// longestRest is longer than any setting allows.
const longestRest = 25 * time.Hour

// restMark begins the text of a number that rests; no holder begins so.
const restMark = "~"

const maxHolder = 128

// held is one claim, read.
type held struct {
	n      uint32
	holder string // empty: it rests
	rest   rest
}

// rest is how a released number rests. The text of its claim is restMark, the time
// in seconds until which it rests, and when it was released by which instance:
// ~UNTIL,RELEASED,INSTANCE. Earlier versions wrote ~UNTIL.
type rest struct {
	until, released time.Time
	instance        string // empty: not known
}

func (r rest) text() string {
	return fmt.Sprintf("%s%d,%d,%s", restMark, r.until.Unix(), r.released.Unix(), r.instance)
}

// readRest reads the text of a rest.
func readRest(text string) (r rest, ok bool) {
	text, ok = strings.CutPrefix(text, restMark)
	if !ok {
		return r, false
	}
	words := strings.Split(text, ",")
	var times []time.Time
	for _, w := range words[:min(2, len(words))] {
		sec, err := strconv.ParseInt(w, 10, 64)
		if err != nil {
			return r, false
		}
		times = append(times, time.Unix(sec, 0))
	}
	switch {
	case len(words) == 1:
		return rest{until: times[0]}, true
	case len(words) == 3 && words[2] != "" && word(words[2]):
		return rest{times[0], times[1], words[2]}, true
	}
	return r, false
}

func (c held) String() string {
	if c.holder == "" {
		return "it rests until " + c.rest.until.Format(time.TimeOnly)
	}
	return "it belongs to " + c.holder
}

// read reads the claim in a file of the folder.
func (f *Folder) read(name string) (held, error) {
	path := filepath.Join(f.dir, name)
	text, err := os.Readlink(path)
	if os.IsNotExist(err) {
		return held{}, err
	}
	n, numErr := strconv.ParseUint(name, 10, 32)
	if err == nil && numErr == nil && strconv.FormatUint(n, 10) == name {
		if isHolder(text) {
			return held{n: uint32(n), holder: text}, nil
		}
		if r, ok := readRest(text); ok {
			return held{n: uint32(n), rest: r}, nil
		}
	}
	return held{}, fmt.Errorf("%s is not a claim of the testbed; look who made it, and remove it when nobody needs it", path)
}

// isHolder accepts INSTANCE/NODE and INSTANCE:WHAT.
func isHolder(s string) bool {
	i := strings.IndexAny(s, "/:")
	return len(s) <= maxHolder && i > 0 && i < len(s)-1 && word(s[:i]) && word(s[i+1:])
}

func word(s string) bool { return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" }
