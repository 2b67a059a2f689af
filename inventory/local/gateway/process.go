package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"patchbay/inventory/local/fdsocket"
	"patchbay/inventory/local/supervisor"
)

// giveTime is how long the Manager waits for a connection that the gateway asked for.
const giveTime = 5 * time.Second

// backoff are the pauses before a gateway that died is replaced.
var backoff = supervisor.Backoff{First: 50 * time.Millisecond, Longest: 5 * time.Second, Settled: 10 * time.Second}

// process is one gateway process, and the orders it has not answered.
type process struct {
	ready    chan struct{} // closed when it has all endpoints
	dead     chan struct{} // closed when it takes no orders any more; then err says why
	replaced chan struct{} // closed when the next one is the Manager's now
	err      error
	spared   atomic.Bool // its sessions may go on

	mu      sync.Mutex
	child   *supervisor.Process // nil until it is started
	out     *sender             // nil until it is told of the endpoints
	number  uint64
	waiting map[uint64]*answer
	reason  error // why it was killed
}

// answer is what an order waits for.
type answer struct {
	from *process
	done chan struct{}
	err  error // once done is closed
}

func newProcess() *process {
	return &process{
		ready: make(chan struct{}), dead: make(chan struct{}),
		replaced: make(chan struct{}), waiting: make(map[uint64]*answer),
	}
}

// run keeps a gateway alive until the Manager is closed.
func (k *Manager) run() {
	defer close(k.stopped)
	p := k.now
	backoff.Run(k.closing, func() error {
		p.err = k.live(p)
		close(p.dead)
		return p.err
	}, func(err error, pause time.Duration) bool {
		old, next := p, newProcess()
		k.mu.Lock()
		closed := k.closed
		if !closed {
			p, k.now = next, next
		}
		k.mu.Unlock()
		if closed {
			return false
		}
		close(old.replaced)
		k.o.Log.Error("the gateway died and is started again", "error", err, "pause", pause)
		return true
	})
	select {
	case <-p.dead:
	default:
		close(p.dead) // it was never started
	}
}

// live starts p and serves it until it ends or the Manager is closed.
func (k *Manager) live(p *process) error {
	ours, theirs, err := fdsocket.Pair()
	if err != nil {
		return err
	}
	defer ours.Close()
	child, err := supervisor.Start(supervisor.Command{
		Path: k.o.Program, Args: []string{Argv0}, Files: []*os.File{theirs}, Log: k.retell, LinesPerSecond: maxLines,
		Env: []string{},
		// What the terminal of "up" sends is not for it.
		Attr: syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.child = child
	p.mu.Unlock()
	if k.o.SetLimits != nil {
		err = k.o.SetLimits(child.PID())
	}
	if err == nil {
		stop := make(chan struct{})
		go func() { // closing ends the receiving below
			select {
			case <-k.closing:
				ours.Close()
			case <-stop:
			}
		}()
		go k.restore(p, ours)
		err = k.receive(p, ours)
		close(stop)
	}
	ours.Close()
	select {
	case <-k.closing:
		return ErrClosed // it ends with its last session, unless end kills it
	default:
	}
	child.Kill()
	how := child.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.reason != nil:
		return p.reason
	case how != nil && errors.Is(err, io.EOF):
		return how
	}
	return err
}

// started is the process if it was started, nil otherwise.
func (p *process) started() *supervisor.Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.child
}

// errSilent says that a gateway did not do what it was told to in time.
var errSilent = errors.New("the gateway does not answer")

// fail ends a process that does not do its work, for a reason or nil; one that
// was told to end with its sessions has none.
func (p *process) fail(reason error) {
	if p.spared.Load() {
		return
	}
	p.mu.Lock()
	if p.reason == nil {
		p.reason = reason
	}
	child := p.child
	p.mu.Unlock()
	if child != nil {
		child.Kill()
	}
}

// restore tells a new gateway all that the Manager knows.
func (k *Manager) restore(p *process, c *fdsocket.Conn) {
	begin := order{Kind: orderBegin, Begin: &beginning{k.o.UID, k.o.GID, k.o.HostKey}}
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		return
	}
	p.mu.Lock()
	p.out = &sender{c: c}
	p.mu.Unlock()
	answers := []*answer{p.order(begin, k.o.Gateway)}
	go supervisor.DefaultHeartbeat.Watch(p.dead, p.ping, func(hangs bool) {
		if hangs {
			k.o.Log.Error("the gateway hangs: it does not answer and is killed; sessions that were open end")
			p.fail(errSilent)
		}
	})
	for slice, at := range k.peers {
		answers = append(answers, p.order(order{Kind: orderPeers, Slice: slice, Peers: at}))
	}
	for _, d := range k.endpoints {
		answers = append(answers, p.put(d, nil))
	}
	k.mu.Unlock()
	for i, a := range answers {
		select {
		case <-a.done:
		case <-p.dead:
			return
		}
		switch {
		case a.err != nil && i == 0:
			p.fail(a.err)
			return
		case a.err != nil:
			k.o.Log.Error("the gateway cannot be told of an endpoint", "error", a.err)
		}
	}
	close(p.ready)
}

// put orders an endpoint to be set; old is the one that the gateway has.
func (p *process) put(d, old *servedEndpoint) *answer {
	if old == nil {
		old = &servedEndpoint{}
	}
	o := order{Kind: orderPut, Endpoint: &d.endpoint}
	var files []net.Listener
	plan := func(l, was net.Listener) string {
		switch {
		case l == nil:
			return listenNone
		case l == was:
			return listenSame
		}
		files = append(files, l)
		return listenNew
	}
	o.Public = plan(d.public, old.public)
	o.Inside = plan(d.inside, old.inside)
	return p.order(o, files...)
}

// order sends an order with listeners. Before the gateway was told of the endpoints
// nothing is sent, for it will be told; the answer is then that it was. What
// changes the endpoints is ordered with the Manager's lock held.
func (p *process) order(o order, listeners ...net.Listener) *answer {
	p.mu.Lock()
	if p.out == nil {
		p.mu.Unlock()
		return &answer{from: p, done: p.ready}
	}
	p.number++
	o.Number = p.number
	a := &answer{from: p, done: make(chan struct{})}
	p.waiting[o.Number] = a
	p.mu.Unlock()
	var files []*os.File
	defer func() { closeFiles(files) }()
	for _, l := range listeners {
		if l == nil {
			continue
		}
		f, err := l.(filer).File()
		if err != nil {
			p.answered(o.Number, fmt.Errorf("a listener cannot be given to the gateway: %w", err))
			return a
		}
		files = append(files, f)
	}
	p.send(o, files...)
	return a
}

// ping waits until the gateway has answered a ping, or takes no orders any more.
func (p *process) ping() {
	a := p.order(order{Kind: orderPing})
	select {
	case <-a.done:
	case <-p.dead:
	}
}

// send sends an order. A gateway that does not take it hangs, which the heartbeat
// notices; one that is gone is noticed where its words are received.
func (p *process) send(o order, files ...*os.File) {
	if p.out.send(o, files...) != nil {
		p.fail(nil)
	}
}

// answered passes on the answer to an order.
func (p *process) answered(number uint64, err error) {
	p.mu.Lock()
	a := p.waiting[number]
	delete(p.waiting, number)
	p.mu.Unlock()
	if a != nil {
		a.err = err
		close(a.done)
	}
}

// filer is what can be given to another process.
type filer interface{ File() (*os.File, error) }

// receive hears what the gateway says. It is not trusted.
func (k *Manager) receive(p *process, c *fdsocket.Conn) error {
	asks := make(chan struct{}, 2*maxAsks)
	for {
		var w word
		if _, err := c.Receive(&w, maxWord, 0); err != nil {
			return err
		}
		switch w.Kind {
		case wordDone:
			var err error
			if w.Error != "" {
				err = errors.New(w.Error)
			}
			p.answered(w.Number, err)
		case wordAgent, wordEndpoint:
			select {
			case asks <- struct{}{}:
			default:
				return errors.New("it asked for too much at the same time")
			}
			go func() {
				defer func() { <-asks }()
				k.give(p, w)
			}()
		default:
			return fmt.Errorf("it said %.20q, which means nothing", w.Kind)
		}
	}
}

// give answers an ask with a connection.
func (k *Manager) give(p *process, w word) {
	ctx, cancel := context.WithTimeout(context.Background(), giveTime)
	defer cancel()
	o := order{Number: w.Number, Kind: orderGiven}
	f, err := k.connect(ctx, w.Kind, w.Node)
	if err != nil {
		if k.warnings.may() {
			k.o.Log.Warn("no connection for the gateway", "kind", w.Kind, "node", w.Node, "error", err)
		}
		o.Error = err.Error()
		p.send(o)
		return
	}
	defer f.Close()
	p.send(o, f)
}

// connect makes a connection: to a node's agent or Address, or to its endpoint.
// Nodes without an endpoint do not exist for the gateway.
func (k *Manager) connect(ctx context.Context, kind, node string) (*os.File, error) {
	k.mu.Lock()
	d := k.endpoints[node]
	k.mu.Unlock()
	var address string
	switch {
	case d == nil:
		return nil, errors.New("the node has no endpoint")
	case kind == wordEndpoint && d.public != nil:
		address = d.public.Addr().String()
	case kind == wordEndpoint:
		return nil, errors.New("the node has no public endpoint")
	case d.endpoint.Address != "":
		address = d.endpoint.Address
	default:
		c, err := k.o.DialAgent(ctx, node)
		if err != nil {
			return nil, err
		}
		defer c.Close()
		return c.File()
	}
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.(*net.TCPConn).File()
}
