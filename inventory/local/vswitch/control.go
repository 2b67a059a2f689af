package vswitch

import "encoding/json"

// Between the Manager and the relay go orders (down) and answers (up), over one
// connection, one after the other.

// Most bytes of a message. Nothing that comes from the relay is long.
const (
	maxPlan   = 16 << 20
	maxOrder  = maxPlan + 1<<20
	maxAnswer = 512 << 10
)

// The kinds of orders.
const (
	orderBegin  = "begin"
	orderPorts  = "ports" // brings devices for the next order that puts the link
	orderPut    = "put"
	orderRemove = "remove"
	orderCount  = "count"
	orderPing   = "ping" // is answered when all loops carry frames
)

// order is what the Manager says.
type order struct {
	Kind  string
	UID   int             `json:",omitempty"` // begin
	Link  string          `json:",omitempty"` // ports, put, remove, count
	Ports []string        `json:",omitempty"` // ports: whose the files are that come with it
	Plan  json.RawMessage `json:",omitempty"` // put: a plan
}

// answer is what the relay says to an order.
type answer struct {
	Error  string     `json:",omitempty"`
	Counts []Counters `json:",omitempty"` // count: by port, as in the plan
}
