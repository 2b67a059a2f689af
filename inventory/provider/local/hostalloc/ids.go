package hostalloc

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Size is the number of user ids, and of group ids, in a claim.
const Size = 65536

// The range of user ids of nodes: above the ids of systemd's containers, and below the
// negative ids of old programs.
const (
	firstID = 0x70000000
	lastID  = 0x7ffd0000
)

// IDs returns the folder ROOT/ids, for claims on blocks of Size user and group ids. The
// number of a block is its first id. Blocks that overlap ids in /etc/subuid or /etc/subgid
// are not given out, because these ids belong to accounts of the host.
func IDs(root string) (*Folder, error) {
	f := &Folder{
		dir: filepath.Join(root, "ids"), what: "block of user ids", first: firstID, last: lastID, step: Size,
		now: time.Now,
	}
	for _, path := range []string{"/etc/subuid", "/etc/subgid"} {
		given, err := readSubordinate(path)
		if err != nil {
			return nil, err
		}
		f.avoid = append(f.avoid, given...)
	}
	return f, nil
}

// readSubordinate parses /etc/subuid or /etc/subgid: ACCOUNT:FIRST:COUNT in each line.
func readSubordinate(path string) ([]span, error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var all []span
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		f := strings.Split(line, ":")
		if len(f) != 3 {
			return nil, fmt.Errorf("%s:%d: the line is not like account:100000:65536; correct it, or nodes could get the user ids of an account", path, n)
		}
		first, err1 := strconv.ParseUint(f[1], 10, 32)
		count, err2 := strconv.ParseUint(f[2], 10, 64)
		if err1 != nil || err2 != nil || count > math.MaxUint32+1 {
			return nil, fmt.Errorf("%s:%d: %q is no range of user ids; correct it, or nodes could get the user ids of an account", path, n, f[1]+":"+f[2])
		}
		all = append(all, span{first, first + count})
	}
	return all, lines.Err()
}
