package linktest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"
)

// Limits on the requests and reports of a peer.
const (
	maxLine    = 4 << 10 // bytes
	maxTime    = time.Minute
	maxPackets = 1 << 22
	maxRate    = 400e9 // bit/s
	minSize    = headerSize
	maxSize    = 9000 - 28
	maxBurst   = 64               // packets that the kernel cuts from one buffer
	lineTime   = 30 * time.Second // TCP needs 15 s to deliver a segment that is lost four times
)

// Kinds of measurement, from the client's side.
const (
	kindHello    = "hello"
	kindSend     = "send"     // TCP from the client
	kindReceive  = "receive"  // TCP to the client
	kindCount    = "count"    // datagrams from the client
	kindDatagram = "datagram" // datagrams to the client
)

type request struct {
	Kind    string        `json:"kind"`
	Time    time.Duration `json:"time,omitempty"` // ns
	Packets int           `json:"packets,omitempty"`
	Size    int           `json:"size,omitempty"`  // of a datagram's payload, bytes
	Burst   int           `json:"burst,omitempty"` // datagrams in one system call
	Rate    float64       `json:"rate,omitempty"`  // on the line, bit/s
	Port    int           `json:"port,omitempty"`  // where datagrams go
	Token   uint64        `json:"token,omitempty"` // the token of these datagrams
}

// answer is a line of the server, or the line with which the client reports Sent.
type answer struct {
	Error  string         `json:"error,omitempty"`
	Boot   string         `json:"boot,omitempty"`  // identifies the boot of the server's kernel
	Port   int            `json:"port,omitempty"`  // where the client's datagrams go
	Token  uint64         `json:"token,omitempty"` // the token of these datagrams
	Stream *stream        `json:"stream,omitempty"`
	Tally  *DatagramStats `json:"tally,omitempty"`
	Sent   int            `json:"sent,omitempty"`
}

func (r request) check() error {
	paced := r.Kind == kindCount || r.Kind == kindDatagram
	switch {
	case r.Kind == kindHello:
		return nil
	case r.Kind != kindSend && r.Kind != kindReceive && !paced:
		return fmt.Errorf("unknown kind of measurement %q", clip(r.Kind))
	case r.Time <= 0 || r.Time > maxTime:
		return fmt.Errorf("the time is not between 0 and %v", maxTime)
	case !paced:
		return nil
	}
	return paceOf(r).check()
}

func writeLine(c net.Conn, message any) error {
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	if err := c.SetWriteDeadline(time.Now().Add(lineTime)); err != nil {
		return err
	}
	_, err = c.Write(append(text, '\n'))
	return err
}

// readLine requires that the line fits into the buffer of r, which has maxLine bytes.
func readLine(r *bufio.Reader, message any) error {
	line, err := r.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return fmt.Errorf("the other side's line is longer than %d bytes", maxLine)
	case err != nil:
		return err
	}
	if err := json.Unmarshal(line, message); err != nil {
		return errors.New("cannot read the other side's line: the other side is not patchbay-linktest, or a different version of it")
	}
	return nil
}

// clip quotes and shortens a text of the other side, so that a message can contain it.
func clip(s string) string {
	s = strconv.QuoteToASCII(s[:min(len(s), 200)])
	return s[1 : len(s)-1]
}
