package gateway

import (
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"
)

// What is asked for in a connection by the gateway account is paid by the
// connection that carries it: what the inner one would not read would pile up.
func TestPaceInAChannel(t *testing.T) {
	near, far, err := tube()
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	defer far.Close()
	outer := &watched{}
	inner := &watched{Conn: near, carrier: outer}
	for range 2*burst + rate*3600 {
		inner.charge()
	}
	if debt := time.Until(outer.free); debt < time.Hour/2 {
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
	synctest.Test(t, func(t *testing.T) {
		g := &gateway{log: quiet()}
		ended := make(chan string, 1)
		carrier := func(name string) *login {
			return &login{g: g, user: name, stop: func() error { ended <- name; return nil }}
		}
		bad, good := carrier("bad"), carrier("good")
		for range maxStalls {
			nc := &channelConn{Channel: full{}, carrier: bad, flow: g.stalls.flow(bad)}
			nc.Read(make([]byte, 1))
		}
		nc := &channelConn{Channel: full{}, carrier: good, flow: g.stalls.flow(good)}
		nc.Read(make([]byte, 1))
		time.Sleep(2 * stallTime)
		synctest.Wait()
		select {
		case name := <-ended:
			t.Fatalf("%s was ended too early", name)
		default:
		}
		nc.Read(make([]byte, 1))
		synctest.Wait()
		select {
		case name := <-ended:
			if name != "bad" {
				t.Errorf("%s was ended", name)
			}
		default:
			t.Error("nobody was ended")
		}
	})
}
