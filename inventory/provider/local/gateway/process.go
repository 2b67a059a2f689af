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

	"patchbay/inventory/provider/fdsocket"
	"patchbay/inventory/provider/supervisor"
)

// connectTime limits the time to open a connection that the gateway has requested.
const connectTime = 5 * time.Second

// backoff sets the pause between the end of a gateway process and the next start.
var backoff = supervisor.Backoff{First: 50 * time.Millisecond, Longest: 5 * time.Second, Settled: 10 * time.Second}

// process is one gateway process, with the orders that it has not replied to.
type process struct {
	ready        chan struct{} // closed when it has received all endpoints
	dead         chan struct{} // closed after err is set, when the process accepts no more orders
	replaced     chan struct{} // closed when its successor is Manager.current
	err          error
	keepSessions atomic.Bool // set when the Manager closes: sessions may continue

	mu      sync.Mutex
	child   *supervisor.Process // nil until it is started
	out     *sender             // nil until it has received the endpoints
	number  uint64
	waiting map[uint64]*pendingReply
	reason  error // why it was killed
}

type pendingReply struct {
	from *process
	done chan struct{}
	err  error // valid once done is closed
}

func newProcess() *process {
	return &process{
		ready: make(chan struct{}), dead: make(chan struct{}),
		replaced: make(chan struct{}), waiting: make(map[uint64]*pendingReply),
	}
}

// run keeps a gateway process running until the Manager closes. Each new process has all endpoints.
func (k *Manager) run() {
	defer close(k.stopped)
	p := k.current
	backoff.Run(k.closing, func() error {
		p.err = k.serve(p)
		close(p.dead)
		return p.err
	}, func(err error, pause time.Duration) bool {
		old, next := p, newProcess()
		k.mu.Lock()
		closed := k.closed
		if !closed {
			p, k.current = next, next
		}
		k.mu.Unlock()
		if closed {
			return false
		}
		close(old.replaced)
		k.options.Log.Error("the gateway died and is started again", "error", err, "pause", pause)
		return true
	})
	select {
	case <-p.dead:
	default:
		close(p.dead) // p was never started
	}
}

// serve starts the gateway process of p, sends it the present state, and handles its messages until it ends.
// It returns the reason for the end, or ErrClosed.
func (k *Manager) serve(p *process) error {
	ours, theirs, err := fdsocket.Pair()
	if err != nil {
		return err
	}
	defer ours.Close()
	child, err := supervisor.Start(supervisor.Command{
		Path: k.options.Program, Args: []string{Argv0}, Files: []*os.File{theirs}, Log: k.logLine, LinesPerSecond: maxLines,
		Env: []string{},
		// Signals from the terminal of "up" must not reach the gateway.
		Attr: syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.child = child
	p.mu.Unlock()
	if k.options.SetLimits != nil {
		err = k.options.SetLimits(child.PID())
	}
	if err == nil {
		stop := make(chan struct{})
		go func() { // ours.Close makes receiveMessages return
			select {
			case <-k.closing:
				ours.Close()
			case <-stop:
			}
		}()
		go k.sendState(p, ours)
		err = k.receiveMessages(p, ours)
		close(stop)
	}
	ours.Close()
	select {
	case <-k.closing:
		return ErrClosed // the process exits after its last session, unless the function end kills it earlier
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

// started returns nil if the child process was not started.
func (p *process) started() *supervisor.Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.child
}

var errSilent = errors.New("the gateway does not answer")

// fail kills the process. After the Manager has closed, it does nothing if the sessions of
// the process may continue.
func (p *process) fail(reason error) {
	if p.keepSessions.Load() {
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

// sendState sends the first order, all peers and all endpoints. When the gateway has
// replied to all, sendState closes p.ready.
func (k *Manager) sendState(p *process, c *fdsocket.Conn) {
	begin := order{Kind: orderBegin, Begin: &beginning{k.options.UID, k.options.GID, k.options.HostKey}}
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		return
	}
	p.mu.Lock()
	p.out = &sender{c: c}
	p.mu.Unlock()
	answers := []*pendingReply{p.sendOrder(begin, k.options.Gateway)}
	go supervisor.DefaultHeartbeat.Watch(p.dead, p.ping, func(hangs bool) {
		if hangs {
			k.options.Log.Error("the gateway does not answer; it is killed, and its open sessions end")
			p.fail(errSilent)
		}
	})
	for slice, at := range k.peers {
		answers = append(answers, p.sendOrder(order{Kind: orderPeers, Slice: slice, Peers: at}))
	}
	for _, d := range k.endpoints {
		answers = append(answers, p.sendEndpoint(d, nil))
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
			k.options.Log.Error("cannot send an endpoint to the gateway", "error", a.err)
		}
	}
	close(p.ready)
}

// sendEndpoint sends the order to set the endpoint d. present is the endpoint that the gateway has, or nil;
// listeners that are also in present are not sent.
func (p *process) sendEndpoint(d, present *servedEndpoint) *pendingReply {
	if present == nil {
		present = &servedEndpoint{}
	}
	o := order{Kind: orderSet, Endpoint: &d.endpoint}
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
	o.Public = plan(d.public, present.public)
	o.Inside = plan(d.inside, present.inside)
	return p.sendOrder(o, files...)
}

// sendOrder sends an order with listeners, and returns the reply, for which the caller may wait. It sends
// nothing before sendState has begun, because sendState will include the change. In that case the returned
// reply arrives when p is ready. If the order changes endpoints, the caller holds the Manager's lock.
func (p *process) sendOrder(o order, listeners ...net.Listener) *pendingReply {
	p.mu.Lock()
	if p.out == nil {
		p.mu.Unlock()
		return &pendingReply{from: p, done: p.ready}
	}
	p.number++
	o.Number = p.number
	a := &pendingReply{from: p, done: make(chan struct{})}
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
			p.completeOrder(o.Number, fmt.Errorf("cannot send a listener to the gateway: %w", err))
			return a
		}
		files = append(files, f)
	}
	p.send(o, files...)
	return a
}

// ping waits until the gateway has replied or accepts no more orders.
func (p *process) ping() {
	a := p.sendOrder(order{Kind: orderPing})
	select {
	case <-a.done:
	case <-p.dead:
	}
}

// send kills the gateway process after an error, so that serve ends.
func (p *process) send(o order, files ...*os.File) {
	if p.out.send(o, files...) != nil {
		p.fail(nil)
	}
}

func (p *process) completeOrder(number uint64, err error) {
	p.mu.Lock()
	a := p.waiting[number]
	delete(p.waiting, number)
	p.mu.Unlock()
	if a != nil {
		a.err = err
		close(a.done)
	}
}

// filer is a listener whose file can be sent to another process.
type filer interface{ File() (*os.File, error) }

// receiveMessages handles the messages of the gateway, which is not trusted, until reading fails or a
// message is invalid.
func (k *Manager) receiveMessages(p *process, c *fdsocket.Conn) error {
	asks := make(chan struct{}, 2*maxAsks)
	for {
		var w gatewayMessage
		if _, err := c.Receive(&w, maxGatewayMessage, 0); err != nil {
			return err
		}
		switch w.Kind {
		case replyDone:
			var err error
			if w.Error != "" {
				err = errors.New(w.Error)
			}
			p.completeOrder(w.Number, err)
		case askAgent, askEndpoint:
			select {
			case asks <- struct{}{}:
			default:
				return errors.New("it sent too many requests at the same time")
			}
			go func() {
				defer func() { <-asks }()
				k.sendConnection(p, w)
			}()
		default:
			return fmt.Errorf("unknown message %.20q", w.Kind)
		}
	}
}

// sendConnection answers a gateway's request for a connection.
func (k *Manager) sendConnection(p *process, w gatewayMessage) {
	ctx, cancel := context.WithTimeout(context.Background(), connectTime)
	defer cancel()
	o := order{Number: w.Number, Kind: orderConnection}
	f, err := k.connect(ctx, w.Kind, w.Node)
	if err != nil {
		if k.warnings.allow() {
			k.options.Log.Warn("cannot open a connection for the gateway", "kind", w.Kind, "node", w.Node, "error", err)
		}
		o.Error = err.Error()
		p.send(o)
		return
	}
	defer f.Close()
	p.send(o, f)
}

// connect connects to the node's public endpoint if kind is askEndpoint. Otherwise it
// connects to the node's Address, or to the node's agent if the endpoint has no Address.
// It refuses nodes without an endpoint.
func (k *Manager) connect(ctx context.Context, kind, node string) (*os.File, error) {
	k.mu.Lock()
	d := k.endpoints[node]
	k.mu.Unlock()
	var address string
	switch {
	case d == nil:
		return nil, errors.New("the node has no endpoint")
	case kind == askEndpoint && d.public != nil:
		address = d.public.Addr().String()
	case kind == askEndpoint:
		return nil, errors.New("the node has no public endpoint")
	case d.endpoint.Address != "":
		address = d.endpoint.Address
	default:
		c, err := k.options.DialAgent(ctx, node)
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
