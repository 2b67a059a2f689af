package vswitch

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"patchbay/inventory/provider/fdsocket"
	"patchbay/inventory/provider/local/sandbox"
)

// maxLoops is the maximum number of loops in a process. Each link belongs to one loop, so at
// most that many processors forward frames.
const maxLoops = 4

// Main is the main function of the switch process. It does not return.
func Main() {
	// The process must survive the end of the reader of its standard error (SIGPIPE), and of the
	// terminal of "up" (SIGHUP).
	signal.Ignore(syscall.SIGPIPE, syscall.SIGHUP)
	if err := run(os.NewFile(3, "control"), sandbox.VSwitch); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// switchProcess is used only by the goroutine that receives orders.
type switchProcess struct {
	loops  []*loop
	links  map[string]*servedLAN
	staged map[string]map[string]int // descriptors by link and port
}

type servedLAN struct {
	loop *loop
	lan  *lan
	plan plan
}

// run carries out orders until the Manager ends. The function giveUp drops the rights of the
// process.
func run(control *os.File, giveUp func(uid, gid int) error) error {
	c, err := fdsocket.FromFile(control)
	if err != nil {
		return fmt.Errorf("no connection to the testbed: %w", err)
	}
	var o order
	if _, err := c.Receive(&o, maxOrder, 0); err != nil {
		return err
	}
	r := &switchProcess{links: make(map[string]*servedLAN), staged: make(map[string]map[string]int)}
	err = r.begin(o, giveUp)
	for {
		a := reply{}
		if err != nil {
			a.Error = err.Error()
		} else if o.Kind == orderCount {
			a.Counts = r.count(o.Link)
		}
		if c.Send(a) != nil {
			return nil // the Manager has ended
		}
		o = order{}
		files, broken := c.Receive(&o, maxOrder, fdsocket.MaxFiles)
		if broken != nil {
			return nil
		}
		err = r.execute(o, files)
	}
}

// begin handles the first order: it drops all rights and starts the loops.
func (r *switchProcess) begin(o order, giveUp func(uid, gid int) error) error {
	if o.Kind != orderBegin {
		return errors.New("the first order is not \"begin\"")
	}
	room := newMemoryBudget(maxBytes)
	// A loop that returns from a system call must find a free processor at once.
	n := min(runtime.NumCPU(), maxLoops)
	runtime.GOMAXPROCS(n + 2)
	for range n {
		l, err := newLoop(room)
		if err != nil {
			return err
		}
		r.loops = append(r.loops, l)
	}
	if o.UID != 0 {
		if err := giveUp(o.UID, o.UID); err != nil {
			return err
		}
	}
	for _, l := range r.loops {
		go func() {
			fmt.Fprintln(os.Stderr, l.serve())
			os.Exit(1)
		}()
	}
	return nil
}

// execute carries out an order after the first one. It closes files.
func (r *switchProcess) execute(o order, files []*os.File) error {
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	switch o.Kind {
	case orderPorts:
		return r.stage(o, files)
	case orderSet:
		defer r.unstage(o.Link)
		var p plan
		if err := json.Unmarshal(o.Plan, &p); err != nil {
			return fmt.Errorf("cannot decode a plan: %w", err)
		}
		if err := p.check(); err != nil {
			return err
		}
		return r.setLink(o.Link, p)
	case orderRemove:
		r.unstage(o.Link)
		r.remove(o.Link)
		return nil
	case orderCount:
		if r.links[o.Link] == nil {
			return errors.New("there is no such link")
		}
		return nil
	case orderPing:
		for _, l := range r.loops {
			l.run(func() {})
		}
		return nil
	}
	return fmt.Errorf("unknown order %q", o.Kind)
}

// stage stores devices for the next orderSet of a link. It duplicates the descriptors,
// because the received ones are in the Go runtime's epoll.
func (r *switchProcess) stage(o order, files []*os.File) error {
	if len(files) != len(o.Ports) {
		return fmt.Errorf("received %d devices for %d ports", len(files), len(o.Ports))
	}
	of := r.staged[o.Link]
	if of == nil {
		of = make(map[string]int)
		r.staged[o.Link] = of
	}
	for i, f := range files {
		fd, err := duplicate(f)
		if err != nil {
			return fmt.Errorf("cannot use a device: %w", err)
		}
		if old, ok := of[o.Ports[i]]; ok {
			unix.Close(old)
		}
		of[o.Ports[i]] = fd
	}
	return nil
}

func duplicate(f *os.File) (fd int, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return -1, err
	}
	var inner error
	err = raw.Control(func(old uintptr) { fd, inner = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 3) })
	return fd, errors.Join(err, inner)
}

// unstage closes the staged devices of a link that were not used.
func (r *switchProcess) unstage(link string) {
	for _, fd := range r.staged[link] {
		unix.Close(fd)
	}
	delete(r.staged, link)
}

// setLink adds or changes a link. A port gets its staged device or, without one, keeps its current device.
func (r *switchProcess) setLink(id string, p plan) (err error) {
	w := r.links[id]
	fresh := w == nil
	if fresh {
		w = &servedLAN{loop: r.leastLoaded()}
	}
	staged := r.staged[id]
	w.loop.run(func() {
		if fresh {
			w.lan = w.loop.newLAN()
		}
		had := make(map[string]bool)
		for _, o := range w.lan.ports {
			had[o.id] = true
		}
		for _, n := range p.Ports {
			if _, ok := staged[n.ID]; !ok && !had[n.ID] {
				err = fmt.Errorf("port %s has no device", n.ID)
				return
			}
		}
		w.loop.setLink(w.lan, p, staged)
	})
	if err == nil {
		w.plan = p
		r.links[id] = w
	}
	return err
}

func (r *switchProcess) leastLoaded() *loop {
	ports := make(map[*loop]int)
	for _, w := range r.links {
		ports[w.loop] += 1 + len(w.plan.Ports)
	}
	best := r.loops[0]
	for _, l := range r.loops {
		if ports[l] < ports[best] {
			best = l
		}
	}
	return best
}

// setLink changes lan to the plan p, closes the devices of removed and of replaced ports, and opens the staged
// ones. It removes from staged each descriptor that it uses.
func (l *loop) setLink(lan *lan, p plan, staged map[string]int) {
	before := lan.ports
	lan.configure(p, &l.pool)
	stays := make(map[*port]bool)
	for _, o := range lan.ports {
		stays[o] = true
	}
	for _, o := range before {
		if !stays[o] {
			l.closeDevice(o.device)
		}
	}
	for _, o := range lan.ports {
		fd, ok := staged[o.id]
		if !ok {
			continue
		}
		if o.device != nil {
			l.closeDevice(o.device)
		}
		delete(staged, o.id)
		o.device = l.openDevice(fd, lan, o)
	}
}

func (r *switchProcess) remove(id string) {
	w := r.links[id]
	if w == nil {
		return
	}
	delete(r.links, id)
	w.loop.run(func() {
		w.lan.dropAll()
		for _, o := range w.lan.ports {
			w.loop.closeDevice(o.device)
		}
	})
}

// count returns the counters in the order of the plan's ports.
func (r *switchProcess) count(id string) []Counters {
	w := r.links[id]
	of := make(map[string]Counters)
	w.loop.run(func() {
		for _, o := range w.lan.ports {
			of[o.id] = o.counts
		}
	})
	counts := make([]Counters, len(w.plan.Ports))
	for i, n := range w.plan.Ports {
		counts[i] = of[n.ID]
	}
	return counts
}
