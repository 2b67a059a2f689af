package gateway

import (
	"net/netip"
	"os"
	"sync"

	"patchbay/inventory/local/wire"
)

// Between the Keeper and the gateway go orders (down), answers and asks (up),
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
)

// What becomes of a listener with an order to put a door.
const (
	listenNone = ""     // the door has none
	listenSame = "same" // as before
	listenNew  = "new"  // its file comes with the order
)

// order is what the Keeper says.
type order struct {
	Number uint64
	Kind   string
	Begin  *beginning            `json:",omitempty"`
	Door   *Door                 `json:",omitempty"`
	Public string                `json:",omitempty"`
	Inside string                `json:",omitempty"`
	Node   string                `json:",omitempty"` // remove, prove
	Slice  string                `json:",omitempty"` // peers
	Peers  map[netip.Addr]string `json:",omitempty"`
	Error  string                `json:",omitempty"` // given: why nothing is
}

// beginning is the first order; with it comes the listener of the gateway
// account, if there is one.
type beginning struct {
	UID, GID int
	HostKey  []byte
}

// The kinds of words.
const (
	wordDone  = "done"
	wordAgent = "agent" // asks for the node's agent, or a connection to its Address
	wordDoor  = "door"  // asks for a connection to the node's public door
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
	c  *wire.Conn
}

func (s *sender) send(v any, files ...*os.File) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.c.Send(v, files...)
}
