package gateway

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"sync"

	"patchbay/inventory/local/fdsocket"
)

// Between the Manager and the gateway go orders (down), answers and asks (up),
// over one connection. Every order is answered under its number; every ask is
// answered by an order of the kind "given".

// Most bytes of a message. The way up is narrow: nothing that comes from the
// gateway is long.
const (
	maxOrder = 16 << 20
	maxWord  = 4 << 10
)

// How many asks may be open at the same time, in all and for one node.
const (
	maxAsks     = 256
	maxNodeAsks = 8
)

// The kinds of orders.
const (
	orderBegin  = "begin"
	orderPut    = "put"
	orderPeers  = "peers"
	orderRemove = "remove"
	orderProve  = "prove"
	orderGiven  = "given"
	orderPing   = "ping" // is answered when the gateway's state can be used
)

// What becomes of a listener with an order to put an endpoint.
const (
	listenNone = ""     // the endpoint has none
	listenSame = "same" // as before
	listenNew  = "new"  // its file comes with the order
)

// order is what the Manager says.
type order struct {
	Number   uint64
	Kind     string
	Begin    *beginning            `json:",omitempty"`
	Endpoint *Endpoint             `json:",omitempty"`
	Public   string                `json:",omitempty"`
	Inside   string                `json:",omitempty"`
	Node     string                `json:",omitempty"` // remove, prove
	Slice    string                `json:",omitempty"` // peers
	Peers    map[netip.Addr]string `json:",omitempty"`
	Error    string                `json:",omitempty"` // given: why nothing is
}

// beginning is the first order; with it comes the listener of the gateway
// account, if there is one.
type beginning struct {
	UID, GID int
	HostKey  []byte
}

// The kinds of words.
const (
	wordDone     = "done"
	wordAgent    = "agent"    // asks for the node's agent, or a connection to its Address
	wordEndpoint = "endpoint" // asks for a connection to the public endpoint of the node
)

// word is what the gateway says.
type word struct {
	Number uint64
	Kind   string
	Node   string `json:",omitempty"`
	Error  string `json:",omitempty"`
}

// sender lets several goroutines send on one connection.
type sender struct {
	mu sync.Mutex
	c  *fdsocket.Conn
}

func (s *sender) send(v any, files ...*os.File) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.c.Send(v, files...)
}

var errNoKeeper = errors.New("the testbed is not running")

// asks are the connections that the Manager was asked for: at most maxAsks at a
// time, and maxNodeAsks for one node, so that one that does not answer holds up
// no other. The zero value is ready.
type asks struct {
	mu     sync.Mutex
	slots  chan struct{} // made with the first ask
	nodes  map[string]*queue
	number uint64
	open   map[uint64]*asked
	over   bool
}

// queue is what is asked for one node.
type queue struct {
	slots chan struct{}
	users int // asks that wait or are open; guarded by the lock of asks
}

// asked is an open ask.
type asked struct {
	node   string
	answer chan given
}

type given struct {
	file *os.File
	err  error
}

// ask asks over s and waits for the answer.
func (a *asks) ask(ctx context.Context, s *sender, kind, node string) (*os.File, error) {
	if err := a.enter(ctx, node); err != nil {
		return nil, err
	}
	a.mu.Lock()
	if a.over {
		a.mu.Unlock()
		a.leave(node)
		return nil, errNoKeeper
	}
	a.number++
	number := a.number
	answer := make(chan given, 1)
	a.open[number] = &asked{node, answer}
	a.mu.Unlock()
	if err := s.send(word{Number: number, Kind: kind, Node: node}); err != nil {
		a.given(order{Number: number, Error: errNoKeeper.Error()}, nil)
	}
	select {
	case r := <-answer:
		return r.file, r.err
	case <-ctx.Done():
		// Its places stay taken until the Manager answers: it counts it, too.
		go func() {
			if r := <-answer; r.file != nil {
				r.file.Close()
			}
		}()
		return nil, ctx.Err()
	}
}

// enter takes a place in the node's queue and then one of all.
func (a *asks) enter(ctx context.Context, node string) error {
	a.mu.Lock()
	if a.slots == nil {
		a.slots = make(chan struct{}, maxAsks)
		a.open = make(map[uint64]*asked)
		a.nodes = make(map[string]*queue)
	}
	q := a.nodes[node]
	if q == nil {
		q = &queue{slots: make(chan struct{}, maxNodeAsks)}
		a.nodes[node] = q
	}
	q.users++
	a.mu.Unlock()
	select {
	case q.slots <- struct{}{}:
	case <-ctx.Done():
		a.forget(node)
		return ctx.Err()
	}
	select {
	case a.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		<-q.slots
		a.forget(node)
		return ctx.Err()
	}
}

// leave gives both places back.
func (a *asks) leave(node string) {
	a.mu.Lock()
	q := a.nodes[node]
	a.mu.Unlock()
	<-a.slots
	<-q.slots
	a.forget(node)
}

// forget drops a user of a node's queue, and the queue with the last.
func (a *asks) forget(node string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.nodes[node].users--; a.nodes[node].users == 0 {
		delete(a.nodes, node)
	}
}

// given passes on what came.
func (a *asks) given(o order, files []*os.File) {
	a.mu.Lock()
	ask := a.open[o.Number]
	delete(a.open, o.Number)
	a.mu.Unlock()
	if ask == nil {
		closeFiles(files)
		return
	}
	a.leave(ask.node)
	if o.Error == "" && len(files) == 1 {
		ask.answer <- given{file: files[0]}
		return
	}
	closeFiles(files)
	ask.answer <- given{err: errors.New(o.Error)}
}

// end answers all that is open: nothing will come any more.
func (a *asks) end() {
	a.mu.Lock()
	a.over = true
	var numbers []uint64
	for number := range a.open {
		numbers = append(numbers, number)
	}
	a.mu.Unlock()
	for _, number := range numbers {
		a.given(order{Number: number, Error: errNoKeeper.Error()}, nil)
	}
}
