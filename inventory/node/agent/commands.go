package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// LimitsFile is a file in each node with its Limits, as JSON.
const LimitsFile = "/run/patchbay/limits.json"

// Limits are the limits of a node. Memory and Disk are in bytes.
type Limits struct {
	CPUs   float64
	Memory int64
	PIDs   int
	Disk   int64
}

// Usage is the answer of geni-get usage: the limits of a node and their present use.
type Usage struct {
	CPUs        float64 `json:"cpus"`
	Memory      int64   `json:"memory"`       // bytes, as the sizes below
	MemoryUsed  int64   `json:"memory_used"`  // includes MemoryFiles
	MemoryFiles int64   `json:"memory_files"` // cached files, which the kernel can drop
	PIDs        int     `json:"processes"`
	PIDsUsed    int     `json:"processes_used"`
	Disk        int64   `json:"disk"`
}

type nodeCommand func(args []string, out io.Writer) error

// nodeCommands returns the commands of this package by name. Each command replaces a
// program that would show figures of the host, or that cannot work in a node.
func nodeCommands() map[string]nodeCommand {
	const restart = "a node cannot shut down or reboot itself, by design: restart it from outside with the action geni_restart; its files are kept"
	all := map[string]nodeCommand{
		SudoName:   func(args []string, _ io.Writer) error { return sudo(args) },
		"geni-get": GeniGet,
		"free":     free,
		"nproc":    nproc,
		"systemctl": unavailable("systemctl", "there is no systemd in a node, by design: start the program itself, such as setsid PROGRAM >/tmp/log 2>&1 </dev/null &, or in an execute of the request", func(args []string) bool {
			words := []string{"start", "stop", "restart", "try-restart", "reload", "reload-or-restart", "status", "is-active", "reboot", "poweroff", "halt", "kill", "isolate"}
			return !slices.ContainsFunc(args, func(word string) bool { return slices.Contains(words, word) })
		}),
		"mount": unavailable("mount", "nothing can be mounted in a node, by design: it has only its own disk", func(args []string) bool {
			return len(args) == 0 || len(args) == 1 && args[0] != "-a" && args[0][:min(1, len(args[0]))] == "-" || len(args) == 2 && args[0] == "-t"
		}),
	}
	// Links to these two names may be older than the image's ping, or than this program.
	always := func([]string) bool { return true }
	all["ping"] = unavailable("ping", "this node has no ping: install the package iputils-ping; nodes of the image host have what is installed on the host", always)
	all["patchbay-linktest"] = unavailable("patchbay-linktest", "use ping, and iperf3 -s in one node and iperf3 -c NAME in the other one; on the host, patchbay-local linktest measures links", nil)
	for _, name := range []string{"reboot", "shutdown", "poweroff", "halt"} {
		all[name] = unavailable(name, restart, nil)
	}
	return all
}

// Commands returns the names of the commands that every node has.
func Commands() []string {
	all := nodeCommands()
	delete(all, SudoName)
	return slices.Collect(maps.Keys(all))
}

// RunCommand runs the node command with that name and exits. It returns if there is none.
func RunCommand(name string, args []string) {
	c, ok := nodeCommands()[name]
	if !ok {
		return
	}
	if err := c(args, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// unavailable returns a command that fails with reason. If isImageCommand is not nil
// and accepts the arguments, the command first tries to run the image's own program of
// that name.
func unavailable(name, reason string, isImageCommand func(args []string) bool) nodeCommand {
	return func(args []string, _ io.Writer) error {
		if isImageCommand != nil && isImageCommand(args) {
			execImageProgram(name, args)
		}
		return errors.New(reason)
	}
}

// execImageProgram returns only if the image has no such program.
func execImageProgram(name string, args []string) {
	for _, dir := range []string{"/usr/bin/", "/bin/", "/usr/sbin/", "/sbin/"} {
		syscall.Exec(dir+name, append([]string{name}, args...), os.Environ())
	}
}

// nproc prints how many processors the node may use, rounded up. With options, or if the limit is unknown,
// it runs the image's own nproc.
func nproc(args []string, out io.Writer) error {
	text, err := readFile(LimitsFile, fileLimit)
	var l Limits
	if err == nil {
		err = json.Unmarshal(text, &l)
	}
	if len(args) > 0 || err != nil || l.CPUs <= 0 {
		execImageProgram("nproc", args)
		if len(args) > 0 {
			return errors.New("this nproc has no options, and the image has no other one")
		}
		return errors.New("the number of processors that this node may use is unknown")
	}
	_, err = fmt.Fprintln(out, int(math.Ceil(l.CPUs)))
	return err
}

// freeTime is how long the command free waits for an answer of the testbed, which may be
// restarting.
const freeTime = 3 * time.Second

// free prints the node's memory in the format of procps' free.
func free(args []string, out io.Writer) error {
	units := map[string]int64{"-b": 1, "--bytes": 1, "-k": 1 << 10, "--kibi": 1 << 10, "-m": 1 << 20, "--mebi": 1 << 20, "-g": 1 << 30, "--gibi": 1 << 30, "-h": 0, "--human": 0}
	unit := int64(1 << 10)
	for _, word := range args {
		n, ok := units[word]
		if !ok {
			return errors.New("usage: free [-b|-k|-m|-g|-h]; this is the testbed's free, which shows this node's memory")
		}
		unit = n
	}
	var text bytes.Buffer
	if err := askGeni(GeniSocket, []string{"usage"}, &text, freeTime); err != nil {
		return err
	}
	var u Usage
	if err := json.Unmarshal(text.Bytes(), &u); err != nil {
		return errors.New("the testbed's answer is not understood")
	}
	return u.print(out, unit)
}

// print expects the unit in bytes; 0 means the largest unit that fits each number.
func (u Usage) print(out io.Writer, unit int64) error {
	total, files := u.Memory, min(u.MemoryFiles, u.MemoryUsed)
	left := max(total-u.MemoryUsed, 0)
	var b strings.Builder
	fmt.Fprintf(&b, "%8s%12s%12s%12s%12s%12s%12s\n%-8s", "", "total", "used", "free", "shared", "buff/cache", "available", "Mem:")
	for _, n := range []int64{total, u.MemoryUsed - files, left, 0, files, left + files} {
		fmt.Fprintf(&b, "%12s", inUnit(n, unit))
	}
	fmt.Fprintf(&b, "\n%-8s%12s%12s%12s\n", "Swap:", inUnit(0, unit), inUnit(0, unit), inUnit(0, unit))
	_, err := io.WriteString(out, b.String())
	return err
}

// inUnit formats n bytes in a unit. If unit is 0, it chooses the largest one that fits, and appends its name.
func inUnit(n, unit int64) string {
	if unit > 0 {
		return strconv.FormatInt(n/unit, 10)
	}
	letters := "BKMGT"
	v := float64(n)
	for v >= 1024 && len(letters) > 1 {
		v, letters = v/1024, letters[1:]
	}
	switch {
	case letters[0] == 'B':
		return fmt.Sprintf("%dB", n)
	case v < 10:
		return fmt.Sprintf("%.1f%ci", v, letters[0])
	}
	return fmt.Sprintf("%.0f%ci", v, letters[0])
}
