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
	holder string
	rests  bool
	until  time.Time
}

func (c held) String() string {
	if c.rests {
		return "it rests until " + c.until.Format(time.TimeOnly)
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
		c := held{n: uint32(n), holder: text}
		if isHolder(text) {
			return c, nil
		}
		if until, ok := strings.CutPrefix(text, restMark); ok {
			if sec, err := strconv.ParseInt(until, 10, 64); err == nil {
				return held{n: uint32(n), rests: true, until: time.Unix(sec, 0)}, nil
			}
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
