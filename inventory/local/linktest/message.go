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

// Limits of what a peer may ask for or tell.
const (
	maxLine    = 4 << 10 // bytes
	maxTime    = time.Minute
	maxPackets = 1 << 22
	maxRate    = 400e9 // bit/s
	minSize    = headerSize
	maxSize    = 9000 - 28
	maxBurst   = 64               // packets that the kernel cuts from one buffer
	lineTime   = 30 * time.Second // what is lost four times over, as on bad links, takes 15 s
)

// Kinds of measurement, from the client's side.
const (
	kindHello    = "hello"
	kindSend     = "send"     // TCP from the client
	kindReceive  = "receive"  // TCP to the client
	kindCount    = "count"    // datagrams from the client
	kindDatagram = "datagram" // datagrams to the client
)

// request is the client's line.
type request struct {
	Kind    string        `json:"kind"`
	Time    time.Duration `json:"time,omitempty"` // ns
	Packets int           `json:"packets,omitempty"`
	Size    int           `json:"size,omitempty"`  // of a datagram's payload, bytes
	Burst   int           `json:"burst,omitempty"` // datagrams a system call
	Rate    float64       `json:"rate,omitempty"`  // on the line, bit/s
	Port    int           `json:"port,omitempty"`  // where datagrams go
	Token   uint64        `json:"token,omitempty"` // what they bear
}

// answer is the server's line.
type answer struct {
	Error  string         `json:"error,omitempty"`
	Boot   string         `json:"boot,omitempty"`  // which run of which kernel the server is in
	Port   int            `json:"port,omitempty"`  // where the client's datagrams go
	Token  uint64         `json:"token,omitempty"` // what they are to bear
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
		return fmt.Errorf("there is no measurement %q", clip(r.Kind))
	case r.Time <= 0 || r.Time > maxTime:
		return fmt.Errorf("the time is not between 0 and %v", maxTime)
	case !paced:
		return nil
	}
	return paceOf(r).check()
}

// writeLine sends a message as one line.
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

// readLine reads a message of bounded length; in has a buffer of maxLine.
func readLine(in *bufio.Reader, message any) error {
	line, err := in.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return fmt.Errorf("the other side's line is longer than %d bytes", maxLine)
	case err != nil:
		return err
	}
	if err := json.Unmarshal(line, message); err != nil {
		return errors.New("the other side's line is not understood: it speaks another version, or is no patchbay-linktest")
	}
	return nil
}

// clip makes foreign text fit for a message.
func clip(s string) string {
	s = strconv.QuoteToASCII(s[:min(len(s), 200)])
	return s[1 : len(s)-1]
}
