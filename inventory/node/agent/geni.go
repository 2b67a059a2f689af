package agent

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"patchbay/inventory/provider/fdsocket"
)

// GeniSocket is the socket of geni-get inside the node. A request is one line with the
// arguments, separated by single spaces. An answer is a line with "ok" or "error" and a
// length in bytes, and then a text of that length. Then the testbed closes the
// connection.
const GeniSocket = "/run/patchbay/geni"

const (
	questionLimit = 4 << 10  // bytes
	replyLimit    = 16 << 20 // bytes: a manifest
	questionTime  = 5 * time.Second
	replyTime     = 30 * time.Second // for the whole answer, at the client
	sendTime      = 5 * time.Second  // for reading the answer, at the server
)

// GeniGet sends the arguments to the testbed and prints the answer. It runs inside a node as
// geni-get.
func GeniGet(args []string, out io.Writer) error {
	return askGeni(GeniSocket, args, out, replyTime)
}

// askGeni sends the arguments of geni-get to the socket at path, and copies the answer to w. The request and
// its answer may take timeout.
func askGeni(path string, args []string, w io.Writer, timeout time.Duration) error {
	question := strings.Join(args, " ")
	if err := checkQuestion(question); err != nil {
		return err
	}
	c, err := net.DialTimeout("unix", path, questionTime)
	if err != nil {
		return fmt.Errorf("the testbed does not answer; try again in a minute, or ask its operator: %w", err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(timeout))
	if _, err := io.WriteString(c, question+"\n"); err != nil {
		return fmt.Errorf("cannot send the request to the testbed: %w", err)
	}
	text, err := readReply(c)
	if err != nil {
		return err
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	_, err = w.Write(text)
	return err
}

// readReply reads the testbed's answer to a request. It returns an "error" answer as an error.
func readReply(r io.Reader) ([]byte, error) {
	in := bufio.NewReader(r)
	head, err := in.ReadSlice('\n')
	if err != nil {
		return nil, fmt.Errorf("the testbed did not answer; try again in a minute: %w", err)
	}
	word, number, _ := strings.Cut(strings.TrimSuffix(string(head), "\n"), " ")
	size, err := strconv.ParseUint(number, 10, 32)
	if err != nil || size > replyLimit || word != "ok" && word != "error" {
		return nil, errors.New("the testbed's answer is not understood")
	}
	text, err := io.ReadAll(io.LimitReader(in, int64(size)))
	if err == nil && len(text) < int(size) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, fmt.Errorf("the testbed's answer is incomplete; try again: %w", err)
	}
	if word == "error" {
		return nil, errors.New(printable(string(text)))
	}
	return text, nil
}

func checkQuestion(line string) error {
	if len(line) > questionLimit || !isLine(line) || strings.Contains(line, "\t") {
		return fmt.Errorf("the arguments must be a single line of at most %d bytes, without tabs", questionLimit)
	}
	return nil
}

// ServeGeni answers the request of one process of the node and closes conn. It calls
// answer with the arguments and the process's user id on the host, which is the node's
// first id plus the id in the node. An error of answer is sent to the process, so it must
// contain nothing confidential. The error that ServeGeni returns is for the log.
func ServeGeni(conn net.Conn, answer func(words []string, uid int) ([]byte, error)) error {
	defer conn.Close()
	u, ok := conn.(*net.UnixConn)
	if !ok {
		return errors.New("the connection of geni-get is not a Unix socket")
	}
	peer, err := fdsocket.Peer(u)
	if err != nil {
		return err
	}
	conn.SetDeadline(time.Now().Add(questionTime))
	in := bufio.NewReaderSize(conn, questionLimit+1)
	line, err := in.ReadSlice('\n')
	if err != nil {
		return fmt.Errorf("cannot read the request of geni-get: %w", err)
	}
	question := strings.TrimSuffix(string(line), "\n")
	if err := checkQuestion(question); err != nil {
		return reply(conn, "error", []byte(err.Error()))
	}
	text, err := answer(strings.Fields(question), int(peer.Uid))
	switch {
	case err != nil:
		return reply(conn, "error", []byte(err.Error()))
	case len(text) > replyLimit:
		return reply(conn, "error", []byte("the answer is too large"))
	}
	return reply(conn, "ok", text)
}

func reply(conn net.Conn, word string, text []byte) error {
	conn.SetDeadline(time.Now().Add(sendTime))
	if word == "error" {
		text = text[:min(len(text), textLimit)]
	}
	whole := append(fmt.Appendf(nil, "%s %d\n", word, len(text)), text...)
	_, err := conn.Write(whole)
	return err
}
