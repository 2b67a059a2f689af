package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"patchbay/inventory/provider/fdsocket"
)

// Folder holds the sockets of all testbeds of this host.
const Folder = "/run/patchbay-local"

// Socket returns the path of the testbed's socket.
func Socket(instance string) string { return Folder + "/" + instance + ".sock" }

// Actions of the socket. PROVIDER.md defines the input and output of ActionGet and
// ActionSet.
const (
	ActionGet = "get"
	ActionSet = "set"
	// ActionList returns a List.
	ActionList = "list"
	// ActionLinks returns a list of ListedLink.
	ActionLinks = "links"
	// ActionAgent returns a connection to the agent of the node Name, as a file. Only
	// root may call it.
	ActionAgent = "agent"
	// ActionNetwork returns a NodeNetwork, and the network namespace of the node Name as a
	// file. Only root may call it.
	ActionNetwork = "network"
	// ActionEndpoints takes an EndpointsInput and returns an EndpointsOutput.
	ActionEndpoints = "endpoints"
)

// Limits of messages, in bytes.
const (
	MaxRequest = 16 << 20
	MaxAnswer  = 16 << 20
)

// Request is one call to the testbed. Each request uses a connection of its own.
type Request struct {
	Action string `json:"action"`
	// Name is a node's id. For ActionAgent and ActionNetwork it may also be a unique prefix of the id, a
	// hostname or a client_id.
	Name  string          `json:"name,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`
	// Settings is the path of the caller's settings file, for ActionGet and ActionSet. The
	// testbed refuses the provider of another site.
	Settings string `json:"settings,omitempty"`
}

// Answer is the testbed's answer.
type Answer struct {
	// Error is for operators. If it is set, there is no output.
	Error  string          `json:"error,omitempty"`
	Output json.RawMessage `json:"output,omitempty"`
	// Files are open files, which the caller must close.
	Files []*os.File `json:"-"`
}

// ErrDown means that no testbed answers at a socket.
var ErrDown = errors.New("the testbed does not run")

// Call sends a request to the testbed at a socket and waits for the answer until ctx
// ends. The error wraps ErrDown if no testbed runs.
func Call(ctx context.Context, socket string, r Request) (Answer, error) {
	c, err := fdsocket.Dial(ctx, socket)
	if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED) {
		return Answer{}, fmt.Errorf("%w: no process answers at %s", ErrDown, socket)
	}
	if err != nil {
		return Answer{}, err
	}
	defer c.Close()
	// A deadline in the past interrupts Send and Receive.
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	if err := c.Send(r); err != nil {
		// The testbed may have written an error before it closed the connection.
		if !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
			return Answer{}, cause(ctx, err)
		}
	}
	var a Answer
	files, err := c.Receive(&a, MaxAnswer, 1)
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		return Answer{}, fmt.Errorf("%w: it ended before it answered at %s", ErrDown, socket)
	}
	if err != nil {
		return Answer{}, cause(ctx, err)
	}
	a.Files = files
	return a, nil
}

func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// NodeNetwork is the output of ActionNetwork.
type NodeNetwork struct {
	Node string // its id
	Base uint32 // its first user id on the host
}

// List is the output of ActionList.
type List struct {
	Instance  string
	Nodes     []Listed
	Endpoints []ListedEndpoint
	// Gateway is the address of the gateway account, host:port.
	Gateway string
	// Images are the images that nodes can have.
	Images []string
}

// Listed is one node in a List.
type Listed struct {
	Name, ClientID, SliceURN, Hostname string
	SliverType, Image                  string
	Power, State, Message              string
	Users                              []string // logins
	Login                              []string
	Base                               uint32 // the node's first user id on the host
	PID                                int    // 0 when the node is not running
	Memory, Disk                       int64  // bytes in use
	PIDs                               int
}

// ListedLink is one interface of a node, with its link.
type ListedLink struct {
	SliceURN string
	// Link and SharedVLAN are the experimenter's names. Link is empty if the interface
	// is on no link, SharedVLAN if it is on no shared VLAN.
	Link, SharedVLAN string
	// Node is the node's id, and Interface the name of the interface inside the node.
	// The experimenter chose ClientID and InterfaceID.
	Node, ClientID, Interface, InterfaceID string
	MAC                                    string
	Addresses                              []string
	// Emulator is the mechanism that makes the link; empty until the link exists.
	Emulator string
	// Properties are the requested properties of frames that leave the interface.
	Properties []ListedProperty `json:",omitempty"`
	// OmittedProperties is the number of properties that did not fit into the answer.
	OmittedProperties int `json:",omitempty"`
	// Counters are the interface's counters; nil while unknown.
	Counters *Counters
}

// ListedProperty holds the properties of frames from one interface to other interfaces.
// To lists the client_ids of the receiving interfaces. If To is empty, the properties
// apply to all interfaces that no other ListedProperty lists.
type ListedProperty struct {
	To         []string `json:",omitempty"`
	Capacity   int64    `json:",omitempty"` // kbit/s
	Latency    float64  `json:",omitempty"` // ms
	PacketLoss float64  `json:",omitempty"` // per cent
}

// Counters are the counters of an interface. Dropped counts packets to the node that
// the link lost. Overruns counts packets from the node that this host could not process
// in time.
type Counters struct {
	RxPackets, RxBytes, TxPackets, TxBytes, Dropped, Overruns uint64
}

// ListedEndpoint is the endpoint of another provider's node.
type ListedEndpoint struct {
	Name, Address string
	Login         []string
}

// EndpointsInput is the input of ActionEndpoints: endpoints of another provider's nodes to
// set, to remove and to return.
type EndpointsInput struct {
	Provider string            `json:"provider"`
	Set      []EndpointRequest `json:"set,omitempty"`
	Remove   []string          `json:"remove,omitempty"`
	// Names are the nodes whose endpoints are requested.
	Names []string `json:"names,omitempty"`
}

// EndpointRequest is an endpoint that must exist.
type EndpointRequest struct {
	Name string `json:"name"` // of the node
	// Address is the IP address and port of the node's SSH server. It is empty if it is
	// unknown or unchanged.
	Address  string `json:"address,omitempty"`
	Hostname string `json:"hostname,omitempty"`
	// Users has the format of the attribute users; nil keeps the endpoint's users.
	Users []string `json:"users"`
}

// EndpointsOutput describes the endpoints in Set and in Names of an EndpointsInput.
type EndpointsOutput struct {
	Endpoints []EndpointStatus `json:"endpoints"`
}

// EndpointStatus is an endpoint, or the reason why a node has none.
type EndpointStatus struct {
	Name    string   `json:"name"`
	Address string   `json:"address,omitempty"`
	Users   []string `json:"users"`
	Login   []string `json:"login,omitempty"`
	Proxy   string   `json:"proxy,omitempty"`
	Error   string   `json:"error,omitempty"`
}
