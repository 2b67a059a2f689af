package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/inventory/provider/fdsocket"
)

const (
	opPing      = "hello"
	opWait      = "hold"
	opExec      = "exec"
	opSignal    = "signal"
	opConfigure = "configure"
	opHalt      = "halt"
	opDial      = "dial"
	opListen    = "listen"
)

const (
	requestLimit = 16 << 20 // bytes: room for the keys of all accounts
	answerLimit  = 64 << 10 // bytes
	textLimit    = 400      // bytes of a text from the other side in our messages
)

// request is the first message of a connection, and requests one operation. After a
// request for a command, further requests carry signals for it.
type request struct {
	Op            string
	Network       string         `json:",omitempty"`
	Address       string         `json:",omitempty"`
	User          string         `json:",omitempty"`
	Signal        int            `json:",omitempty"`
	Command       *Command       `json:",omitempty"`
	Configuration *Configuration `json:",omitempty"`
}

// answer is the result of an operation. A command has two: its start and its end.
type answer struct {
	Error string `json:",omitempty"`
	Node  string `json:",omitempty"`
	Facts *Facts `json:",omitempty"`
	Exit  *Exit  `json:",omitempty"`
}

// call sends a request with files to the agent, and returns the answer with at most maxFiles files. It fails
// if the answer contains an error, or if ctx ends.
func call(ctx context.Context, c *fdsocket.Conn, r request, files []*os.File, maxFiles int) (answer, []*os.File, error) {
	defer applyContext(ctx, c)()
	a, got, err := exchange(c, r, files, maxFiles)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case errors.Is(err, os.ErrDeadlineExceeded): // the deadline may expire a moment before ctx ends
		err = context.DeadlineExceeded
	}
	if err != nil {
		return answer{}, nil, fmt.Errorf("the operation %s of the node's agent failed: %w", r.Op, err)
	}
	return a, got, nil
}

// exchange ignores a failed send if an answer follows: an agent that refuses a request
// may close the connection before it has read the whole request.
func exchange(c *fdsocket.Conn, r request, files []*os.File, maxFiles int) (answer, []*os.File, error) {
	err := c.Send(r, files...)
	if err != nil && !errors.Is(err, unix.EPIPE) {
		return answer{}, nil, err
	}
	a, got, failed := receive(c, maxFiles)
	if err != nil && errors.Is(failed, io.EOF) {
		failed = err
	}
	return a, got, failed
}

func receive(c *fdsocket.Conn, maxFiles int) (answer, []*os.File, error) {
	var a answer
	got, err := c.Receive(&a, answerLimit, maxFiles)
	if err != nil {
		return answer{}, nil, err
	}
	if a.Error != "" {
		closeAll(got)
		return answer{}, nil, errors.New(printable(a.Error))
	}
	return a, got, nil
}

// applyContext makes sends and receives of c fail when ctx ends. The returned function
// undoes this, and removes the deadline of c.
func applyContext(ctx context.Context, c *fdsocket.Conn) func() {
	c.SetDeadline(time.Time{})
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		c.SetDeadline(time.Unix(1, 0))
		close(done)
	})
	return func() {
		if !stop() {
			<-done
		}
		c.SetDeadline(time.Time{})
	}
}

// printable makes a text from the other side safe for our messages: one line of ASCII
// of limited length.
func printable(s string) string {
	if len(s) > textLimit {
		s = s[:textLimit] + "..."
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
