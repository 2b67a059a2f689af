package fabric

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Which address is at which MAC address all networks of a host keep in one table
// for each of IPv4 and IPv6, the nodes' and the host's own. By default it has room
// for 1,024 entries, which 33 nodes of a LAN fill that all talk with each other;
// then whoever is new to somebody is not found.

// thresholds are net.ipv4.neigh.default.gc_thresh1 to 3: below the first nothing is
// forgotten, above the second what is older than 5 s, and above the third nothing is
// learned.
type thresholds [3]int

// roomy is for 300 nodes of a LAN that all talk, and keeps what a scan can take of
// the host's memory below 100 MB.
var roomy = thresholds{1 << 15, 1 << 16, 1 << 17}

// tables are the folders of the settings of both tables.
const tables = "/proc/sys/net"

var families = []string{"ipv4", "ipv6"}

const neighboursFile = "neighbours.json"

// raised is what was before it was raised, in neighboursFile: written before that
// is done.
type raised struct {
	// Boot is the kernel's boot_id; another kernel has forgotten all.
	Boot string                `json:"boot"`
	Was  map[string]thresholds `json:"was"`
}

// RaiseNeighbours gives the host's tables of neighbours room for those of many
// nodes. What had less is noted in the folder of networks, for RestoreNeighbours,
// and logged. Where the tables are somebody else's, as in a container, it does
// nothing.
func RaiseNeighbours(folder string, log *slog.Logger) error {
	return raiseNeighbours(tables, folder, log)
}

func raiseNeighbours(tables, folder string, log *slog.Logger) error {
	r, err := readRaised(folder)
	if err != nil {
		return err
	}
	var low []string
	for _, family := range families {
		now, err := readThresholds(tables, family)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if now[2] < roomy[2] {
			low = append(low, family)
			r.Was[family] = now
		}
	}
	if len(low) == 0 {
		return nil
	}
	if err := r.write(folder); err != nil {
		return err
	}
	for _, family := range low {
		want := r.Was[family].atLeast(roomy)
		if err := want.write(tables, family); err != nil {
			return err
		}
		log.Info("the host has room for more neighbours of nodes; clean sets it back",
			"set", "net."+family+".neigh.default.gc_thresh3="+strconv.Itoa(want[2]), "was", r.Was[family][2])
	}
	return nil
}

// RestoreNeighbours sets back what RaiseNeighbours did, but not what somebody else
// has changed since.
func RestoreNeighbours(folder string) error { return restoreNeighbours(tables, folder) }

func restoreNeighbours(tables, folder string) error {
	r, err := readRaised(folder)
	if err != nil {
		return err
	}
	for _, family := range slices.Sorted(maps.Keys(r.Was)) {
		if !slices.Contains(families, family) {
			continue
		}
		now, err := readThresholds(tables, family)
		if err != nil {
			return err
		}
		if was := r.Was[family]; now == was.atLeast(roomy) {
			if err := was.write(tables, family); err != nil {
				return err
			}
		}
	}
	if err := os.Remove(filepath.Join(folder, neighboursFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot forget how many neighbours the host had room for: %w", err)
	}
	return nil
}

// Neighbours is how many the host has room for, the fewest of IPv4 and IPv6, and
// how many RaiseNeighbours makes of it. The error wraps fs.ErrNotExist where the
// tables are somebody else's, and fs.ErrPermission where they cannot be changed.
func Neighbours() (now, then int, err error) {
	now, then = -1, roomy[2]
	for _, family := range families {
		t, err := readThresholds(tables, family)
		if err != nil {
			if family != families[0] && errors.Is(err, fs.ErrNotExist) {
				continue // a host without IPv6
			}
			return 0, 0, err
		}
		if now < 0 || t[2] < now {
			now = t[2]
		}
		f, err := os.OpenFile(thresholdPath(tables, family, 3), os.O_WRONLY, 0)
		if err != nil {
			return now, then, err
		}
		f.Close()
	}
	return now, max(now, then), nil
}

func (t thresholds) atLeast(other thresholds) thresholds {
	for i := range t {
		t[i] = max(t[i], other[i])
	}
	return t
}

func thresholdPath(tables, family string, number int) string {
	return filepath.Join(tables, family, "neigh/default/gc_thresh"+strconv.Itoa(number))
}

func readThresholds(tables, family string) (t thresholds, err error) {
	for i := range t {
		b, err := os.ReadFile(thresholdPath(tables, family, i+1))
		if err != nil {
			return t, fmt.Errorf("cannot tell how many neighbours the host has room for: %w", err)
		}
		if t[i], err = strconv.Atoi(strings.TrimSpace(string(b))); err != nil {
			return t, fmt.Errorf("cannot tell how many neighbours the host has room for: %w", err)
		}
	}
	return t, nil
}

func (t thresholds) write(tables, family string) error {
	for i, value := range t {
		if err := os.WriteFile(thresholdPath(tables, family, i+1), []byte(strconv.Itoa(value)), 0); err != nil {
			return fmt.Errorf("cannot change how many neighbours the host has room for: %w", err)
		}
	}
	return nil
}

// readRaised reads what was raised since the host was booted.
func readRaised(folder string) (raised, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return raised{}, fmt.Errorf("cannot tell since when this host runs: %w", err)
	}
	none := raised{strings.TrimSpace(string(boot)), map[string]thresholds{}}
	b, err := os.ReadFile(filepath.Join(folder, neighboursFile))
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	if err != nil {
		return raised{}, fmt.Errorf("cannot read how many neighbours the host had room for: %w", err)
	}
	var r raised
	if json.Unmarshal(b, &r) != nil || r.Boot != none.Boot || r.Was == nil {
		return none, nil
	}
	return r, nil
}

func (r raised) write(folder string) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	path := filepath.Join(folder, neighboursFile)
	if err = os.WriteFile(path+".new", append(b, '\n'), 0o600); err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fmt.Errorf("cannot note how many neighbours the host had room for: %w", err)
	}
	return nil
}
