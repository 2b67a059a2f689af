package agent

import (
	"fmt"
	"os"
	"sync"
	"time"

	"patchbay/inventory/local/fdsocket"
)

// How many operations there may be at once. Commands leave room for the rest,
// so that a node full of logins still answers to Hello.
const (
	maxOperations = 512
	maxCommands   = 384
	maxDials      = 64
)

// requestTime is how long a request may take to arrive.
const requestTime = 10 * time.Second

// agent serves operations.
type agent struct {
	node     string
	children *children
	halting  chan struct{} // closed by halt
	haltOnce sync.Once

	operations, commands, dials slots

	configuring sync.Mutex
	listening   sync.Mutex
	listeners   map[string]*savedListener // by network and address; guarded by listening
}

func newAgent(node string, jobs []int) *agent {
	return &agent{
		node:       node,
		children:   newChildren(jobs),
		halting:    make(chan struct{}),
		operations: make(slots, maxOperations),
		commands:   make(slots, maxCommands),
		dials:      make(slots, maxDials),
		listeners:  make(map[string]*savedListener),
	}
}

// slots bounds what happens at once.
type slots chan struct{}

func (p slots) acquire(what string) error {
	select {
	case p <- struct{}{}:
		return nil
	default:
		return fmt.Errorf("the node has %d %s at once, and no more are taken; try again when one has ended", cap(p), what)
	}
}

func (p slots) release() { <-p }

// serve serves one connection, in a goroutine of its own.
func (a *agent) serve(c *fdsocket.Conn) {
	c.SetDeadline(time.Now().Add(requestTime))
	if err := a.operations.acquire("operations"); err != nil {
		c.Send(answer{Error: err.Error()})
		c.Close()
		return
	}
	go func() {
		defer a.operations.release()
		defer c.Close()
		if err := catchPanic(func() error { return a.handle(c) }); err != nil {
			c.SetDeadline(time.Now().Add(requestTime))
			c.Send(answer{Error: err.Error()})
		}
	}()
}

// catchPanic makes a panic of f an error: that of one operation must not end PID 1.
func catchPanic(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the agent has a fault: %v", p)
		}
	}()
	return f()
}

// handle serves the operation that c asks for; an error is still to be told.
func (a *agent) handle(c *fdsocket.Conn) error {
	var r request
	files, err := c.Receive(&r, requestLimit, 3)
	if err != nil {
		return err
	}
	defer func() { closeAll(files) }()
	c.SetDeadline(time.Time{})
	if r.Op == opExec {
		given := files
		files = nil
		return a.exec(c, r.Command, given)
	}
	if len(files) > 0 {
		return fmt.Errorf("files came with the operation %q", r.Op)
	}
	var reply answer
	var give []*os.File
	switch r.Op {
	case opPing:
		reply.Node = a.node
	case opWait:
		waitForClose(c)
		return nil
	case opHalt:
		err = a.halt()
	case opConfigure:
		reply.Facts, err = a.configure(r.Configuration)
	case opDial:
		give, err = a.dial(r)
	case opListen:
		give, err = a.listen(r)
	default:
		err = fmt.Errorf("unknown operation %q", r.Op)
	}
	if err != nil {
		return err
	}
	defer closeAll(give)
	c.SetDeadline(time.Now().Add(requestTime))
	return c.Send(reply, give...)
}
