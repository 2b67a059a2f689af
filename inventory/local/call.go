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

	"patchbay/inventory/local/fdsocket"
)

// Folder is where the sockets of all testbeds of this host are.
const Folder = "/run/patchbay-local"

// Socket is where the testbed called instance answers.
func Socket(instance string) string { return Folder + "/" + instance + ".sock" }

// SiteLock is the file that the server locks which acts on the nodes of the testbed at
// a socket. The testbed makes it.
func SiteLock(socket string) string { return socket + ".site" }

// Actions of the socket. Those of the provider are Get and Set, whose input and
// output are as PROVIDER.md says.
const (
	ActionGet = "get"
	ActionSet = "set"
	// ActionList answers a List.
	ActionList = "list"
	// ActionLinks answers a list of ListedLink.
	ActionLinks = "links"
	// ActionAgent answers root alone: a connection to the agent of the node Name,
	// as the one file.
	ActionAgent = "agent"
	// ActionEndpoints takes an EndpointsInput and answers an EndpointsOutput.
	ActionEndpoints = "endpoints"
)

// Bounds on messages, in bytes.
const (
	MaxRequest = 16 << 20
	MaxAnswer  = 16 << 20
)

// Request is one question to the testbed; each has a connection of its own.
type Request struct {
	Action string `json:"action"`
	// Name is a node's id or, for ActionAgent, the beginning of one, its
	// hostname or client_id, when only one node has it.
	Name  string          `json:"name,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`
}

// Answer is what the testbed says.
type Answer struct {
	// Error is why there is no output, in words for operators.
	Error  string          `json:"error,omitempty"`
	Output json.RawMessage `json:"output,omitempty"`
	// Files are the caller's.
	Files []*os.File `json:"-"`
}

// ErrDown says that no testbed answers at a socket.
var ErrDown = errors.New("the testbed does not run")

// Call asks the testbed at a socket and waits for its answer until ctx ends. The
// error wraps ErrDown when nobody is there.
func Call(ctx context.Context, socket string, r Request) (Answer, error) {
	c, err := fdsocket.Dial(ctx, socket)
	if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED) {
		return Answer{}, fmt.Errorf("%w: nobody answers at %s", ErrDown, socket)
	}
	if err != nil {
		return Answer{}, err
	}
	defer c.Close()
	// A deadline in the past wakes whatever waits.
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	if err := c.Send(r); err != nil {
		// It may have said why it does not listen any more.
		if !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
			return Answer{}, cause(ctx, err)
		}
	}
	var a Answer
	files, err := c.Receive(&a, MaxAnswer, 1)
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		return Answer{}, fmt.Errorf("%w: it ended before it had answered at %s", ErrDown, socket)
	}
	if err != nil {
		return Answer{}, cause(ctx, err)
	}
	a.Files = files
	return a, nil
}

// cause is why ctx ended, if it did.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// List is what ActionList answers.
type List struct {
	Instance  string
	Nodes     []Listed
	Endpoints []ListedEndpoint
	// Gateway is the address of the gateway account, host:port.
	Gateway string
	// Images are those that nodes can have.
	Images []string
}

// Listed is one node.
type Listed struct {
	Name, ClientID, SliceURN, Hostname string
	SliverType, Image                  string
	Power, State, Message              string
	Users                              []string // logins
	Login                              []string
	Base                               uint32 // first of its user ids
	PID                                int    // 0 when it is not running
	Memory, Disk                       int64  // bytes in use
	PIDs                               int
}

// ListedLink is one interface of a node, and the link that it is on.
type ListedLink struct {
	SliceURN string
	// Link and SharedVLAN are as the experimenter says; empty where it is on none.
	Link, SharedVLAN string
	// Node is the node's name, and Interface what it calls the interface; ClientID
	// and InterfaceID are the experimenter's for them.
	Node, ClientID, Interface, InterfaceID string
	MAC                                    string
	Addresses                              []string
	// Emulator is what makes the link, empty while it is not made.
	Emulator string
	// Properties is what frames that leave the interface are to meet.
	Properties []ListedProperty `json:",omitempty"`
	// OmittedProperties is how many more properties there are, for which the answer has no room.
	OmittedProperties int `json:",omitempty"`
	// Counters, as the node sees it; nil while they are not known.
	Counters *Counters
}

// ListedProperty is asked of the way to the interfaces with these client_ids; with
// none, to all others that no other property names.
type ListedProperty struct {
	To         []string `json:",omitempty"`
	Capacity   int64    `json:",omitempty"` // kbit/s
	Latency    float64  `json:",omitempty"` // ms
	PacketLoss float64  `json:",omitempty"` // per cent
}

// Counters of an interface. Dropped are packets to the node that the link lost.
// Overruns are packets from the node that this host could not carry in time.
type Counters struct {
	RxPackets, RxBytes, TxPackets, TxBytes, Dropped, Overruns uint64
}

// ListedEndpoint is the endpoint of another provider's node.
type ListedEndpoint struct {
	Name, Address string
	Login         []string
}

// EndpointsInput asks for endpoints of nodes of other providers.
type EndpointsInput struct {
	Provider string            `json:"provider"`
	Set      []EndpointRequest `json:"set,omitempty"`
	Remove   []string          `json:"remove,omitempty"`
	// Names asks for what is known of these endpoints.
	Names []string `json:"names,omitempty"`
}

// EndpointRequest is an endpoint that must exist.
type EndpointRequest struct {
	Name string `json:"name"` // the node's
	// Address is the IP address and port of its SSH server; empty where that is
	// not known yet, or still as before.
	Address  string `json:"address,omitempty"`
	Hostname string `json:"hostname,omitempty"`
	// Users are as in the attribute users; nil leaves those that the endpoint has.
	Users []string `json:"users"`
}

// EndpointsOutput describes all endpoints that were set or asked for by name.
type EndpointsOutput struct {
	Endpoints []EndpointStatus `json:"endpoints"`
}

// EndpointStatus is an endpoint, or why there is none.
type EndpointStatus struct {
	Name    string   `json:"name"`
	Address string   `json:"address,omitempty"`
	Users   []string `json:"users"`
	Login   []string `json:"login,omitempty"`
	Proxy   string   `json:"proxy,omitempty"`
	Error   string   `json:"error,omitempty"`
}
