package egress

import (
	"io"
	"net"
	"os"
	"testing"

	"patchbay/am/testkit/bottle"
)

// BenchmarkAttach leads one node after the other outside.
func BenchmarkAttach(b *testing.B) {
	in := bottle.New(b, bottle.Options{})
	e := open(b, options(b, in, "out-b"))
	nodes := make([]*os.File, 50)
	for i := range nodes {
		nodes[i] = space(b)
	}
	number := 0
	for b.Loop() {
		number++
		if number > len(nodes) {
			b.StopTimer()
			for n := range nodes {
				if err := e.Detach(n + 1); err != nil {
					b.Fatal(err)
				}
			}
			number = 1
			b.StartTimer()
		}
		if err := e.Attach(b.Context(), number, nodes[number-1]); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkThroughput sends from a node to a server outside.
func BenchmarkThroughput(b *testing.B) {
	in := bottle.New(b, bottle.Options{})
	var l net.Listener
	if err := in.Outside(func() (err error) { l, err = net.Listen("tcp4", bottle.Web+":9"); return err }); err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(io.Discard, c); c.Close() }()
		}
	}()
	node := attach(b, open(b, options(b, in, "out-b")), 1)
	c, err := dialIn(node, "tcp4", bottle.Web+":9")
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	chunk := make([]byte, 1<<20)
	b.SetBytes(int64(len(chunk)))
	for b.Loop() {
		if _, err := c.Write(chunk); err != nil {
			b.Fatal(err)
		}
	}
}
