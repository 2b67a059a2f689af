package gateway

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"patchbay/am/testkit/wait"
	"patchbay/inventory/provider/fdsocket"
)

// A node that does not answer delays its own users, but no other node.
func TestHangingNodeDelaysNoOther(t *testing.T) {
	ours, theirs, err := fdsocket.Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	c, err := fdsocket.FromFile(theirs)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	go func() { // a Manager that answers only for "good"
		s := &sender{c: c}
		for {
			var w gatewayMessage
			if _, err := c.Receive(&w, maxGatewayMessage, 0); err != nil {
				return
			}
			if w.Node == "good" {
				s.send(order{Number: w.Number, Kind: orderConnection}, os.Stderr)
			}
		}
	}()
	var a connectionRequests
	go func() {
		for {
			var o order
			files, err := ours.Receive(&o, maxOrder, 1)
			if err != nil {
				return
			}
			a.deliver(o, files)
		}
	}()
	s := &sender{c: ours}
	ctx, cancel := context.WithCancel(t.Context())
	var deaf sync.WaitGroup
	for range 2 * maxAsks {
		deaf.Go(func() {
			if _, err := a.request(ctx, s, askAgent, "deaf"); err == nil {
				t.Error("something came for the deaf node")
			}
		})
	}
	wait.Holds(t, func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return len(a.open) == maxNodeAsks
	}, func() string { return "the deaf node is not asked" })
	for range 3 * maxNodeAsks {
		f, err := a.request(ctx, s, askAgent, "good")
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	cancel()
	deaf.Wait()
	a.close()
	if _, err := a.request(t.Context(), s, askAgent, "good"); err != errNoManager {
		t.Error(err)
	}
	if len(a.nodes) != 0 || len(a.open) != 0 || len(a.slots) != 0 {
		t.Errorf("left: %v %v %d", a.nodes, a.open, len(a.slots))
	}
}

// The Manager connects only to nodes with an endpoint, and ends a gateway that sends
// endless or invalid requests.
func TestManagerDoesNotTrustGateway(t *testing.T) {
	for name, words := range map[string]func(*sender){
		"Nonsense": func(s *sender) { s.send(gatewayMessage{Kind: "root"}) },
		"TooLong": func(s *sender) {
			s.send(gatewayMessage{Kind: replyDone, Error: strings.Repeat("x", maxGatewayMessage)})
		},
		"NoMessage": func(s *sender) {
			s.send("text")
		},
		"AsksWithoutEnd": func(s *sender) {
			for range 2*maxAsks + 1 {
				s.send(gatewayMessage{Kind: askAgent, Node: "n1"})
			}
		},
		"File": func(s *sender) { s.send(gatewayMessage{Kind: replyDone}, os.Stderr) },
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs, err := fdsocket.Pair()
			if err != nil {
				t.Fatal(err)
			}
			c, err := fdsocket.FromFile(theirs)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			k := &Manager{endpoints: map[string]*servedEndpoint{"n1": {}}, current: newProcess()}
			over := make(chan struct{})
			defer close(over)
			k.options.Log = quiet()
			k.options.DialAgent = func(ctx context.Context, node string) (*fdsocket.Conn, error) {
				<-over // it takes its time
				return nil, context.Canceled
			}
			k.current.out = &sender{c: ours}
			go words(&sender{c: c})
			if err := k.receiveMessages(k.current, ours); err == nil {
				t.Error("nothing was found wrong")
			}
			ours.Close()
		})
	}
	k := &Manager{endpoints: map[string]*servedEndpoint{}}
	for _, kind := range []string{askAgent, askEndpoint} {
		if f, err := k.connect(t.Context(), kind, "n1"); err == nil {
			f.Close()
			t.Errorf("%s: a node without an endpoint was given", kind)
		}
	}
}

// A peer with too many requests is read at a limited rate.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far, err := newPipeConn()
		if err != nil {
			t.Fatal(err)
		}
		defer near.Close()
		defer far.Close()
		w := &throttledConn{Conn: near, backlog: &backlog{parent: new(backlogs)}}
		read := func() time.Duration {
			far.Write([]byte("x"))
			start := time.Now()
			w.Read(make([]byte, 1))
			return time.Since(start)
		}
		for range burst {
			w.charge()
		}
		if took := read(); took != 0 {
			t.Errorf("within the burst it waits %s", took)
		}
		for range rate {
			w.charge()
		}
		if took := read(); took != time.Second {
			t.Errorf("a second's worth takes %s", took)
		}
		time.Sleep(time.Hour)
		if took := read(); took != 0 {
			t.Errorf("after an hour it waits %s", took)
		}
	})
}
