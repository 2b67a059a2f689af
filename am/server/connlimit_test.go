package server

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"time"
)

// arrival is a connection that records whether it was closed.
type arrival struct {
	net.Conn
	from   net.Addr
	closed bool
}

func (a *arrival) RemoteAddr() net.Addr { return a.from }
func (a *arrival) Close() error         { a.closed = true; return nil }

func from(ip string) *arrival {
	return &arrival{from: &net.TCPAddr{IP: net.ParseIP(ip), Port: 4711}}
}

func TestSourceIsAHost(t *testing.T) {
	for _, tt := range []struct{ rule, addr, want string }{
		{"an IPv4 address", "192.0.2.7", "192.0.2.7/32"},
		{"written as IPv6", "::ffff:192.0.2.7", "192.0.2.7/32"},
		{"a network of 64 bits", "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"},
		{"another of its addresses", "2001:db8:1:2::1", "2001:db8:1:2::/64"},
	} {
		if got := sourceOf(&net.TCPAddr{IP: net.ParseIP(tt.addr)}).String(); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.rule, got, tt.want)
		}
	}
	if got := sourceOf(&net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0"}).String(); got != "fe80::/64" {
		t.Errorf("an address with a zone: %s", got)
	}
	if got := sourceOf(&net.UnixAddr{}); got.IsValid() {
		t.Errorf("no IP address: %s", got)
	}
}

// story plays connections at a gate: "a1+" connects a1 from address a, "a1!" serves it,
// "a1." sends its answer, "a1-" ends it, "a1=x" calls with certificate x.
type story struct {
	t       *testing.T
	limiter *connLimiter
	named   map[string]*trackedConn
	told    []string
}

func newStory(t *testing.T, max, perAddress, perCertificate int) *story {
	s := &story{t: t, named: make(map[string]*trackedConn)}
	s.limiter = newConnLimiter(max, perAddress, perCertificate, func(limit string, source netip.Prefix) {
		s.told = append(s.told, fmt.Sprint(limit, " ", source.Addr()))
	})
	return s
}

func (s *story) play(steps ...string) {
	s.t.Helper()
	for _, step := range steps {
		name, act, last := step[:2], step[2], step[len(step)-1]
		in := s.named[name]
		switch act {
		case '+':
			if in := s.limiter.add(from("192.0.2." + fmt.Sprint(name[0]-'a'+1))); in != nil {
				s.named[name] = in
			}
		case '!':
			s.limiter.startCall(in)
		case '.':
			s.limiter.endCall(in)
		case '-':
			in.Close()
		case '=':
			if !s.limiter.addCertificate(in, certificate{last}) {
				s.told = append(s.told, "busy "+name)
			}
		}
	}
}

// in returns the names of the open connections, in order.
func (s *story) in() string {
	var names []string
	for name, in := range s.named {
		if s.limiter.conns[in] == in.Conn.(*arrival).closed {
			s.t.Errorf("%s: in %v, closed %v", name, s.limiter.conns[in], in.Conn.(*arrival).closed)
		}
		if s.limiter.conns[in] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return fmt.Sprint(names)
}

func TestFullGateClosesTheLongestWaitingConnection(t *testing.T) {
	for _, tt := range []struct {
		rule                            string
		max, perAddress, perCertificate int
		steps                           []string
		in                              string
		told                            string
	}{
		{"nobody, while there is room", 3, 2, 9, []string{"a1+", "a2+", "b1+"}, "[a1 a2 b1]", "[]"},
		{"the oldest of an address at its limit", 9, 2, 9, []string{"a1+", "a2+", "b1+", "a3+"}, "[a2 a3 b1]", "[max_connections_per_address 192.0.2.1]"},
		{"the one that has waited longest since its last call", 9, 2, 9,
			[]string{"a1+", "a2+", "a1!", "a1.", "a3+"}, "[a1 a3]", "[max_connections_per_address 192.0.2.1]"},
		{"nobody that is served", 9, 2, 9, []string{"a1+", "a2+", "a1!", "a3+"}, "[a1 a3]", "[max_connections_per_address 192.0.2.1]"},
		{"the newcomer, where all are served", 9, 2, 9,
			[]string{"a1+", "a2+", "a1!", "a2!", "a3+"}, "[a1 a2]", "[max_connections_per_address 192.0.2.1]"},
		{"the address that has max, when all are too many", 4, 9, 9,
			[]string{"a1+", "b1+", "b2+", "b3+", "c1+"}, "[a1 b2 b3 c1]", "[max_connections 192.0.2.2]"},
		{"who floods, not who was there", 4, 9, 9,
			[]string{"a1+", "b1+", "b2+", "b3+", "b4+", "b5+"}, "[a1 b3 b4 b5]", "[max_connections 192.0.2.2 max_connections 192.0.2.2]"},
		{"of equals the one that has waited longest", 2, 9, 9,
			[]string{"a1+", "b1+", "c1+"}, "[b1 c1]", "[max_connections 192.0.2.1]"},
		{"not the address that has max, if all of its are served", 3, 9, 9,
			[]string{"a1+", "a2+", "b1+", "a1!", "a2!", "c1+"}, "[a1 a2 c1]", "[max_connections 192.0.2.2]"},
		{"the newcomer, where all of all are served", 2, 9, 9,
			[]string{"a1+", "b1+", "a1!", "b1!", "c1+"}, "[a1 b1]", "[max_connections 192.0.2.3]"},
		{"whoever leaves makes room", 2, 9, 9, []string{"a1+", "b1+", "a1-", "c1+"}, "[b1 c1]", "[]"},
		{"leaving twice makes no more room", 2, 9, 9, []string{"a1+", "b1+", "a1-", "a1-", "c1+", "d1+"}, "[c1 d1]", "[max_connections 192.0.2.2]"},
		{"the oldest of a certificate, wherever it comes from", 9, 9, 2,
			[]string{"a1+", "b1+", "c1+", "a1=x", "b1=x", "c1=x"}, "[b1 c1]", "[max_connections_per_certificate 192.0.2.1]"},
		{"no other certificate's", 9, 9, 1, []string{"a1+", "a2+", "a1=x", "a2=y"}, "[a1 a2]", "[]"},
		{"a certificate counts once a connection", 9, 9, 1, []string{"a1+", "a1=x", "a1=x", "a1=y"}, "[a1]", "[]"},
		{"the newcomer is busy, where all of a certificate are served", 9, 9, 1,
			[]string{"a1+", "b1+", "a1=x", "a1!", "b1=x"}, "[a1 b1]", "[busy b1]"},
		{"what has left counts under no certificate", 9, 9, 1, []string{"a1+", "b1+", "a1=x", "a1-", "b1=x"}, "[b1]", "[]"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			s := newStory(t, tt.max, tt.perAddress, tt.perCertificate)
			s.play(tt.steps...)
			if got := s.in(); got != tt.in {
				t.Errorf("%v let %s stay, want %s", tt.steps, got, tt.in)
			}
			if got := fmt.Sprint(s.told); got != tt.told {
				t.Errorf("reported %s, want %s", got, tt.told)
			}
		})
	}
}

// After any sequence of events a gate counts exactly the open connections, and it keeps nothing
// about closed ones.
func TestGateCountsOpenConnections(t *testing.T) {
	const max, perAddress, perCertificate = 20, 6, 4
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 0))
		g := newConnLimiter(max, perAddress, perCertificate, func(string, netip.Prefix) {})
		served := make(map[*trackedConn]bool)
		var all []*trackedConn
		for range 3000 {
			if len(all) == 0 || r.IntN(3) == 0 {
				if in := g.add(from(fmt.Sprintf("192.0.2.%d", r.IntN(8)))); in != nil {
					all = append(all, in)
				}
			} else {
				in := all[r.IntN(len(all))]
				switch r.IntN(4) {
				case 0:
					served[in] = g.startCall(in)
				case 1:
					g.endCall(in)
					served[in] = false
				case 2:
					g.addCertificate(in, certificate{byte(r.IntN(5))})
				case 3:
					if r.IntN(2) == 0 {
						in.Close()
						served[in] = false
					}
				}
			}
			n, waiting := 0, 0
			by, certs := make(map[netip.Prefix]int), make(map[certificate]int)
			all = slices.DeleteFunc(all, func(in *trackedConn) bool { return !g.conns[in] && !served[in] })
			for _, in := range all {
				if !g.conns[in] {
					t.Fatalf("seed %d: one that was served had to go", seed)
				}
				n++
				if by[in.source.prefix]++; by[in.source.prefix] > perAddress {
					t.Fatalf("seed %d: too many of %s", seed, in.source.prefix)
				}
				if !served[in] {
					waiting++
				}
				if in.cert != nil {
					if certs[*in.cert]++; certs[*in.cert] > perCertificate {
						t.Fatalf("seed %d: too many of a certificate", seed)
					}
				}
			}
			if a, w := g.count(); a != n || w != waiting || n > max || len(g.sources) != len(by) || len(g.certs) != len(certs) {
				t.Fatalf("seed %d: counts %d, %d waiting, %d sources, %d certificates; there are %d, %d, %d, %d",
					seed, a, w, len(g.sources), len(g.certs), n, waiting, len(by), len(certs))
			}
		}
	}
}

// scripted is a listener whose Accept returns given results in turn.
type scripted struct {
	answers []any
	closed  chan bool
}

func (s *scripted) Accept() (net.Conn, error) {
	if len(s.answers) == 0 {
		<-s.closed
		return nil, net.ErrClosed
	}
	a := s.answers[0]
	s.answers = s.answers[1:]
	if nc, ok := a.(net.Conn); ok {
		return nc, nil
	}
	return nil, a.(error)
}
func (s *scripted) Close() error { close(s.closed); return nil }
func (*scripted) Addr() net.Addr { return &net.TCPAddr{} }

func TestAcceptContinuesBelowTheLimit(t *testing.T) {
	failed := func(errno syscall.Errno) error {
		return &net.OpError{Op: "accept", Err: &net.OpError{Err: errno}}
	}
	broken := errors.New("broken for good")
	first, second := from("192.0.2.1"), from("192.0.2.2")
	inner := &scripted{closed: make(chan bool), answers: []any{
		first, failed(syscall.ECONNABORTED), failed(syscall.EMFILE), failed(syscall.ENOBUFS), second, broken,
	}}
	s := New(Config{}, Options{Log: slog.New(slog.DiscardHandler)})
	l := s.Limit(inner)
	for _, want := range []*arrival{first, second} {
		c, err := l.Accept()
		if err != nil || c.(*trackedConn).Conn != want {
			t.Fatalf("got %v, %v", c, err)
		}
	}
	if !first.closed {
		t.Error("no connection gave way when there was no descriptor left")
	}
	if _, err := l.Accept(); err != broken {
		t.Errorf("a listener that is broken: %v", err)
	}
	// Closing the listener ends a pause.
	inner.answers = slices.Repeat([]any{failed(syscall.EMFILE)}, 50)
	ended := make(chan error)
	go func() {
		_, err := l.Accept()
		ended <- err
	}()
	l.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// The kernel buffers little for a peer that does not read.
func TestKernelBuffersAreSmall(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := New(Config{}, Options{Log: slog.New(slog.DiscardHandler)}).Limit(inner)
	defer l.Close()
	peer, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	peer.(*net.TCPConn).SetReadBuffer(4 << 10)
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	taken := 0
	for b := make([]byte, 16<<10); taken < 16<<20; {
		c.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
		n, err := c.Write(b)
		if taken += n; err != nil {
			break
		}
	}
	t.Logf("the kernel takes %d kB", taken>>10)
	if taken > 4*unsentBytes {
		t.Errorf("the kernel takes %d bytes", taken)
	}
}

func BenchmarkGateWhenFull(b *testing.B) {
	g := newConnLimiter(2048, 256, 128, func(string, netip.Prefix) {})
	for i := range 2048 {
		g.add(from(fmt.Sprintf("192.0.%d.%d", i>>8, i&255)))
	}
	newcomer := from("198.51.100.1")
	for b.Loop() {
		g.add(newcomer)
	}
}
