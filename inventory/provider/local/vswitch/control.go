package vswitch

import "encoding/json"

// The Manager sends orders to the switch process over one socket. It sends an order only
// after the reply to the previous one.

// The most bytes of a message, and of a plan in an order.
const (
	maxPlan   = 16 << 20
	maxOrder  = maxPlan + 1<<20
	maxAnswer = 512 << 10
)

const (
	orderBegin  = "begin"
	orderPorts  = "ports" // carries devices for the next orderSet of the link
	orderSet    = "put"
	orderRemove = "remove"
	orderCount  = "count"
	orderPing   = "ping" // replied to once every loop has run a function
)

type order struct {
	Kind  string
	UID   int             `json:",omitempty"` // for begin
	Link  string          `json:",omitempty"` // for ports, set, remove, count
	Ports []string        `json:",omitempty"` // for ports: the ids of the ports whose files it carries
	Plan  json.RawMessage `json:",omitempty"` // for set: a plan in JSON
}

type reply struct {
	Error  string     `json:",omitempty"`
	Counts []Counters `json:",omitempty"` // for count: by port, in the order of the plan
}
