package egress

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/inventory/provider/local/netspace"
)

const domain = 53 // the port of name servers

const (
	mostQuestion  = 512  // bytes of a query
	mostReply     = 4096 // bytes of a reply by UDP
	headerSize    = 12
	nodeQuestions = 32  // queries of a node, in progress at the same time
	mostQuestions = 512 // queries of all nodes
	nodeStreams   = 4   // TCP connections of a node
	mostStreams   = 64  // TCP connections of all nodes
	ownerShare    = 4   // the nodes of one owner use at most a fourth of all
	streamTime    = 30 * time.Second
	mostStream    = 1 << 20 // bytes of the replies in a connection
	serverTime    = 2 * time.Second
	mostServers   = 3
	rounds        = 2 // how often each server is tried
	// waitingQuestions is the socket buffer for unread queries, in bytes.
	waitingQuestions = 4 << 20
)

// dnsProxy copies nodes' queries to the servers, and the replies to the nodes without
// parsing them. It refuses everything that is no ordinary query, since the servers may trust
// the host more than others. Sockets to nodes are in the egress namespace. Sockets to servers are on
// the host, since a server may listen only at the host's loopback address. Each query
// has its own socket with a random port.
type dnsProxy struct {
	e       *Router
	udp     *net.UDPConn
	tcp     *net.TCPListener
	ctx     context.Context
	stop    context.CancelFunc
	work    sync.WaitGroup
	servers atomic.Pointer[[]netip.AddrPort]
	first   atomic.Uint32 // index of the server that replied last

	mu        sync.Mutex // guards the fields below
	questions shares
	streams   shares
	owners    map[int]string // by node number
}

// shares count the queries in progress, or the TCP connections: in total, for each node
// and for each owner.
type shares struct {
	all    int
	each   map[netip.Addr]int
	owners map[string]int
}

func newShares() shares { return shares{each: map[netip.Addr]int{}, owners: map[string]int{}} }

// acquire reports whether the limits allow one more query of the node with the address
// a. most limits all queries, and mostEach those of each node. An empty owner means
// none. If acquire returns true, it has counted the query, and the caller must call
// release at the query's end.
func (s *shares) acquire(a netip.Addr, owner string, most, mostEach int) bool {
	if s.all >= most || s.each[a] >= mostEach || s.owners[owner] >= most/ownerShare {
		return false
	}
	s.all++
	s.each[a]++
	if owner != "" {
		s.owners[owner]++
	}
	return true
}

func (s *shares) release(a netip.Addr, owner string) {
	s.all--
	if s.each[a]--; s.each[a] == 0 {
		delete(s.each, a)
	}
	if owner == "" {
		return
	}
	if s.owners[owner]--; s.owners[owner] == 0 {
		delete(s.owners, owner)
	}
}

// SetOwner sets the owner of a node until the node is detached. All nodes of one owner
// share a limit of DNS queries. An empty owner removes the node's owner.
func (e *Router) SetOwner(number int, owner string) {
	e.names.mu.Lock()
	defer e.names.mu.Unlock()
	if owner == "" {
		delete(e.names.owners, number)
		return
	}
	e.names.owners[number] = owner
}

// openNames starts the DNS proxy of nodes at the gateway's address.
func openNames(e *Router) (*dnsProxy, error) {
	n := &dnsProxy{e: e, questions: newShares(), streams: newShares(), owners: map[int]string{}}
	n.reread()
	err := netspace.Inside(e.space, func() (err error) {
		at := netip.AddrPortFrom(Gateway(), domain)
		if n.udp, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(at)); err != nil {
			return err
		}
		if n.tcp, err = net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(at)); err != nil {
			n.udp.Close()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if raw, err := n.udp.SyscallConn(); err == nil {
		// A larger buffer for bursts of many nodes; a failure does not matter.
		_ = raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, waitingQuestions)
		})
	}
	n.ctx, n.stop = context.WithCancel(context.Background())
	n.work.Go(n.answer)
	n.work.Go(n.accept)
	return n, nil
}

func (n *dnsProxy) close() {
	n.stop()
	n.udp.Close()
	n.tcp.Close()
	n.work.Wait()
}

// reread sets the servers that the proxy asks: those in the settings or, if there are none, those of the host.
func (n *dnsProxy) reread() {
	servers := n.e.options.Servers
	if len(servers) == 0 {
		servers = hostServers()
	}
	var all []netip.AddrPort
	for _, a := range servers {
		all = append(all, netip.AddrPortFrom(a, domain))
	}
	if old := n.servers.Load(); old == nil || !slices.Equal(*old, all) {
		n.servers.Store(&all)
		if len(all) == 0 {
			n.e.options.Log.Warn("the host has no name server, so nodes cannot resolve names; add a nameserver line to /etc/resolv.conf, or set dns in the settings")
		}
	}
}

const resolvConf = "/etc/resolv.conf"

func hostServers() []netip.Addr {
	text, err := os.ReadFile(resolvConf)
	if err != nil {
		return nil
	}
	return parseServers(text)
}

func parseServers(text []byte) (servers []netip.Addr) {
	for line := range bytes.Lines(text) {
		f := strings.Fields(string(line))
		if len(f) < 2 || f[0] != "nameserver" {
			continue
		}
		if a, err := netip.ParseAddr(f[1]); err == nil && len(servers) < mostServers {
			servers = append(servers, a)
		}
	}
	return servers
}

// inOrder begins with the server that sent the latest reply.
func (n *dnsProxy) inOrder() []netip.AddrPort {
	all := *n.servers.Load()
	if len(all) == 0 {
		return nil
	}
	i := int(n.first.Load()) % len(all)
	return slices.Concat(all[i:], all[:i])
}

func (n *dnsProxy) answered(server netip.AddrPort) {
	if i := slices.Index(*n.servers.Load(), server); i >= 0 {
		n.first.Store(uint32(i))
	}
}

// admit reports whether the limits in s allow a new query or TCP connection of a node.
// If ok is true, the caller must call release when the query or connection ends.
func (n *dnsProxy) admit(s *shares, node netip.Addr, most, mostEach int) (release func(), ok bool) {
	number := numberOf(node)
	n.mu.Lock()
	defer n.mu.Unlock()
	owner := n.owners[number]
	if number == 0 || !s.acquire(node, owner, most, mostEach) {
		return nil, false
	}
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		s.release(node, owner)
	}, true
}

// answer serves UDP. It drops queries over the limit, which clients retry.
func (n *dnsProxy) answer() {
	b := make([]byte, mostQuestion+1)
	for n.ctx.Err() == nil {
		size, from, err := n.udp.ReadFromUDPAddrPort(b)
		if err != nil {
			time.Sleep(10 * time.Millisecond) // the error may concern one packet
			continue
		}
		if !isQuery(b[:size]) {
			if a := refusal(b[:size]); a != nil {
				_, _ = n.udp.WriteToUDPAddrPort(a, from)
			}
			continue
		}
		done, ok := n.admit(&n.questions, from.Addr(), mostQuestions, nodeQuestions)
		if !ok {
			continue
		}
		question := bytes.Clone(b[:size])
		n.work.Go(func() {
			defer done()
			if a := n.query(question); a != nil {
				_, _ = n.udp.WriteToUDPAddrPort(a, from)
			}
		})
	}
}

// query asks one server after the other, in several rounds. It returns nil if no server
// replies.
func (n *dnsProxy) query(question []byte) []byte {
	for range rounds {
		for _, server := range n.inOrder() {
			if a := n.queryServer(server, question); a != nil {
				n.answered(server)
				return a
			}
		}
	}
	return nil
}

// queryServer sends a query to a server over UDP. It returns the reply, or nil if none arrives in time.
func (n *dnsProxy) queryServer(server netip.AddrPort, question []byte) []byte {
	var c *net.UDPConn
	err := n.e.onHost(func() (err error) {
		c, err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(server))
		return err
	})
	if err != nil {
		return nil
	}
	defer c.Close()
	defer context.AfterFunc(n.ctx, func() { c.Close() })()
	_ = c.SetDeadline(time.Now().Add(serverTime))
	if _, err := c.Write(question); err != nil {
		return nil
	}
	b := make([]byte, mostReply+1)
	for {
		size, err := c.Read(b)
		if err != nil {
			return nil
		}
		// Other packets are ignored: a reply has the id of its query.
		if size >= headerSize && size <= mostReply && bytes.Equal(b[:2], question[:2]) {
			return b[:size]
		}
	}
}

// accept serves TCP. It resets connections over the limit.
func (n *dnsProxy) accept() {
	for n.ctx.Err() == nil {
		c, err := n.tcp.AcceptTCP()
		if err != nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		from := c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
		done, ok := n.admit(&n.streams, from, mostStreams, nodeStreams)
		if !ok {
			_ = c.SetLinger(0)
			c.Close()
			continue
		}
		n.work.Go(func() {
			defer done()
			defer c.Close()
			n.proxyStream(c)
		})
	}
}

// proxyStream copies between a node's TCP connection and the first server that accepts a
// connection.
func (n *dnsProxy) proxyStream(c *net.TCPConn) {
	for _, server := range n.inOrder() {
		ctx, cancel := context.WithTimeout(n.ctx, serverTime)
		var s net.Conn
		err := n.e.onHost(func() (err error) {
			s, err = new(net.Dialer).DialContext(ctx, "tcp", server.String())
			return err
		})
		cancel()
		if err != nil {
			continue
		}
		defer s.Close()
		n.answered(server)
		end := time.Now().Add(streamTime)
		_, _ = c.SetDeadline(end), s.SetDeadline(end)
		defer context.AfterFunc(n.ctx, func() { c.Close(); s.Close() })()
		forwardStream(c, s)
		return
	}
}

// forwardStream forwards one query after the other, with its reply.
func forwardStream(node, server net.Conn) {
	for left := mostStream; left > 0; {
		q, err := readMessage(node, mostQuestion)
		if err != nil {
			return
		}
		a := refusal(q)
		if isQuery(q) {
			if writeMessage(server, q) != nil {
				return
			}
			if a, err = readMessage(server, math.MaxUint16); err != nil || len(a) < headerSize || !bytes.Equal(a[:2], q[:2]) {
				return
			}
		}
		if a == nil || writeMessage(node, a) != nil {
			return
		}
		left -= len(a)
	}
}

// readMessage reads a message with its length in front.
func readMessage(r io.Reader, most int) ([]byte, error) {
	var size [2]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint16(size[:]))
	if n > most {
		return nil, errors.New("the message is too long")
	}
	b := make([]byte, n)
	_, err := io.ReadFull(r, b)
	return b, err
}

func writeMessage(w io.Writer, b []byte) error {
	_, err := w.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...))
	return err
}

// Parts of a DNS message, by RFC 1035 and 6891.
const (
	isReply      = 0x80 // in the third byte
	recursion    = 0x01 // in the third byte, which has nothing else in a query
	checkFlags   = 0x30 // in the fourth byte: AD and CD
	refused      = 5
	classIN      = 1
	typeOPT      = 41
	maxName      = 255
	maxLabel     = 63
	optionsSize  = 11     // of an OPT record without options
	answerDNSSEC = 0x8000 // the only flag of an OPT record
)

// queryTypes are the types of records that programs look up: those of hosts and services, and those that
// resolvers need to follow and to verify them.
var queryTypes = []uint16{
	1, 2, 5, 6, 12, 15, 16, 28, // A, NS, CNAME, SOA, PTR, MX, TXT, AAAA
	13, 17, 18, 29, 33, 35, 36, 37, 39, // HINFO, RP, AFSDB, LOC, SRV, NAPTR, KX, CERT, DNAME
	43, 44, 46, 47, 48, 50, 51, 52, 53, 59, 60, // DS, SSHFP, RRSIG, NSEC, DNSKEY, NSEC3, NSEC3PARAM, TLSA, SMIMEA, CDS, CDNSKEY
	61, 64, 65, 99, 256, 257, // OPENPGPKEY, SVCB, HTTPS, SPF, URI, CAA
}

// queryOptions are the EDNS options of stub resolvers: the algorithms that they understand (DAU, DHU and
// N3U, of systemd-resolved), COOKIE (of dig), the keepalive of TCP connections, and padding.
var queryOptions = []uint16{5, 6, 7, 10, 11, 12}

// isQuery reports whether b is one question of class IN for records of one of queryTypes, with an OPT
// record of version 0 at most.
func isQuery(b []byte) bool {
	if len(b) < headerSize || len(b) > mostQuestion || b[2]&^recursion != 0 || b[3]&^checkFlags != 0 {
		return false
	}
	count := func(i int) uint16 { return binary.BigEndian.Uint16(b[i:]) }
	if count(4) != 1 || count(6) != 0 || count(8) != 0 || count(10) > 1 {
		return false
	}
	i := headerSize
	for i < len(b) && b[i] != 0 {
		if b[i] > maxLabel {
			return false
		}
		i += 1 + int(b[i])
	}
	i++
	if i-headerSize > maxName || i+4 > len(b) {
		return false
	}
	kind, class := count(i), count(i+2)
	if !slices.Contains(queryTypes, kind) || class != classIN {
		return false
	}
	i += 4
	if count(10) == 0 {
		return i == len(b)
	}
	return isOptions(b[i:])
}

// isOptions reports whether b is one OPT record (RFC 6891) with nothing in it that isQuery forbids.
func isOptions(b []byte) bool {
	count := func(i int) uint16 { return binary.BigEndian.Uint16(b[i:]) }
	// The bytes after the class are a code of errors, the version and two of flags.
	if len(b) < optionsSize || b[0] != 0 || count(1) != typeOPT || count(5) != 0 || count(7)&^answerDNSSEC != 0 || len(b) != optionsSize+int(count(9)) {
		return false
	}
	i := optionsSize
	for ; i < len(b); i += 4 + int(count(i+2)) {
		if i+4 > len(b) || !slices.Contains(queryOptions, count(i)) {
			return false
		}
	}
	return i == len(b)
}

// refusal returns the answer to what is no query; nil if it needs no answer.
func refusal(b []byte) []byte {
	if len(b) < headerSize || b[2]&isReply != 0 {
		return nil
	}
	a := make([]byte, headerSize)
	copy(a, b[:3])
	a[2], a[3] = isReply|b[2]&0x79, refused // with the operation and the wish for recursion
	return a
}
