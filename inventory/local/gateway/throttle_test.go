package gateway

import (
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// What is asked for in a connection by the gateway account is paid by the
// connection that carries it: what the inner one would not read would pile up.
func TestPaceInAChannel(t *testing.T) {
	near, far, err := newPipeConn()
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	defer far.Close()
	outer := &throttledConn{}
	inner := &throttledConn{Conn: near, carrier: outer, backlog: &backlog{of: new(backlogs)}}
	for range 2*burst + rate*3600 {
		inner.charge()
	}
	if debt := time.Until(outer.paidUntil); debt < time.Hour/2 {
		t.Errorf("the carrier owes %s", debt)
	}
	far.Write([]byte("x"))
	start := time.Now()
	if _, err := inner.Read(make([]byte, 1)); err != nil || time.Since(start) > time.Minute {
		t.Errorf("the inner connection waited %s: %v", time.Since(start), err)
	}
}

// full is a channel with much to read.
type full struct{ ssh.Channel }

func (full) Read(b []byte) (int, error) { return len(b), nil }

// Connections by the gateway account that are not read are bounded, too.
func TestStallsInChannels(t *testing.T) {
	g := &gateway{log: quiet()}
	ended := make(chan string, 2)
	carrier := func(name string) *login {
		return &login{g: g, share: name, transport: &throttledConn{backlog: &backlog{of: &g.backlogs}},
			stop: func() error { ended <- name; return nil }}
	}
	bad, good := carrier("bad"), carrier("good")
	for _, c := range []*login{bad, good} {
		nc := &channelConn{Channel: full{}, carrier: c, flow: c.flow()}
		nc.Read(make([]byte, 1))
	}
	good.transport.backlog.received(maxSliceUnread)
	bad.transport.backlog.received(maxSliceUnread + 1)
	if name := <-ended; name != "bad" {
		t.Errorf("%s was ended", name)
	}
	if len(ended) > 0 {
		t.Error("both were ended")
	}
}
