package mtls_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"patchbay/am/server/mtls"
)

// dated is a net.Conn that remembers the deadlines that are set.
type dated struct {
	net.Conn
	mu          sync.Mutex
	read, write time.Time
}

func (d *dated) SetDeadline(t time.Time) error {
	return errors.Join(d.SetReadDeadline(t), d.SetWriteDeadline(t))
}

func (d *dated) SetReadDeadline(t time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.read = t
	return d.Conn.SetReadDeadline(t)
}

func (d *dated) SetWriteDeadline(t time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.write = t
	return d.Conn.SetWriteDeadline(t)
}

func (d *dated) dates() (read, write time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.read, d.write
}

// boundPair is a connection whose handshake has a time of its own.
func boundPair(t *testing.T, timeout time.Duration) (*mtls.Conn, *dated, *tls.Conn) {
	t.Helper()
	ctx, err := mtls.New(mtls.Config{Keys: keys(t, "server-ecdsa"), HandshakeTimeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ctx.Close)
	a, b := net.Pipe()
	raw := &dated{Conn: a}
	server, err := ctx.Listener(one{conn: raw}).Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close(); server.Close() })
	return server.(*mtls.Conn), raw, tls.Client(b, tlsConfig(identity(t, "ec2", "ecdsa"), tls.VersionTLS13))
}

func TestHandshakeHasTheEarlierDeadline(t *testing.T) {
	const timeout = time.Hour
	near, far := time.Now().Add(timeout/2), time.Now().Add(2*timeout)
	for _, tt := range []struct {
		rule       string
		set        func(*mtls.Conn)
		read       time.Time // while the handshake is not done; zero for its own
		readAfter  time.Time
		writeAfter time.Time
	}{
		{"none was set", func(*mtls.Conn) {}, time.Time{}, time.Time{}, time.Time{}},
		{"the one that was set is later", func(c *mtls.Conn) { c.SetReadDeadline(far) }, time.Time{}, far, time.Time{}},
		{"the one that was set is earlier", func(c *mtls.Conn) { c.SetReadDeadline(near) }, near, near, time.Time{}},
		{"it was taken away again", func(c *mtls.Conn) { c.SetReadDeadline(near); c.SetReadDeadline(time.Time{}) }, time.Time{}, time.Time{}, time.Time{}},
		{"of writes", func(c *mtls.Conn) { c.SetWriteDeadline(far) }, time.Time{}, time.Time{}, far},
		{"both at once", func(c *mtls.Conn) { c.SetDeadline(far) }, time.Time{}, far, far},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			began := time.Now()
			server, raw, c := boundPair(t, timeout)
			tt.set(server)
			read, write := raw.dates()
			if tt.read.IsZero() && (read.Before(began.Add(timeout)) || read.After(time.Now().Add(timeout))) {
				t.Errorf("the handshake may read until %v, want its own time", read)
			} else if !tt.read.IsZero() && !read.Equal(tt.read) {
				t.Errorf("the handshake may read until %v, want %v", read, tt.read)
			}
			if write.After(time.Now().Add(timeout)) || write.IsZero() {
				t.Errorf("the handshake may write until %v", write)
			}
			go io.WriteString(c, "x")
			if _, err := server.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			if read, write := raw.dates(); !read.Equal(tt.readAfter) || !write.Equal(tt.writeAfter) {
				t.Errorf("after the handshake %v and %v, want %v and %v", read, write, tt.readAfter, tt.writeAfter)
			}
			server.SetReadDeadline(far.Add(timeout))
			if read, _ := raw.dates(); !read.Equal(far.Add(timeout)) {
				t.Errorf("a deadline set later is %v", read)
			}
		})
	}
}

func TestHandshakeTimesOutByItself(t *testing.T) {
	server, _, _ := boundPair(t, 50*time.Millisecond)
	server.SetReadDeadline(time.Now().Add(time.Hour))
	if _, err := server.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}
