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

	"patchbay/inventory/local/fdsocket"
)

// GeniSocket is where geni-get asks, inside the node: a line with the words,
// single spaces between them. The answer is a line, "ok" or "error" and a
// number of bytes, and then so many bytes; then the connection ends.
const GeniSocket = "/run/patchbay/geni"

// Limits of geni-get.
const (
	questionLimit = 4 << 10  // bytes
	replyLimit    = 16 << 20 // bytes: a manifest
	questionTime  = 5 * time.Second
	replyTime     = 30 * time.Second
)

// GeniGet asks the testbed what the words say and prints the answer. It runs
// inside a node as geni-get.
func GeniGet(args []string, out io.Writer) error {
	return askGeni(GeniSocket, args, out, replyTime)
}

// askGeni asks at a socket, and waits so long for the answer.
func askGeni(path string, args []string, out io.Writer, patience time.Duration) error {
	question := strings.Join(args, " ")
	if err := checkQuestion(question); err != nil {
		return err
	}
	c, err := net.DialTimeout("unix", path, questionTime)
	if err != nil {
		return fmt.Errorf("the testbed does not answer in this node; try again in a minute, or ask its operator: %w", err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, question+"\n"); err != nil {
		return fmt.Errorf("the testbed does not take the question: %w", err)
	}
	text, err := readReply(c)
	if err != nil {
		return err
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	_, err = out.Write(text)
	return err
}

func readReply(r io.Reader) ([]byte, error) {
	in := bufio.NewReader(r)
	head, err := in.ReadSlice('\n')
	if err != nil {
		return nil, fmt.Errorf("the testbed has no answer; try again in a minute: %w", err)
	}
	word, number, _ := strings.Cut(strings.TrimSuffix(string(head), "\n"), " ")
	size, err := strconv.ParseUint(number, 10, 32)
	if err != nil || size > replyLimit || word != "ok" && word != "error" {
		return nil, errors.New("the testbed's answer cannot be understood")
	}
	text, err := io.ReadAll(io.LimitReader(in, int64(size)))
	if err == nil && len(text) < int(size) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, fmt.Errorf("the testbed's answer is cut off; try again: %w", err)
	}
	if word == "error" {
		return nil, errors.New(printable(string(text)))
	}
	return text, nil
}

func checkQuestion(line string) error {
	if len(line) > questionLimit || !isLine(line) || strings.Contains(line, "\t") {
		return fmt.Errorf("the words are not a single line of text of at most %d bytes", questionLimit)
	}
	return nil
}

// ServeGeni answers the question that comes over conn, of whatever process in
// the node, and closes it. answer gets the words and the user id of the process
// as this process sees it: the node's first id and the id in the node; its
// error is told there, so it must say nothing but what the node may know.
// ServeGeni's own error is for the log.
func ServeGeni(conn net.Conn, answer func(words []string, uid int) ([]byte, error)) error {
	defer conn.Close()
	u, ok := conn.(*net.UnixConn)
	if !ok {
		return errors.New("a question of geni-get came over no Unix socket")
	}
	peer, err := fdsocket.Peer(u)
	if err != nil {
		return err
	}
	conn.SetDeadline(time.Now().Add(questionTime))
	in := bufio.NewReaderSize(conn, questionLimit+1)
	line, err := in.ReadSlice('\n')
	if err != nil {
		return fmt.Errorf("no question came from geni-get: %w", err)
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
	conn.SetDeadline(time.Now().Add(replyTime))
	if word == "error" {
		text = text[:min(len(text), textLimit)]
	}
	whole := append(fmt.Appendf(nil, "%s %d\n", word, len(text)), text...)
	_, err := conn.Write(whole)
	return err
}
