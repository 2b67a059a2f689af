package gateway

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"sync"

	"patchbay/inventory/provider/fdsocket"
)

// The Manager sends orders to the gateway; the gateway sends replies and requests for
// connections. Both use one socket. The reply to an order has the order's number. The
// answer to a request is an order of kind orderConnection with the request's number.

// The most bytes of a message. The limit for messages to the Manager is small, because the
// gateway sends nothing long.
const (
	maxOrder          = 16 << 20
	maxGatewayMessage = 4 << 10
)

// The most connection requests that may be open at the same time, in all and for one node.
const (
	maxAsks     = 256
	maxNodeAsks = 8
)

const (
	orderBegin      = "begin"
	orderSet        = "put"
	orderPeers      = "peers"
	orderRemove     = "remove"
	orderVerify     = "prove"
	orderConnection = "given"
	orderPing       = "ping" // the reply shows that the gateway's lock is free
)

// Values of order.Public and order.Inside: what an order to set an endpoint does with the
// endpoint's listener.
const (
	listenNone = ""     // the endpoint has none
	listenSame = "same" // keep the present one
	listenNew  = "new"  // the order carries its file
)

// order is a message from the Manager to the gateway.
type order struct {
	Number   uint64
	Kind     string
	Begin    *beginning            `json:",omitempty"`
	Endpoint *Endpoint             `json:",omitempty"`
	Public   string                `json:",omitempty"`
	Inside   string                `json:",omitempty"`
	Node     string                `json:",omitempty"` // for remove and verify
	Slice    string                `json:",omitempty"` // for peers
	Peers    map[netip.Addr]string `json:",omitempty"`
	Error    string                `json:",omitempty"` // for connection: why it could not be opened
}

// beginning is the first order. It carries the listener of the gateway account, if there
// is one.
type beginning struct {
	UID, GID int
	HostKey  []byte
}

const (
	replyDone   = "done"
	askAgent    = "agent"    // requests a connection to the node's agent, or to its Address
	askEndpoint = "endpoint" // requests a connection to the node's public endpoint
)

type gatewayMessage struct {
	Number uint64
	Kind   string
	Node   string `json:",omitempty"`
	Error  string `json:",omitempty"`
}

// sender may be used by several goroutines.
type sender struct {
	mu sync.Mutex
	c  *fdsocket.Conn
}

func (s *sender) send(v any, files ...*os.File) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.c.Send(v, files...)
}

var errNoManager = errors.New("the testbed is not running")

// connectionRequests are the gateway's requests to the Manager for connections. At most
// maxAsks are open at a time, and at most maxNodeAsks for one node. So a node that does
// not answer does not delay other nodes. The zero value is ready.
type connectionRequests struct {
	mu     sync.Mutex
	slots  chan struct{} // created with the first request
	nodes  map[string]*nodeQueue
	number uint64
	open   map[uint64]*pendingRequest
	closed bool
}

type nodeQueue struct {
	slots chan struct{}
	users int // requests that wait or are open; guarded by connectionRequests.mu
}

type pendingRequest struct {
	node   string
	answer chan connectionResult
}

type connectionResult struct {
	file *os.File
	err  error
}

// request asks the Manager for a connection to a node, and waits for it until ctx ends.
func (a *connectionRequests) request(ctx context.Context, s *sender, kind, node string) (*os.File, error) {
	if err := a.acquire(ctx, node); err != nil {
		return nil, err
	}
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		a.release(node)
		return nil, errNoManager
	}
	a.number++
	number := a.number
	answer := make(chan connectionResult, 1)
	a.open[number] = &pendingRequest{node, answer}
	a.mu.Unlock()
	if err := s.send(gatewayMessage{Number: number, Kind: kind, Node: node}); err != nil {
		a.deliver(order{Number: number, Error: errNoManager.Error()}, nil)
	}
	select {
	case r := <-answer:
		return r.file, r.err
	case <-ctx.Done():
		// The slots stay taken until the Manager answers, because the Manager limits its
		// open requests, too.
		go func() {
			if r := <-answer; r.file != nil {
				r.file.Close()
			}
		}()
		return nil, ctx.Err()
	}
}

// acquire waits for a slot of the node's queue, and then for a global slot. So requests for one node cannot
// take all global slots.
func (a *connectionRequests) acquire(ctx context.Context, node string) error {
	a.mu.Lock()
	if a.slots == nil {
		a.slots = make(chan struct{}, maxAsks)
		a.open = make(map[uint64]*pendingRequest)
		a.nodes = make(map[string]*nodeQueue)
	}
	q := a.nodes[node]
	if q == nil {
		q = &nodeQueue{slots: make(chan struct{}, maxNodeAsks)}
		a.nodes[node] = q
	}
	q.users++
	a.mu.Unlock()
	select {
	case q.slots <- struct{}{}:
	case <-ctx.Done():
		a.dropUser(node)
		return ctx.Err()
	}
	select {
	case a.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		<-q.slots
		a.dropUser(node)
		return ctx.Err()
	}
}

func (a *connectionRequests) release(node string) {
	a.mu.Lock()
	q := a.nodes[node]
	a.mu.Unlock()
	<-a.slots
	<-q.slots
	a.dropUser(node)
}

// dropUser also removes the queue if it has no requests left.
func (a *connectionRequests) dropUser(node string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.nodes[node].users--; a.nodes[node].users == 0 {
		delete(a.nodes, node)
	}
}

// deliver passes the Manager's answer to the request that waits for it.
func (a *connectionRequests) deliver(o order, files []*os.File) {
	a.mu.Lock()
	ask := a.open[o.Number]
	delete(a.open, o.Number)
	a.mu.Unlock()
	if ask == nil {
		closeFiles(files)
		return
	}
	a.release(ask.node)
	if o.Error == "" && len(files) == 1 {
		ask.answer <- connectionResult{file: files[0]}
		return
	}
	closeFiles(files)
	ask.answer <- connectionResult{err: errors.New(o.Error)}
}

// close answers all open requests with an error.
func (a *connectionRequests) close() {
	a.mu.Lock()
	a.closed = true
	var numbers []uint64
	for number := range a.open {
		numbers = append(numbers, number)
	}
	a.mu.Unlock()
	for _, number := range numbers {
		a.deliver(order{Number: number, Error: errNoManager.Error()}, nil)
	}
}
