package hostalloc

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// longestRest exceeds the longest rest that can be configured.
const longestRest = 25 * time.Hour

// restMark is the first character of a resting number's claim. No holder begins with it.
const restMark = "~"

const maxHolder = 128

// claim is a parsed claim. In the folder, a claim is a symbolic link. The link's name is
// the number, and its target is the holder or describes the rest.
type claim struct {
	n      uint32
	holder string // empty if the number rests
	rest   rest
}

// rest is the time after the release of a number during which the number is not used. A
// resting number's claim contains ~UNTIL,RELEASED,INSTANCE: restMark, the end of the rest,
// the time of the release, and the instance that released the number. Both times are in
// seconds since 1970. Earlier versions wrote ~UNTIL.
type rest struct {
	until, released time.Time
	instance        string // empty if not known
}

func (r rest) text() string {
	return fmt.Sprintf("%s%d,%d,%s", restMark, r.until.Unix(), r.released.Unix(), r.instance)
}

// readRest parses the text of a resting number's claim. ok is false if it is none.
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
	case len(words) == 3 && words[2] != "" && isWord(words[2]):
		return rest{times[0], times[1], words[2]}, true
	}
	return r, false
}

// String returns the reason why the number is taken, as part of an error message.
func (c claim) String() string {
	if c.holder == "" {
		return "it was released recently and cannot be used again until " + c.rest.until.Format(time.TimeOnly)
	}
	return "it belongs to " + c.holder
}

// read reads the claim in a file of that name. It fails for a file that is no claim.
func (f *Folder) read(name string) (claim, error) {
	path := filepath.Join(f.dir, name)
	text, err := os.Readlink(path)
	if os.IsNotExist(err) {
		return claim{}, err
	}
	n, numErr := strconv.ParseUint(name, 10, 32)
	if err == nil && numErr == nil && strconv.FormatUint(n, 10) == name {
		if isHolder(text) {
			return claim{n: uint32(n), holder: text}, nil
		}
		if r, ok := readRest(text); ok {
			return claim{n: uint32(n), rest: r}, nil
		}
	}
	return claim{}, fmt.Errorf("%s is not a claim of the testbed; find out what created it, and remove it if it is not needed", path)
}

// isHolder reports whether s is INSTANCE/NODE or, for other uses, INSTANCE:USE.
func isHolder(s string) bool {
	i := strings.IndexAny(s, "/:")
	return len(s) <= maxHolder && i > 0 && i < len(s)-1 && isWord(s[:i]) && isWord(s[i+1:])
}

func isWord(s string) bool { return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" }
