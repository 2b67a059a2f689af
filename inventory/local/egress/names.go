package egress

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/inventory/local/netspace"
)

const domain = 53 // the port of name servers

// Bounds of the relay of names.
const (
	mostQuestion  = 4096 // bytes of a datagram, either way
	leastQuestion = 12   // a header
	nodeQuestions = 32   // of a node, under way at the same time
	mostQuestions = 512  // of all
	nodeStreams   = 4    // connections of a node
	mostStreams   = 64
	ownerShare    = 4 // the nodes of one owner have a fourth of all at most
	streamTime    = 30 * time.Second
	mostStream    = 1 << 20 // bytes, either way
	serverTime    = 2 * time.Second
	mostServers   = 3
	rounds        = 2 // over all servers
	// waitingQuestions is what the kernel may keep of what was not read yet, in bytes.
	waitingQuestions = 4 << 20
)

// names answers nodes who ask for names: it passes what they say on to the
// servers, and back what those say, and understands neither. Sockets towards
// nodes are in the exit, those towards servers in the host, for a server may be
// at the host's loopback; each question has one of its own, with a port that
// nobody can guess.
type names struct {
	e       *Router
	udp     *net.UDPConn
	tcp     *net.TCPListener
	ctx     context.Context
	stop    context.CancelFunc
	work    sync.WaitGroup
	servers atomic.Pointer[[]netip.AddrPort]
	first   atomic.Uint32 // of servers: the one that answered last

	mu        sync.Mutex // guards what follows
	questions shares
	streams   shares
	owners    map[int]string // by the number of a node
}

// shares count what is under way, in all, for each node and for each owner.
type shares struct {
	all    int
	each   map[netip.Addr]int
	owners map[string]int
}

func newShares() shares { return shares{each: map[netip.Addr]int{}, owners: map[string]int{}} }

// take takes a share for a node of the owner, empty for a node alone; give gives
// it back.
func (s *shares) take(a netip.Addr, owner string, most, mostEach int) bool {
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

func (s *shares) give(a netip.Addr, owner string) {
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

// SetOwner says whose the node of that number is, until it is detached: the nodes of one
// owner cannot take all that there is for names.
func (e *Router) SetOwner(number int, owner string) {
	e.names.mu.Lock()
	defer e.names.mu.Unlock()
	if owner == "" {
		delete(e.names.owners, number)
		return
	}
	e.names.owners[number] = owner
}

// openNames begins to answer.
func openNames(e *Router) (*names, error) {
	n := &names{e: e, questions: newShares(), streams: newShares(), owners: map[int]string{}}
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
		// Room for bursts of many nodes; less is no reason to stop.
		_ = raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, waitingQuestions)
		})
	}
	n.ctx, n.stop = context.WithCancel(context.Background())
	n.work.Go(n.answer)
	n.work.Go(n.accept)
	return n, nil
}

func (n *names) close() {
	n.stop()
	n.udp.Close()
	n.tcp.Close()
	n.work.Wait()
}

// reread looks who the servers are.
func (n *names) reread() {
	servers := n.e.o.Servers
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
			n.e.o.Log.Warn("this host names no name server, so nodes find no names; add a line nameserver to /etc/resolv.conf, or name servers in the settings: dns")
		}
	}
}

const resolvConf = "/etc/resolv.conf"

// hostServers are those that the host asks.
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

// inOrder are the servers, the one that answered last first.
func (n *names) inOrder() []netip.AddrPort {
	all := *n.servers.Load()
	if len(all) == 0 {
		return nil
	}
	i := int(n.first.Load()) % len(all)
	return slices.Concat(all[i:], all[:i])
}

func (n *names) answered(by netip.AddrPort) {
	if i := slices.Index(*n.servers.Load(), by); i >= 0 {
		n.first.Store(uint32(i))
	}
}

// admit counts what begins for the node with an address, unless that is too much;
// done is to be called at its end.
func (n *names) admit(s *shares, from netip.Addr, most, mostEach int) (done func(), ok bool) {
	number := numberOf(from)
	n.mu.Lock()
	defer n.mu.Unlock()
	owner := n.owners[number]
	if number == 0 || !s.take(from, owner, most, mostEach) {
		return nil, false
	}
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		s.give(from, owner)
	}, true
}

// answer takes questions. More than may be under way are lost, as on any way:
// who asks asks again.
func (n *names) answer() {
	b := make([]byte, mostQuestion+1)
	for n.ctx.Err() == nil {
		size, from, err := n.udp.ReadFromUDPAddrPort(b)
		if err != nil {
			time.Sleep(10 * time.Millisecond) // an error of one packet
			continue
		}
		if size < leastQuestion || size > mostQuestion {
			continue
		}
		done, ok := n.admit(&n.questions, from.Addr(), mostQuestions, nodeQuestions)
		if !ok {
			continue
		}
		question := bytes.Clone(b[:size])
		n.work.Go(func() {
			defer done()
			if a := n.ask(question); a != nil {
				_, _ = n.udp.WriteToUDPAddrPort(a, from)
			}
		})
	}
}

// ask asks one server after the other.
func (n *names) ask(question []byte) []byte {
	for range rounds {
		for _, server := range n.inOrder() {
			if a := n.askOne(server, question); a != nil {
				n.answered(server)
				return a
			}
		}
	}
	return nil
}

func (n *names) askOne(server netip.AddrPort, question []byte) []byte {
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
	b := make([]byte, mostQuestion+1)
	for {
		size, err := c.Read(b)
		if err != nil {
			return nil
		}
		// The number of the question is that of its answer.
		if size >= leastQuestion && size <= mostQuestion && bytes.Equal(b[:2], question[:2]) {
			return b[:size]
		}
	}
}

// accept takes connections.
func (n *names) accept() {
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
			n.join(c)
		})
	}
}

// join passes a stream on to the first server that takes it.
func (n *names) join(c *net.TCPConn) {
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
		up := s.(*net.TCPConn)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = io.Copy(up, io.LimitReader(c, mostStream))
			_ = up.CloseWrite()
		}()
		_, _ = io.Copy(c, io.LimitReader(up, mostStream))
		// The server has said all.
		c.Close()
		<-done
		return
	}
}
