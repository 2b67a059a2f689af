package gateway

import (
	"context"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/crypto/ssh"
)

// drainTime limits the delivery of data that a peer sent before it closed the channel.
const drainTime = time.Minute

// joinChannel copies between a channel and a connection. It returns when both directions have ended or the
// peer has closed the channel.
func (c *login) joinChannel(ch ssh.Channel, requests <-chan *ssh.Request, nc net.Conn) {
	in, out := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(in)
		c.copyIn(ch, func() io.Writer { return nc })
		closeWrite(nc)
	}()
	go func() {
		defer close(out)
		copyGrowing(ch, nc)
		ch.CloseWrite()
	}()
	go func() {
		<-in
		<-out
		ch.Close()
	}()
	c.refuseRequests(ch, requests)
	late := time.AfterFunc(drainTime, func() { nc.Close() })
	<-in
	late.Stop()
	nc.Close()
	<-out
}

// copyIn copies the peer's data to a writer. When the first data has arrived, copyIn gets
// the writer from newWriter, which may wait. If the writer is nil or fails, copyIn discards
// the remaining data, so that the channel can end.
func (c *login) copyIn(r io.Reader, newWriter func() io.Writer) {
	f := c.flow()
	defer f.close()
	var w io.Writer
	var bad error
	copyGrowing(writer(func(b []byte) (int, error) {
		defer f.end()
		if w == nil && bad == nil {
			if w = newWriter(); w == nil {
				bad = io.ErrClosedPipe
			} else {
				f.setWriter(w)
			}
		}
		if bad == nil {
			_, bad = w.Write(b)
		}
		return len(b), nil
	}), reader(func(b []byte) (int, error) {
		n, err := r.Read(b)
		if n > 0 {
			f.begin(n, n < len(b))
		}
		return n, err
	}))
}

type reader func([]byte) (int, error)

func (r reader) Read(b []byte) (int, error) { return r(b) }

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// copyGrowing copies r to w. It returns the error of a read or write, which is io.EOF at the end of r. The
// buffer starts small and grows with the data.
func copyGrowing(w io.Writer, r io.Reader) error {
	b := make([]byte, 2<<10)
	for {
		n, err := r.Read(b)
		if n > 0 {
			if _, err := w.Write(b[:n]); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
		if n == len(b) && n < 32<<10 {
			b = make([]byte, 4*n)
		}
	}
}

// closeWrite ends the sending direction. If nc cannot end one direction alone, closeWrite
// closes nc.
func closeWrite(nc net.Conn) {
	if half, ok := nc.(interface{ CloseWrite() error }); ok {
		half.CloseWrite()
		return
	}
	nc.Close()
}

// forward copies between a connection and the Address of an endpoint, without authentication.
func (g *gateway) forward(guest *pendingConn, d *endpoint) {
	nc, source := guest.nc, guest.source
	c := &login{g: g, kind: raw, node: d.node, slice: d.slice, user: source, to: d.address, stop: nc.Close}
	if err := g.admit(c); err != nil {
		g.log.Warn("connection refused", "node", d.node, "from", source, "error", err)
		return
	}
	defer g.removeLogin(c)
	to, err := g.dialNode(d.node)
	g.pending.remove(guest)
	if err != nil {
		return
	}
	copyBothWays(nc, to, drainTime)
}

// copyBothWays copies in both directions until both have ended, and closes both connections. After
// the first direction has ended, the other one may continue for the duration drain.
func copyBothWays(a, b net.Conn, drain time.Duration) {
	end := func() {
		a.Close()
		b.Close()
	}
	defer end()
	ended := make(chan error, 2)
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		go func() {
			_, err := io.Copy(way[1], way[0])
			closeWrite(way[1])
			ended <- err
		}()
	}
	if err := <-ended; err != nil {
		end()
	}
	defer time.AfterFunc(drain, end).Stop()
	<-ended
}

func (g *gateway) dialNode(node string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), agentTime)
	defer cancel()
	f, err := g.request(ctx, askAgent, node)
	if err != nil {
		return nil, err
	}
	return fileConn(f)
}

// fileConn always closes f.
func fileConn(f *os.File) (net.Conn, error) {
	defer f.Close()
	return net.FileConn(f)
}
