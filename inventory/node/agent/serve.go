package agent

import (
	"fmt"
	"os"
	"sync"
	"time"

	"patchbay/inventory/provider/fdsocket"
)

// Limits of simultaneous operations. Commands cannot use all operations, so that a node full
// of logins still answers Ping.
const (
	maxOperations = 512
	maxCommands   = 384
	maxDials      = 64
)

// requestTime limits the time to receive a request or to send an answer.
const requestTime = 10 * time.Second

type agent struct {
	node     string
	children *children
	halting  chan struct{}          // closed by halt
	kill     func(uid uint32) error // replaces killUserOnce; see Apply
	haltOnce sync.Once

	operations, commands, dials slots

	configuring sync.Mutex
	listening   sync.Mutex
	listeners   map[string]*savedListener // by network and address; guarded by listening
}

// newAgent expects in jobs the descriptors of cgroup.procs files.
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

// slots limits simultaneous operations of one kind.
type slots chan struct{}

// acquire fails at once if no slot is free. kind names the operations in the error.
func (p slots) acquire(kind string) error {
	select {
	case p <- struct{}{}:
		return nil
	default:
		return fmt.Errorf("the node has its maximum of %d %s; try again when one has ended", cap(p), kind)
	}
}

func (p slots) release() { <-p }

// serve handles the request of a connection in the background, and closes the connection. An error is its
// answer.
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

// catchPanic returns a panic of f as an error: one operation must not end PID 1.
func catchPanic(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("internal error of the agent: %v", p)
		}
	}()
	return f()
}

// handle receives one request, carries it out and answers it. It does not send the error that it returns;
// the caller must do that.
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
		return fmt.Errorf("the operation %q takes no files", r.Op)
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
