package agent

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
)

// echo answers one connection of l with what it gets.
func echo(l net.Listener) {
	c, err := l.Accept()
	if err != nil {
		return
	}
	defer c.Close()
	io.Copy(c, c)
}

func TestListenAndDial(t *testing.T) {
	n := newNode(t)
	for _, c := range []struct{ rule, network, address string }{
		{"TCP", "tcp", "127.0.0.1:4000"},
		{"TCPLocalhost", "tcp", "localhost:4001"},
		{"TCPLoginPort", "tcp", "0.0.0.0:22"},
		{"Unix", "unix", "/tmp/folder/of/sock"},
		{"UnixGeni", "unix", GeniSocket},
	} {
		t.Run(c.rule, func(t *testing.T) {
			user := "bob"
			if c.rule == "TCPLoginPort" {
				user = ""
			}
			l, err := Listen(t.Context(), n.dial(), c.network, c.address, user)
			check(t, err)
			defer l.Close()
			go echo(l)
			k, err := Dial(t.Context(), n.dial(), c.network, strings.Replace(c.address, "0.0.0.0", "127.0.0.1", 1), "bob")
			check(t, err)
			defer k.Close()
			fmt.Fprint(k, "hello")
			b := make([]byte, 5)
			if _, err := io.ReadFull(k, b); err != nil || string(b) != "hello" {
				t.Errorf("%q, %v", b, err)
			}
		})
	}
}
