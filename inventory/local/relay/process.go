package relay

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"patchbay/inventory/local/wire"
)

// A relay that died is replaced after a pause, twice as long each time unless it
// had lived for as long as settled.
const (
	settled    = 10 * time.Second
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
)

// process is one relay process.
type process struct {
	cmd      *exec.Cmd
	conn     *wire.Conn
	born     time.Time
	patience time.Duration
	has      map[string]map[*os.File]bool // devices that it was given, by link
	exited   chan struct{}                // closed when it is gone; then how says how
	how      error
}

func (p *process) alive() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

func (p *process) kill() { _ = p.cmd.Process.Kill() } // it may have ended by itself

// refusedError is what a relay says against an order. It goes on.
type refusedError struct{ reason string }

func (e *refusedError) Error() string { return "the relay: " + e.reason }

// ask gives an order and waits for the answer.
func (p *process) ask(o order, files ...*os.File) (answer, error) {
	var a answer
	if err := p.conn.SetDeadline(time.Now().Add(p.patience)); err != nil {
		return a, err
	}
	if err := p.conn.Send(o, files...); err != nil {
		return a, err
	}
	if _, err := p.conn.Receive(&a, maxAnswer, 0); err != nil {
		return a, err
	}
	if a.Error != "" {
		return a, &refusedError{fmt.Sprintf("%.500s", a.Error)}
	}
	return a, nil
}

// put gives the order to make a link, and before it those of its devices that
// the process does not have.
func (p *process) put(id string, l *kept) error {
	var names []string
	var files []*os.File
	give := func() error {
		if len(files) == 0 {
			return nil
		}
		_, err := p.ask(order{Kind: orderPorts, Link: id, Ports: names}, files...)
		names, files = nil, nil
		return err
	}
	for _, port := range l.ports {
		if p.has[id][port.file] {
			continue
		}
		names, files = append(names, port.id), append(files, port.file)
		if len(files) == wire.MaxFiles {
			if err := give(); err != nil {
				return err
			}
		}
	}
	if err := give(); err != nil {
		return err
	}
	if _, err := p.ask(order{Kind: orderPut, Link: id, Plan: l.plan}); err != nil {
		return err
	}
	p.has[id] = make(map[*os.File]bool)
	for _, port := range l.ports {
		p.has[id][port.file] = true
	}
	return nil
}

// tell has a relay make a link that is among the Keeper's: one that runs is told
// of it, and one that is started is told of all. The turn is the caller's.
func (k *Keeper) tell(id string) error {
	var err error
	for range attempts {
		if k.now == nil || !k.now.alive() {
			if err = k.start(); err == nil {
				return nil
			}
			continue
		}
		if err = k.now.put(id, k.links[id]); err == nil {
			return nil
		}
		if _, refused := errors.AsType[*refusedError](err); refused {
			return err
		}
		k.now.kill()
		<-k.now.exited
	}
	return err
}

// start starts a relay with all links. The turn is the caller's.
func (k *Keeper) start() error {
	p, err := k.spawn()
	if err != nil {
		return fmt.Errorf("the relay does not start: %w", err)
	}
	if err = k.fill(p); err != nil {
		p.kill()
		<-p.exited
		return fmt.Errorf("the relay does not start: %w", err)
	}
	k.now = p
	go k.watch(p)
	return nil
}

// spawn starts a process that knows nothing.
func (k *Keeper) spawn() (*process, error) {
	ours, theirs, err := wire.Pair()
	if err != nil {
		return nil, err
	}
	said, stderr, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, ours.Close(), theirs.Close())
	}
	p := &process{
		conn: ours, born: time.Now(), patience: k.patience, has: make(map[string]map[*os.File]bool), exited: make(chan struct{}),
		cmd: &exec.Cmd{
			Path: k.o.Program, Args: []string{Argv0}, Dir: "/", Env: []string{},
			Stderr: stderr, ExtraFiles: []*os.File{theirs},
			// What the terminal of "up" sends is not for it.
			SysProcAttr: &syscall.SysProcAttr{Setsid: true},
		},
	}
	err = p.cmd.Start()
	theirs.Close()
	stderr.Close()
	if err != nil {
		return nil, errors.Join(err, ours.Close(), said.Close())
	}
	go k.retell(said)
	go func() {
		p.how = p.cmd.Wait()
		ours.Close() // ends an ask that waits
		close(p.exited)
	}()
	return p, nil
}

// fill tells a new process all that the Keeper knows.
func (k *Keeper) fill(p *process) error {
	if k.o.Place != nil {
		if err := k.o.Place(p.cmd.Process.Pid); err != nil {
			return err
		}
	}
	if _, err := p.ask(order{Kind: orderBegin, UID: int(k.o.UID)}); err != nil {
		return err
	}
	for id, l := range k.links {
		k.reopen(id, l)
		if err := p.put(id, l); err != nil {
			return fmt.Errorf("link %s: %w", id, err)
		}
	}
	return nil
}

// reopen opens devices again that have gone. One that cannot be opened is a dead
// end, but the others' traffic goes on.
func (k *Keeper) reopen(id string, l *kept) {
	for i := range l.ports {
		p := &l.ports[i]
		old := p.file
		if _, err := p.ready(); err != nil {
			k.o.Log.Error("a port of the relay has lost its device", "link", id, "error", err)
		}
		if p.file != old {
			old.Close()
		}
	}
}

// watch waits for the end of a process, and replaces it while there are links.
func (k *Keeper) watch(p *process) {
	<-p.exited
	cause, lived := p.how, time.Since(p.born)
	for {
		k.turn <- struct{}{}
		if k.now != p || len(k.links) == 0 {
			k.leave()
			return
		}
		if lived > settled {
			k.pause, lived = 0, 0
		}
		k.pause = min(max(firstPause, 2*k.pause), maxPause)
		pause := k.pause
		k.leave()
		k.o.Log.Error("the relay died and is started again", "error", cause, "pause", pause)
		select {
		case <-time.After(pause):
		case <-k.closing:
			return
		}
		k.turn <- struct{}{}
		if k.now == p && len(k.links) > 0 {
			cause = k.start()
		}
		k.leave()
	}
}

// stop ends the process if it runs, for there are no links. The turn is the
// caller's.
func (k *Keeper) stop() {
	if p := k.now; p != nil {
		k.now = nil
		p.kill()
		<-p.exited
	}
	if k.o.Left != nil {
		k.o.Left()
	}
}

// maxLines is how many lines a second of the relay's are logged.
const maxLines = 20

// retell logs what the relay writes to its standard error: why it ends, or the
// text of a panic.
func (k *Keeper) retell(f *os.File) {
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(make([]byte, 0, 1<<10), 64<<10)
	second, n := time.Now(), 0
	for lines.Scan() {
		if time.Since(second) > time.Second {
			second, n = time.Now(), 0
		}
		if n++; n <= maxLines {
			k.o.Log.Error("relay: " + lines.Text())
		}
	}
}
