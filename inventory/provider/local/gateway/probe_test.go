package gateway

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"
)

// testPeer is a peer that may answer.
type testPeer struct {
	ssh.Conn
	asked   atomic.Int32
	answers func()
	closed  chan struct{}
}

func (a *testPeer) SendRequest(string, bool, []byte) (bool, []byte, error) {
	a.asked.Add(1)
	if a.answers == nil {
		<-a.closed
	} else {
		a.answers()
	}
	return false, nil, nil
}

// An idle peer stays connected while it answers, and is disconnected when it does not.
func TestIdlePeers(t *testing.T) {
	for _, answers := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			peer := &testPeer{closed: make(chan struct{})}
			c := &login{conn: &ssh.ServerConn{Conn: peer}, transport: &throttledConn{}}
			if answers {
				peer.answers = func() { c.transport.lastReceived.Store(time.Now().UnixNano()) }
			}
			var ended atomic.Bool
			c.stop = func() error {
				ended.Store(true)
				close(peer.closed)
				return nil
			}
			done := make(chan struct{})
			go c.sendKeepalives(done)
			time.Sleep(probeTime - time.Second)
			synctest.Wait()
			if peer.asked.Load() != 0 {
				t.Error("asked at once")
			}
			time.Sleep((maxProbes + 3) * probeTime)
			synctest.Wait()
			if ended.Load() == answers || peer.asked.Load() == 0 {
				t.Errorf("answers %t: ended %t, asked %d times", answers, ended.Load(), peer.asked.Load())
			}
			close(done)
			synctest.Wait()
		})
	}
}
