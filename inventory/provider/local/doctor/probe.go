package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// child is the process of a probe. The probe begins when the parent calls wait. The child
// is killed when its parent ends.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out strings.Builder
	err strings.Builder
}

// start starts a process for the probe args[0], with the rest of args as arguments. The
// probe begins when the caller calls wait.
func start(ctx context.Context, attr *syscall.SysProcAttr, files []*os.File, args ...string) (*child, error) {
	c := &child{cmd: exec.CommandContext(ctx, "/proc/self/exe")}
	c.cmd.Args = append([]string{Argv0}, args...)
	c.cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	c.cmd.Dir = "/"
	c.cmd.ExtraFiles = files
	c.cmd.Stdout, c.cmd.Stderr = &c.out, &c.err
	c.cmd.WaitDelay = time.Second
	attr.Pdeathsig = syscall.SIGKILL
	c.cmd.SysProcAttr = attr
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	c.in = in
	return c, c.cmd.Start()
}

// wait lets the probe begin and returns its answer. An error means that the probe
// failed without an answer.
func (c *child) wait() (words string, t *trouble, err error) {
	c.in.Write([]byte{'\n'})
	defer c.in.Close()
	if err := c.cmd.Wait(); err != nil {
		return "", nil, fmt.Errorf("%w: %.300s", err, strings.TrimSpace(c.err.String()))
	}
	var a answer
	if err := json.Unmarshal([]byte(c.out.String()), &a); err != nil {
		return "", nil, fmt.Errorf("a probe wrote %.100q instead of its result; check whether this program is patchbay-local", c.out.String())
	}
	return a.Words, a.Trouble, nil
}

// answer is the standard output of a probe.
type answer struct {
	Words   string
	Trouble *trouble
}

// probe runs the probe args[0] in a child with the attributes attr, and returns its result. It keeps its
// goroutine on one thread, because the kernel kills the child when the thread that started it ends.
func probe(caller context.Context, attr *syscall.SysProcAttr, files []*os.File, args ...string) (string, *trouble) {
	ctx, cancel := context.WithTimeout(caller, patience)
	defer cancel()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c, err := start(ctx, attr, files, args...)
	if err != nil {
		return "", &trouble{fmt.Sprintf("cannot start a process for it: %v", err), container}
	}
	words, t, err := c.wait()
	switch {
	case caller.Err() != nil:
		return "", &trouble{"the examination was stopped", "run it again, and do not interrupt it"}
	case ctx.Err() != nil:
		return "", tooLate()
	case err != nil:
		return "", &trouble{err.Error(), container}
	}
	return words, t
}

func tooLate() *trouble {
	return &trouble{fmt.Sprintf("it did not end within %v", patience), "find out what keeps this host busy: top"}
}

// container is the remedy for a failure whose cause may be that this host is a
// container with limited rights.
const container = "if this host is a container, give it all rights (docker run --privileged --cgroupns=host), or use a host of its own"

// ChildMain is the main function of the children of an examination. It does not return.
func ChildMain() {
	runtime.LockOSThread()
	var begin [1]byte
	if _, err := os.Stdin.Read(begin[:]); err != nil || len(os.Args) < 2 {
		os.Exit(1) // the parent has ended
	}
	p, ok := probes()[os.Args[1]]
	if !ok {
		os.Exit(1)
	}
	var a answer
	a.Words, a.Trouble = p(os.Args[2:])
	json.NewEncoder(os.Stdout).Encode(a)
	os.Exit(0)
}

// probes returns the functions that children run, by name. It builds the map on demand, because a package
// variable would use memory in every node.
func probes() map[string]func([]string) (string, *trouble) {
	return map[string]func([]string) (string, *trouble){
		"namespaces": probeNamespaces,
		"hold":       probeHold,
		"eat":        probeEat,
		"fork":       probeFork,
		"spin":       probeSpin,
		"overlay":    probeOverlay,
		"disk":       probeDisk,
		"separation": probeSeparation,
		"links":      probeLinks,
		"tunnel":     probeTunnel,
		"outside":    probeOutside,
		"capacity": probeMechanism("tbf", "the kernel can limit the capacity of links", "modprobe sch_tbf",
			"without it requests that ask for a capacity are refused"),
		"delay": probeMechanism("netem", "the kernel can delay and lose the packets of links", "modprobe sch_netem",
			"without it a switch process does it over tunnel devices, as exactly, with more processor time"),
		"storms": probeMechanism("inflow", "nftables can limit broadcast storms in loops of links", "modprobe nf_tables nf_tables_bridge nft_limit",
			"without it a node with two links can use up the host's processors"),
	}
}

// probeHold keeps its namespaces until the parent closes its input.
func probeHold([]string) (string, *trouble) {
	io.Copy(io.Discard, os.Stdin)
	return "", nil
}

func failedTo(step string, err error, remedy string) *trouble {
	return &trouble{fmt.Sprintf("cannot %s: %v", step, err), remedy}
}

// forbidden reports whether an error means missing permissions, and not a missing feature.
func forbidden(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES)
}
