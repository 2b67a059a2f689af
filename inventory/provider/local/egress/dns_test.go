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

// question returns a query with that many bytes, by an option for padding. That needs 4 bytes at least.
func question(id uint16, size int) []byte {
	b := append(binary.BigEndian.AppendUint16(nil, id), 1, 0, 0, 1, 0, 0, 0, 0, 0, 1)
	b = append(b, "\x01q\x00\x00\x01\x00\x01\x00\x00\x29\x10\x00\x00\x00\x00\x00"...)
	padding := size - leastQuestion
	b = binary.BigEndian.AppendUint16(b, uint16(padding))
	if padding >= 4 {
		b = binary.BigEndian.AppendUint16(append(b, 0, 12), uint16(padding-4))
		padding -= 4
	}
	return append(b, make([]byte, padding)...)
}

// leastQuestion is the size of a question with an OPT record.
const leastQuestion = headerSize + 7 + optionsSize

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

func TestQueriesAreForwarded(t *testing.T) {
	t.Parallel()
	b := netlab.New(t, netlab.Options{Addresses: []string{first}})
	server(t, b, first, func(q []byte) [][]byte {
		switch id := binary.BigEndian.Uint16(q); id {
		case 2: // an answer of another server comes first
			return [][]byte{question(3, 40), q[:11], q}
		case 4:
			return [][]byte{question(4, mostReply+1)}
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
		{"no header", question(1, leastQuestion)[:headerSize-1], false},
		{"too much", question(1, mostQuestion+1), false},
		{"an update", append([]byte{0, 1, 0x28}, question(1, 40)[3:]...), false},
		{"strange answers before the right one", question(2, 100), true},
		{"too long an answer", question(4, 100), false},
	} {
		patience := 30 * time.Second
		if !tt.want {
			patience = 500 * time.Millisecond
		}
		a, err := query(node, tt.q, patience)
		if got := err == nil && bytes.Equal(a, tt.q); got != tt.want {
			t.Errorf("%s: %d bytes, %v", tt.rule, len(a), err)
		}
	}
}

// A node speaks to the servers of the host only as a resolver does.
func TestOnlyOrdinaryQueriesAreForwarded(t *testing.T) {
	plain := append([]byte{0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}, "\x01a\x00\x00\x01\x00\x01"...)
	with := func(at int, b ...byte) []byte { q := bytes.Clone(plain); copy(q[at:], b); return q }
	long := func(labels int) []byte {
		return slices.Concat(plain[:headerSize], bytes.Repeat(append([]byte{63}, bytes.Repeat([]byte{'x'}, 63)...), labels), plain[headerSize+2:])
	}
	edns := func(options string, at int, b ...byte) []byte { // at counts in the OPT record
		q := append(with(11, 1), 0, 0, 41, 0x10, 0, 0, 0, 0, 0, 0, byte(len(options)))
		copy(q[len(plain)+at:], b)
		return append(q, options...)
	}
	const cookie, padding = "\x00\x0a\x00\x0812345678", "\x00\x0c\x00\x00"
	reply := []byte{0, 7, 0x81, refused, 0, 0, 0, 0, 0, 0, 0, 0}
	for _, tt := range []struct {
		rule    string
		q       []byte
		want    bool
		refusal []byte
	}{
		{"a query", plain, true, reply},
		{"a query with an OPT record", question(7, 100), true, reply},
		{"with AD and CD", with(3, 0x30), true, reply},
		{"of type HTTPS", with(15, 0, 65), true, reply},
		{"of type AAAA", with(15, 0, 28), true, reply},
		{"of type SRV", with(15, 0, 33), true, reply},
		{"of type CAA", with(15, 1, 1), true, reply},
		{"of a long name", long(3), true, reply},
		{"with a cookie, as dig", edns(cookie, 0), true, reply},
		{"with a cookie and padding", edns(cookie+padding, 0), true, reply},
		{"with DNSSEC, as systemd-resolved", edns("\x00\x05\x00\x01\x08\x00\x06\x00\x01\x02\x00\x07\x00\x01\x01", 7, 0x80), true, reply},
		{"a name of more than 255 bytes", long(4), false, reply},
		{"nothing", nil, false, nil},
		{"a web request", []byte("GET / HTTP/1.0\r\n\r\n"), false, []byte{'G', 'E', 0xd0, refused, 0, 0, 0, 0, 0, 0, 0, 0}},
		{"a reply", with(2, 0x81), false, nil},
		{"NOTIFY", with(2, 0x20), false, []byte{0, 7, 0xa0, refused, 0, 0, 0, 0, 0, 0, 0, 0}},
		{"UPDATE", with(2, 0x28), false, []byte{0, 7, 0xa8, refused, 0, 0, 0, 0, 0, 0, 0, 0}},
		{"truncated", with(2, 3), false, reply},
		{"an error", with(3, 1), false, reply},
		{"no question", with(4, 0, 0), false, reply},
		{"two questions", with(4, 0, 2), false, reply},
		{"an answer", with(6, 0, 1), false, reply},
		{"an authority, as in IXFR", with(8, 0, 1), false, reply},
		{"two additional records", with(10, 0, 2), false, reply},
		{"an additional record that is missing", with(10, 0, 1), false, reply},
		{"AXFR", with(15, 0, 252), false, reply},
		{"IXFR", with(15, 0, 251), false, reply},
		{"ANY", with(15, 0, 255), false, reply},
		{"NXNAME, a type that is none", with(15, 0, 128), false, reply},
		{"a type of no record", with(15, 0, 200), false, reply},
		{"TKEY", with(15, 0, 249), false, reply},
		{"an unknown type", with(15, 0xff, 0), false, reply},
		{"type 0", with(15, 0, 0), false, reply},
		{"EDNS of version 1", edns("", 6, 1), false, reply},
		{"an error in the OPT record", edns("", 5, 1), false, reply},
		{"an unknown flag of EDNS", edns("", 7, 0x40), false, reply},
		{"an unknown option", edns("\x00\x63\x00\x00", 0), false, reply},
		{"the client's subnet", edns("\x00\x08\x00\x04\x00\x01\x00\x00", 0), false, reply},
		{"an option with an end in its head", edns(padding+"\x00\x0c\x00", 0), false, reply},
		{"an option longer than the record", edns("\x00\x0c\x00\x05abcd", 0), false, reply},
		{"TSIG", with(15, 0, 250), false, reply},
		{"OPT as a question", with(15, 0, 41), false, reply},
		{"class CHAOS", with(17, 0, 3), false, reply},
		{"class ANY", with(17, 0, 255), false, reply},
		{"a pointer in the name", with(12, 0xc0, 12), false, reply},
		{"bytes after the end", append(bytes.Clone(plain), 0), false, reply},
		{"bytes after the OPT record", append(question(7, 100), 0), false, reply},
		{"an end in the name", plain[:14], false, reply},
		{"an end in the type", plain[:16], false, reply},
		{"more than 512 bytes", question(7, mostQuestion+1), false, reply},
	} {
		if got := isQuery(tt.q); got != tt.want {
			t.Errorf("%s: %v", tt.rule, got)
		}
		if got := refusal(tt.q); !bytes.Equal(got, tt.refusal) {
			t.Errorf("%s: refused by %x, want %x", tt.rule, got, tt.refusal)
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
	q := question(1, 40)
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
		if q[13] == 'q' {
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
		q := question(i, 40)
		q[13] = 'x'
		_, _ = c.Write(q)
	}
	wait.Success(t, "the other node", func() error { // which asks again, as programs do
		_, err := query(other, question(1, 40), 2*time.Second)
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
	askTransfer := func(c net.Conn) error {
		q := append([]byte{0, 30, 0, 8, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}, "\x0bexample-org\x00\x00\xfc\x00\x01"...)
		q[1] = byte(len(q) - 2)
		a := make([]byte, 2+headerSize)
		if _, err := c.Write(q); err != nil {
			return err
		}
		if _, err := io.ReadFull(c, a); err != nil {
			return err
		}
		if a[3] != 8 || a[5] != refused {
			return fmt.Errorf("a transfer is answered by %x", a)
		}
		return nil
	}
	at := netip.AddrPortFrom(Gateway(), domain).String()
	var open []net.Conn
	for range nodeStreams {
		c, err := dialIn(node, "tcp4", at)
		must(t, err)
		defer c.Close()
		must(t, errors.Join(ask(c), askTransfer(c), ask(c)))
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
