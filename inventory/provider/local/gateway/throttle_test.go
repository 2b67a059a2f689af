package gateway

import (
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// Requests in a forwarded connection are charged to the outer connection, which would
// otherwise collect unread data.
func TestForwardedRequestsSlowOuterConnection(t *testing.T) {
	near, far, err := newPipeConn()
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	defer far.Close()
	outer := &throttledConn{}
	inner := &throttledConn{Conn: near, carrier: outer, backlog: &backlog{parent: new(backlogs)}}
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

// full is a channel with endless data.
type full struct{ ssh.Channel }

func (full) Read(b []byte) (int, error) { return len(b), nil }

// Unread data in connections through the gateway account is limited, too.
func TestUnreadDataInForwardedConnections(t *testing.T) {
	g := &gateway{log: quiet()}
	ended := make(chan string, 2)
	carrier := func(name string) *login {
		return &login{g: g, share: name, transport: &throttledConn{backlog: &backlog{parent: &g.backlogs}},
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
