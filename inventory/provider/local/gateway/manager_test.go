package gateway

import (
	"net"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// An endpoint that the gateway refuses keeps its state and its listener, and SetEndpoint
// can be called again with the same listener.
func TestRefusedEndpointKeepsState(t *testing.T) {
	k, m, alice, stop := startInProcess(t)
	defer stop()
	was, fresh := listen(t), listen(t)
	defer fresh.Close()
	d := m.endpoint
	d.Node = "n2"
	// The gateway's state differs from the Manager's.
	k.endpoints["n2"] = &servedEndpoint{endpoint: d, public: was}
	if err := k.SetEndpoint(d, was, nil); err == nil {
		t.Fatal("the gateway keeps a listener that it does not have")
	}
	enter := func(l net.Listener) {
		t.Helper()
		nc, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		nc.SetDeadline(time.Now().Add(30 * time.Second))
		c, err := handshake(nc, "alice", []ssh.Signer{m.host.signer}, alice.signer)
		if err != nil {
			t.Error(err)
			return
		}
		c.Close()
	}
	enter(was)
	if err := k.SetEndpoint(d, was, nil); err != nil {
		t.Error("again:", err)
	}
	enter(was)
	if err := k.SetEndpoint(d, fresh, nil); err != nil {
		t.Error(err)
	}
	enter(fresh)
	if nc, err := net.Dial("tcp", was.Addr().String()); err == nil {
		nc.Close()
		t.Error("the listener that was replaced is open")
	}
	if err := k.RemoveEndpoint("n2"); err != nil {
		t.Error(err)
	}
}
