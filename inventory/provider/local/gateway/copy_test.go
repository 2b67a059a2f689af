package gateway

import (
	"io"
	"net"
	"testing"
	"time"
)

// A client that stays connected does not keep its place when the server has gone.
func TestExchangeEnds(t *testing.T) {
	pair := func() (near, far net.Conn) {
		l := listen(t)
		defer l.Close()
		near, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		far, err = l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return near, far
	}
	client, in := pair()
	out, server := pair()
	over := make(chan struct{})
	go func() {
		copyBothWays(in, out, 50*time.Millisecond)
		close(over)
	}()
	defer client.Close()
	io.WriteString(server, "last words")
	server.Close()
	if said, _ := io.ReadAll(client); string(said) != "last words" {
		t.Errorf("the client read %q", said)
	}
	select {
	case <-over:
	case <-time.After(30 * time.Second):
		t.Error("the connection is kept")
	}
}

// Raw connections, which any host can open, use no place of logins.
func TestRawConnectionsUseNoLoginPlaces(t *testing.T) {
	g := &gateway{endpoints: map[string]*endpoint{"n1": {node: "n1", address: "192.0.2.1:22", accounts: map[string][][]byte{"alice": {[]byte("key")}}}},
		conns: make(map[*login]struct{}), loginsByLimit: make(map[string]int), loginsByShare: make(map[string]int)}
	for i := range maxNodeLogins {
		c := &login{g: g, kind: raw, node: "n1", to: "192.0.2.1:22", user: string(rune('a' + i%8))}
		if err := g.admit(c); err != nil {
			t.Fatal(i, err)
		}
	}
	c := &login{g: g, kind: relayed, node: "n1", to: "192.0.2.1:22", user: User, key: []byte("key")}
	if err := g.admit(c); err != nil {
		t.Error("a key of the node:", err)
	}
}
