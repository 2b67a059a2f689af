package vswitch

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"patchbay/inventory/local/fdsocket"
	"patchbay/inventory/local/supervisor"
)

// backoff are the pauses before a relay that died is replaced.
var backoff = supervisor.Backoff{First: 100 * time.Millisecond, Longest: 5 * time.Second, Settled: 10 * time.Second}

// process is one relay process.
type process struct {
	*supervisor.Process
	has map[string]map[*os.File]bool // devices that it was given, by link

	asking sync.Mutex // guards what follows; held until an order is answered
	conn   *fdsocket.Conn
	begun  bool // it was told to begin
}

// end kills the process and waits for its end.
func (p *process) end() {
	p.Kill()
	<-p.Exited()
}

// refusedError is what a relay says against an order. It goes on.
type refusedError struct{ reason string }

func (e *refusedError) Error() string { return "the relay: " + e.reason }

// ask gives an order and waits for the answer. A relay that gives none hangs, which
// the heartbeat notices: then it is killed, and the waiting ends with an error.
func (p *process) ask(o order, files ...*os.File) (answer, error) {
	p.asking.Lock()
	defer p.asking.Unlock()
	p.begun = p.begun || o.Kind == orderBegin
	return p.exchange(o, files...)
}

// ping waits until the relay has answered a ping, or has ended. Before its first
// order, which is another, it does nothing.
func (p *process) ping() {
	p.asking.Lock()
	defer p.asking.Unlock()
	if p.begun {
		_, _ = p.exchange(order{Kind: orderPing}) // its end is noticed elsewhere
	}
}

// exchange is ask for who holds the lock.
func (p *process) exchange(o order, files ...*os.File) (answer, error) {
	var a answer
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
	missing := slices.DeleteFunc(slices.Clone(l.ports), func(port keptPort) bool { return p.has[id][port.file] })
	for some := range slices.Chunk(missing, fdsocket.MaxFiles) {
		var names []string
		var files []*os.File
		for _, port := range some {
			names, files = append(names, port.id), append(files, port.file)
		}
		if _, err := p.ask(order{Kind: orderPorts, Link: id, Ports: names}, files...); err != nil {
			return err
		}
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

// tell has a relay make a link that is among the Manager's: one that runs is told
// of it, and one that is started is told of all. The turn is the caller's.
func (k *Manager) tell(id string) error {
	var err error
	for range attempts {
		if k.now == nil || !k.now.IsRunning() {
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
		k.now.end()
	}
	return err
}

// start starts a relay with all links. The turn is the caller's.
func (k *Manager) start() error {
	p, err := k.spawn()
	if err != nil {
		return fmt.Errorf("the relay does not start: %w", err)
	}
	if err = k.fill(p); err != nil {
		p.end()
		return fmt.Errorf("the relay does not start: %w", err)
	}
	k.now = p
	go k.watch(p)
	return nil
}

// spawn starts a process that knows nothing.
func (k *Manager) spawn() (*process, error) {
	ours, theirs, err := fdsocket.Pair()
	if err != nil {
		return nil, err
	}
	child, err := supervisor.Start(supervisor.Command{
		Path: k.o.Program, Args: []string{Argv0}, Env: []string{}, Files: []*os.File{theirs},
		Log: func(line []byte) { k.o.Log.Error("relay: " + string(line)) }, LinesPerSecond: maxLines,
		// What the terminal of "up" sends is not for it.
		Attr: syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	go func() {
		<-child.Exited()
		ours.Close() // ends an ask that waits
	}()
	p := &process{Process: child, conn: ours, has: make(map[string]map[*os.File]bool)}
	go supervisor.DefaultHeartbeat.Watch(child.Exited(), p.ping, func(hangs bool) {
		if hangs {
			k.o.Log.Error("the relay hangs: it does not answer and is killed", "pid", p.PID())
			p.Kill()
		}
	})
	return p, nil
}

// fill tells a new process all that the Manager knows.
func (k *Manager) fill(p *process) error {
	if k.o.SetLimits != nil {
		if err := k.o.SetLimits(p.PID()); err != nil {
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
func (k *Manager) reopen(id string, l *kept) {
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
func (k *Manager) watch(p *process) {
	cause := p.Wait()
	for lived := p.RunTime(); ; lived = 0 {
		k.turn <- struct{}{}
		if k.now != p || len(k.links) == 0 {
			k.leave()
			return
		}
		pause := k.backoff.Next(lived)
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
func (k *Manager) stop() {
	if p := k.now; p != nil {
		k.now = nil
		p.end()
	}
	if k.o.Ended != nil {
		k.o.Ended()
	}
}

// maxLines is how many lines a second of the relay's are logged.
const maxLines = 20
