package egress

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"patchbay/am/testkit/netlab"
	"patchbay/am/testkit/wait"
)

// server starts a name server at an address of the lab's Internet. It sends the answers
// that f returns.
func server(t testing.TB, b *netlab.Lab, address string, f func(question []byte) [][]byte) {
	t.Helper()
	var c net.PacketConn
	err := b.Outside(func() (err error) {
		c, err = net.ListenPacket("udp4", address+":53")
		return err
	})
	must(t, err)
	t.Cleanup(func() { c.Close() })
	go func() {
		buf := make([]byte, 1<<16)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			for _, a := range f(bytes.Clone(buf[:n])) {
				_, _ = c.WriteTo(a, from)
			}
		}
	}()
}

func question(id uint16, size int) []byte {
	return append(binary.BigEndian.AppendUint16(nil, id), bytes.Repeat([]byte{'q'}, size-2)...)
}

// query sends a query from a node and returns the answer.
func query(node *os.File, q []byte, within time.Duration) ([]byte, error) {
	c, err := dialIn(node, "udp4", netip.AddrPortFrom(Gateway(), domain).String())
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if _, err := c.Write(q); err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(within))
	b := make([]byte, 1<<16)
	n, err := c.Read(b)
	return b[:n], err
}

const (
	first  = "198.51.100.31"
	second = "198.51.100.32"
)

func TestQueriesAreForwardedUnparsed(t *testing.T) {
	t.Parallel()
	b := netlab.New(t, netlab.Options{Addresses: []string{first}})
	server(t, b, first, func(q []byte) [][]byte {
		switch id := binary.BigEndian.Uint16(q); id {
		case 2: // an answer of another server comes first
			return [][]byte{question(3, 20), q[:11], q}
		case 4:
			return [][]byte{question(4, mostQuestion+1)}
		default:
			return [][]byte{q}
		}
	})
	o := options(t, b, "out-t")
	o.Servers = []netip.Addr{netip.MustParseAddr(first)}
	node := attach(t, open(t, o), 1)
	for _, tt := range []struct {
		rule string
		q    []byte
		want bool
	}{
		{"the least", question(1, leastQuestion), true},
		{"the most", question(1, mostQuestion), true},
		{"no header", question(1, leastQuestion-1), false},
		{"too much", question(1, mostQuestion+1), false},
		{"strange answers before the right one", question(2, 100), true},
		{"too long an answer", question(4, 100), false},
	} {
		patience := 30 * time.Second
		if !tt.want {
			patience = 500*time.Millisecond + time.Duration(len(tt.q)/leastQuestion)*time.Millisecond
		}
		a, err := query(node, tt.q, patience)
		if got := err == nil && bytes.Equal(a, tt.q); got != tt.want {
			t.Errorf("%s: %d bytes, %v", tt.rule, len(a), err)
		}
	}
}

func TestSecondServerAnswers(t *testing.T) {
	t.Parallel()
	b := netlab.New(t, netlab.Options{Addresses: []string{first, second}})
	var mu sync.Mutex
	silent := true
	server(t, b, first, func(q []byte) [][]byte {
		mu.Lock()
		defer mu.Unlock()
		if silent {
			return nil
		}
		return [][]byte{append(q, '1')}
	})
	server(t, b, second, func(q []byte) [][]byte { return [][]byte{append(q, '2')} })
	o := options(t, b, "out-t")
	// No server listens at the first address; the second is slow.
	o.Servers = []netip.Addr{netip.MustParseAddr(netlab.Router), netip.MustParseAddr(first), netip.MustParseAddr(second)}
	node := attach(t, open(t, o), 1)
	q := question(1, 20)
	for _, within := range []time.Duration{30 * time.Second, serverTime * 9 / 10} { // the server that answered is tried first
		if a, err := query(node, q, within); err != nil || string(a) != string(q)+"2" {
			t.Errorf("%q, %v", a, err)
		}
	}
}

func TestQueriesOfOneNodeAreLimited(t *testing.T) {
	b := netlab.New(t, netlab.Options{Addresses: []string{first}})
	var mu sync.Mutex
	waiting := map[string]bool{}
	server(t, b, first, func(q []byte) [][]byte {
		if q[2] == 'q' {
			return [][]byte{q}
		}
		mu.Lock()
		defer mu.Unlock()
		waiting[string(q)] = true
		return nil
	})
	o := options(t, b, "out-t")
	o.Servers = []netip.Addr{netip.MustParseAddr(first)}
	e := open(t, o)
	node, other := attach(t, e, 1), attach(t, e, 2)
	c, err := dialIn(node, "udp4", netip.AddrPortFrom(Gateway(), domain).String())
	must(t, err)
	defer c.Close()
	for i := range uint16(10 * nodeQuestions) {
		q := question(i, 20)
		q[2] = 'x'
		_, _ = c.Write(q)
	}
	wait.Success(t, "the other node", func() error { // which asks again, as programs do
		_, err := query(other, question(1, 20), 2*time.Second)
		return err
	})
	under := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(waiting)
	}
	wait.Success(t, "its own questions", func() error {
		if n := under(); n < nodeQuestions {
			return fmt.Errorf("%d are under way", n)
		}
		return nil
	})
	time.Sleep(100 * time.Millisecond) // nothing follows
	if n := under(); n != nodeQuestions {
		t.Errorf("%d questions of one node are under way, may be %d", n, nodeQuestions)
	}
}

func TestNamesOverTCP(t *testing.T) {
	b := netlab.New(t, netlab.Options{Addresses: []string{first}})
	e := open(t, options(t, b, "out-t"))
	node, other := attach(t, e, 1), attach(t, e, 2)
	ask := func(c net.Conn) error {
		q := append([]byte{0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}, "\x01a\x00\x00\x01\x00\x01"...)
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(q))), q...)); err != nil {
			return err
		}
		var size uint16
		if err := binary.Read(c, binary.BigEndian, &size); err != nil {
			return err
		}
		a := make([]byte, size)
		if _, err := io.ReadFull(c, a); err != nil {
			return err
		}
		if a[1] != 7 || !bytes.HasSuffix(a, net.ParseIP(netlab.Web).To4()) {
			return fmt.Errorf("answered %x", a)
		}
		return nil
	}
	at := netip.AddrPortFrom(Gateway(), domain).String()
	var open []net.Conn
	for range nodeStreams {
		c, err := dialIn(node, "tcp4", at)
		must(t, err)
		defer c.Close()
		must(t, errors.Join(ask(c), ask(c)))
		open = append(open, c)
	}
	if c, err := dialIn(node, "tcp4", at); err == nil {
		if err := ask(c); err == nil {
			t.Errorf("one node has more than %d connections", nodeStreams)
		}
		c.Close()
	}
	c, err := dialIn(other, "tcp4", at)
	if err == nil {
		err = ask(c)
		c.Close()
	}
	if err != nil {
		t.Errorf("the other node: %v", err)
	}
	open[0].Close()
	wait.Success(t, "a connection after another has ended", func() error {
		c, err := dialIn(node, "tcp4", at)
		if err != nil {
			return err
		}
		defer c.Close()
		return ask(c)
	})
}

func TestServersOfTheHost(t *testing.T) {
	a := netip.MustParseAddr
	for _, tt := range []struct {
		rule, text string
		want       []netip.Addr
	}{
		{"none", "", nil},
		{"in order, at most three", "search example.org\nnameserver 192.0.2.1\n nameserver\t::1 # own\nnameserver 192.0.2.3\nnameserver 192.0.2.4\n",
			[]netip.Addr{a("192.0.2.1"), a("::1"), a("192.0.2.3")}},
		{"what is none", "#nameserver 192.0.2.1\n;nameserver 192.0.2.1\nnameserver\nnameserver x\nNameserver 192.0.2.1", nil},
		{"of a network device", "nameserver fe80::1%eth0", []netip.Addr{a("fe80::1%eth0")}},
	} {
		if got := parseServers([]byte(tt.text)); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.rule, got, tt.want)
		}
	}
}

// All nodes of one owner share a limit.
func TestQueriesOfOneOwnerAreLimited(t *testing.T) {
	const each = 32
	s := newShares()
	taken := 0
	for n := 1; n <= 40; n++ {
		for range 2 * each {
			if s.acquire(Address(n), "greedy", mostQuestions, each) {
				taken++
			}
		}
	}
	if taken != mostQuestions/ownerShare {
		t.Errorf("one owner has %d of %d", taken, mostQuestions)
	}
	for _, owner := range []string{"other", ""} {
		if !s.acquire(Address(50), owner, mostQuestions, each) {
			t.Errorf("nothing is left for %q", owner)
		}
		s.release(Address(50), owner)
	}
	for n := 1; taken > 0; n++ {
		for ; s.each[Address(n)] > 0; taken-- {
			s.release(Address(n), "greedy")
		}
	}
	if s.all != 0 || len(s.each) != 0 || len(s.owners) != 0 {
		t.Errorf("when all is given back there is %+v", s)
	}
}
