package sysctl

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"patchbay/am/file"
)

const root = "/proc/sys"

// File is the name of the file that records which settings were raised.
const File = "sysctl.json"

// values are the numbers of one setting; most settings have one.
type values []int64

type setting struct {
	name string // as sysctl(8) writes it
	want values
}

// settings returns the settings for a host. The parameter memory is in bytes.
func settings(memory int64) []setting {
	const (
		mostPIDs = 1 << 22  // the kernel accepts no more
		thread   = 32 << 10 // the least bytes of memory of a thread
		openFile = 256      // bytes of memory of an open file
		// On amd64, compiled packet filters and the kernel's modules share a region of 1008
		// MiB; the modules get the rest of it. On other architectures the kernel's default is
		// higher than this limit.
		filters = 896 << 20
	)
	sockets := func(memory int64) values {
		pages := memory / int64(os.Getpagesize())
		return values{pages * 7 / 8, pages * 15 / 16, pages}
	}
	list := []setting{
		{"kernel.pid_max", values{mostPIDs}},
		{"kernel.threads-max", values{min(memory/thread, mostPIDs)}},
		{"fs.file-max", values{memory / openFile}},
		// A connection is charged to the node that accepts it. Data in unaccepted connections
		// is charged to no node, so all of TCP gets only a quarter of the memory. If the host
		// limits the memory of sockets separately, package cgroup limits each node to a
		// quarter, too.
		{"net.ipv4.tcp_mem", sockets(memory / 4)},
		{"net.ipv4.udp_mem", sockets(memory)},
	}
	if runtime.GOARCH == "amd64" {
		list = append(list, setting{"net.core.bpf_jit_limit", values{filters}})
	}
	for _, family := range []string{"ipv4", "ipv6"} {
		// Enough for 300 nodes of a LAN that all exchange packets. Below the first threshold
		// the kernel keeps all entries. Above the second it drops entries older than 5 s, and
		// above the third it adds none. So a node that scans addresses fills less than 100 MB
		// of the host's memory.
		for i, n := range []int64{1 << 15, 1 << 16, 1 << 17} {
			list = append(list, setting{fmt.Sprintf("net.%s.neigh.default.gc_thresh%d", family, i+1), values{n}})
		}
	}
	return list
}

func hostSettings() ([]setting, error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return nil, fmt.Errorf("cannot read how much memory this host has: %w", err)
	}
	return settings(int64(info.Totalram) * int64(info.Unit)), nil
}

// record is written to a file before the settings are raised.
type record struct {
	// Boot is the kernel's boot_id. After a reboot the record is no longer valid.
	Boot   string            `json:"boot"`
	Raised map[string]raised `json:"raised"`
}

type raised struct {
	Was values `json:"was"`
	Set values `json:"set"`
}

// Raise raises settings that are too low. It logs each raised setting, and records the old
// value in the folder for Restore. It skips settings that do not exist, as in a container.
// The error has a line for each setting that could not be raised.
func Raise(folder string, log *slog.Logger) error {
	list, err := hostSettings()
	if err != nil {
		return err
	}
	return raise(root, list, folder, log)
}

// raise does the work of Raise with the settings in list. It records an old value before it writes the new one.
func raise(root string, list []setting, folder string, log *slog.Logger) error {
	n, err := readRecord(folder)
	if err != nil {
		return err
	}
	var all []error
	var done []string
	for _, s := range list {
		now, err := read(root, s.name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			all = append(all, err)
			continue
		}
		set := now.atLeast(s.want)
		if slices.Equal(set, now) {
			continue
		}
		before, noted := n.Raised[s.name]
		n.Raised[s.name] = raised{now, set}
		if err := n.write(folder); err != nil {
			return err
		}
		if err := set.write(root, s.name); err != nil {
			all = append(all, fmt.Errorf("%w; run on the machine itself: %s", err, s.command()))
			// Nothing was raised, so nothing needs to be restored.
			if delete(n.Raised, s.name); noted {
				n.Raised[s.name] = before
			}
			all = append(all, n.write(folder))
			continue
		}
		done = append(done, fmt.Sprintf("%s=%s (was %s)", s.name, set, now))
	}
	if len(done) > 0 {
		log.Info("limits of the kernel are raised for the nodes; clean restores them", "set", strings.Join(done, ", "))
	}
	return errors.Join(all...)
}

// Restore restores the values that the settings had before Raise. It keeps the value of a
// setting that was changed after Raise.
func Restore(folder string) error { return restore(root, folder) }

// restore lowers the settings that are recorded in folder to their old values, unless they were changed since,
// and removes the record.
func restore(root, folder string) error {
	n, err := readRecord(folder)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, s := range settings(0) {
		known[s.name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(n.Raised)) {
		if !known[name] {
			continue
		}
		now, err := read(root, name)
		if err != nil {
			return err
		}
		if r := n.Raised[name]; slices.Equal(now, r.Set) {
			if err := r.Was.write(root, name); err != nil {
				return err
			}
		}
	}
	if err := os.Remove(filepath.Join(folder, File)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove the record of the kernel's old limits: %w", err)
	}
	return nil
}

// Limit is the current state of a setting.
type Limit struct {
	Name, Now, Want string
	// Enough means that Raise does not change the setting.
	Enough bool
	// Err is the reason why the setting cannot be read or changed, nil if it can. It wraps
	// fs.ErrNotExist if the setting does not exist, as in a container.
	Err error
	// Remedy is the command that raises the setting.
	Remedy string
}

// Limits returns the state of all settings. To find out whether a setting can be changed, it
// opens the setting's file for writing, but changes nothing.
func Limits() ([]Limit, error) {
	list, err := hostSettings()
	if err != nil {
		return nil, err
	}
	return limits(root, list), nil
}

// limits describes the present and wanted value of each setting, and whether this process can raise it.
func limits(root string, list []setting) (all []Limit) {
	for _, s := range list {
		now, err := read(root, s.name)
		set := now.atLeast(s.want)
		l := Limit{Name: s.name, Now: now.String(), Want: set.String(), Enough: err == nil && slices.Equal(set, now), Err: err, Remedy: s.command()}
		if err == nil && !l.Enough {
			f, err := os.OpenFile(path(root, s.name), os.O_WRONLY, 0)
			if l.Err = err; err == nil {
				f.Close()
			}
		}
		all = append(all, l)
	}
	return all
}

func (s setting) command() string { return fmt.Sprintf("sysctl -w %s='%s'", s.name, s.want) }

func (v values) atLeast(minimum values) values {
	set := slices.Clone(v)
	for i := range min(len(set), len(minimum)) {
		set[i] = max(set[i], minimum[i])
	}
	return set
}

func (v values) String() string {
	words := make([]string, len(v))
	for i, n := range v {
		words[i] = strconv.FormatInt(n, 10)
	}
	return strings.Join(words, " ")
}

func path(root, name string) string { return filepath.Join(root, strings.ReplaceAll(name, ".", "/")) }

func read(root, name string) (v values, err error) {
	b, err := os.ReadFile(path(root, name))
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", name, err)
	}
	for text := range strings.FieldsSeq(string(b)) {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("cannot read %s: %w", name, err)
		}
		v = append(v, n)
	}
	return v, nil
}

func (v values) write(root, name string) error {
	if err := os.WriteFile(path(root, name), []byte(v.String()), 0); err != nil {
		return fmt.Errorf("cannot set %s to %s: %w", name, v, err)
	}
	return nil
}

// readRecord reads the settings that were raised since the host was booted.
func readRecord(folder string) (record, error) {
	boot, err := os.ReadFile(root + "/kernel/random/boot_id")
	if err != nil {
		return record{}, fmt.Errorf("cannot read the id of this boot: %w", err)
	}
	none := record{strings.TrimSpace(string(boot)), map[string]raised{}}
	b, err := os.ReadFile(filepath.Join(folder, File))
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	if err != nil {
		return record{}, fmt.Errorf("cannot read the record of the kernel's old limits: %w", err)
	}
	var n record
	if json.Unmarshal(b, &n) != nil || n.Boot != none.Boot || n.Raised == nil {
		return none, nil
	}
	return n, nil
}

func (n record) write(folder string) error {
	b, err := json.Marshal(n)
	if err != nil {
		return err
	}
	if err := file.Write(filepath.Join(folder, File), append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("cannot record the kernel's old limits: %w", err)
	}
	return nil
}
