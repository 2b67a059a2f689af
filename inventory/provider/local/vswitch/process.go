package vswitch

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"patchbay/inventory/provider/fdsocket"
	"patchbay/inventory/provider/supervisor"
)

var backoff = supervisor.Backoff{First: 100 * time.Millisecond, Longest: 5 * time.Second, Settled: 10 * time.Second}

type process struct {
	*supervisor.Process
	sent map[string]map[*os.File]bool // devices that the process has received, by link

	asking sync.Mutex // guards the fields below; held until an order has its reply
	conn   *fdsocket.Conn
	begun  bool // orderBegin was sent
}

// end kills the process and waits for its end.
func (p *process) end() {
	p.Kill()
	<-p.Exited()
}

// refusedError means that a switch process has refused an order, and continues to run.
type refusedError struct{ reason string }

func (e *refusedError) Error() string { return "the vswitch: " + e.reason }

// sendOrder waits for the reply. If the process hangs, the heartbeat kills it, and sendOrder
// returns an error.
func (p *process) sendOrder(o order, files ...*os.File) (reply, error) {
	p.asking.Lock()
	defer p.asking.Unlock()
	p.begun = p.begun || o.Kind == orderBegin
	return p.sendOrderLocked(o, files...)
}

// ping waits for the reply or for the end of the process. It does nothing before orderBegin.
func (p *process) ping() {
	p.asking.Lock()
	defer p.asking.Unlock()
	if p.begun {
		_, _ = p.sendOrderLocked(order{Kind: orderPing}) // watch notices if the process ends
	}
}

// sendOrderLocked must be called with the lock asking held.
func (p *process) sendOrderLocked(o order, files ...*os.File) (reply, error) {
	var a reply
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

// setLink adds or changes a link in the process. It sends the open devices before the plan, and omits devices
// that the process already has.
func (p *process) setLink(id string, l *servedLink) error {
	missing := slices.DeleteFunc(slices.Clone(l.ports), func(port servedPort) bool { return p.sent[id][port.file] })
	for some := range slices.Chunk(missing, fdsocket.MaxFiles) {
		var names []string
		var files []*os.File
		for _, port := range some {
			names, files = append(names, port.id), append(files, port.file)
		}
		if _, err := p.sendOrder(order{Kind: orderPorts, Link: id, Ports: names}, files...); err != nil {
			return err
		}
	}
	if _, err := p.sendOrder(order{Kind: orderSet, Link: id, Plan: l.plan}); err != nil {
		return err
	}
	p.sent[id] = make(map[*os.File]bool)
	for _, port := range l.ports {
		p.sent[id][port.file] = true
	}
	return nil
}

// sendLink sends a link to the process. If none runs, it starts one with all links. It makes several attempts
// if processes die. The caller holds the lock.
func (k *Manager) sendLink(id string) error {
	var err error
	for range attempts {
		if k.process == nil || !k.process.IsRunning() {
			if err = k.start(); err == nil {
				return nil
			}
			continue
		}
		if err = k.process.setLink(id, k.links[id]); err == nil {
			return nil
		}
		if _, refused := errors.AsType[*refusedError](err); refused {
			return err
		}
		k.process.end()
	}
	return err
}

// start must be called with the lock held.
func (k *Manager) start() error {
	p, err := k.spawn()
	if err != nil {
		return fmt.Errorf("the vswitch does not start: %w", err)
	}
	if err = k.sendAll(p); err != nil {
		p.end()
		return fmt.Errorf("the vswitch does not start: %w", err)
	}
	k.process = p
	go k.watch(p)
	return nil
}

// spawn starts a process without links.
func (k *Manager) spawn() (*process, error) {
	ours, theirs, err := fdsocket.Pair()
	if err != nil {
		return nil, err
	}
	child, err := supervisor.Start(supervisor.Command{
		Path: k.options.Program, Args: []string{Argv0}, Env: []string{}, Files: []*os.File{theirs},
		Log: func(line []byte) { k.options.Log.Error("vswitch: " + string(line)) }, LinesPerSecond: maxLines,
		// Signals from the terminal of "up" must not reach the process.
		Attr: syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	go func() {
		<-child.Exited()
		ours.Close() // ends a sendOrder that waits
	}()
	p := &process{Process: child, conn: ours, sent: make(map[string]map[*os.File]bool)}
	go supervisor.DefaultHeartbeat.Watch(child.Exited(), p.ping, func(hangs bool) {
		if hangs {
			k.options.Log.Error("the vswitch does not answer; it is killed", "pid", p.PID())
			p.Kill()
		}
	})
	return p, nil
}

// sendAll limits a new process, and sends it all links.
func (k *Manager) sendAll(p *process) error {
	if k.options.SetLimits != nil {
		if err := k.options.SetLimits(p.PID()); err != nil {
			return err
		}
	}
	if _, err := p.sendOrder(order{Kind: orderBegin, UID: int(k.options.UID)}); err != nil {
		return err
	}
	for id, l := range k.links {
		k.reopen(id, l)
		if err := p.setLink(id, l); err != nil {
			return fmt.Errorf("link %s: %w", id, err)
		}
	}
	return nil
}

// reopen opens the deleted devices of a link again. A port whose device cannot be opened has no
// traffic, but other ports work.
func (k *Manager) reopen(id string, l *servedLink) {
	for i := range l.ports {
		p := &l.ports[i]
		old := p.file
		if _, err := p.openDevice(); err != nil {
			k.options.Log.Error("a port of the vswitch has lost its device", "link", id, "error", err)
		}
		if p.file != old {
			old.Close()
		}
	}
}

// watch waits for the end of a process. If the Manager still has links, it then starts a new
// process, and retries until one starts.
func (k *Manager) watch(p *process) {
	cause := p.Wait()
	for lived := p.RunTime(); ; lived = 0 {
		k.turn <- struct{}{}
		if k.process != p || len(k.links) == 0 {
			k.unlock()
			return
		}
		pause := k.backoff.Next(lived)
		k.unlock()
		k.options.Log.Error("the vswitch died and is started again", "error", cause, "pause", pause)
		select {
		case <-time.After(pause):
		case <-k.closing:
			return
		}
		k.turn <- struct{}{}
		if k.process == p && len(k.links) > 0 {
			cause = k.start()
		}
		k.unlock()
	}
}

// stop ends the process and calls Options.Ended. It must be called without links, with the lock
// held.
func (k *Manager) stop() {
	if p := k.process; p != nil {
		k.process = nil
		p.end()
	}
	if k.options.Ended != nil {
		k.options.Ended()
	}
}

// maxLines is how many lines per second of the process's output are logged.
const maxLines = 20
