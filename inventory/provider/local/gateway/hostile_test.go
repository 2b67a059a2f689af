package gateway

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"patchbay/am/testkit/wait"
	"patchbay/inventory/provider/fdsocket"
)

// startInProcess starts a gateway in the test's own process, so that its resources can be
// counted, with one node "n1".
func startInProcess(t testing.TB) (k *Manager, m *testNode, alice key, stop func()) {
	t.Helper()
	dir := t.TempDir()
	n := &node{t: t, home: dir}
	k = &Manager{
		options: Options{DialAgent: func(context.Context, string) (*fdsocket.Conn, error) { return n.connect() }},
		closing: make(chan struct{}), stopped: make(chan struct{}),
		endpoints: make(map[string]*servedEndpoint), current: newProcess(), patience: patience,
	}
	k.options.Log = quiet()
	ours, theirs, err := fdsocket.Pair()
	if err != nil {
		t.Fatal(err)
	}
	var both sync.WaitGroup
	both.Go(func() {
		if err := run(theirs, fakeNodes{}, func(int, int) error { return nil }, quiet()); err != nil {
			t.Error(err)
		}
	})
	both.Go(func() { k.receiveMessages(k.current, ours) })
	k.sendState(k.current, ours)
	alice = newKey(t)
	m = &testNode{host: newKey(t), public: listen(t)}
	m.endpoint = Endpoint{Node: "n1", HostKey: m.host.pem, Accounts: []Account{{Login: "alice", Keys: []string{alice.line}}}}
	if err := k.SetEndpoint(m.endpoint, m.public, nil); err != nil {
		t.Fatal(err)
	}
	return k, m, alice, func() {
		close(k.current.dead) // ends its heartbeat
		ours.Close()
		m.public.Close()
		both.Wait()
	}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func descriptors(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// Clients leave everything half done; afterwards the gateway has as many descriptors and
// goroutines as before. The test runs alone, because the counts include other tests.
func TestClientsLeaveNothing(t *testing.T) {
	k, m, alice, stop := startInProcess(t)
	address := m.public.Addr().String()
	try := func() {
		c, err := dial(address, "alice", alice, m.host)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for _, how := range []struct {
			name string
			do   func(s *ssh.Session) error
		}{
			{"RunsToItsEnd", func(s *ssh.Session) error { return s.Run("true") }},
			{"ClosedWhileItRuns", func(s *ssh.Session) error { return s.Start("cat") }},
			{"NeverStarted", func(*ssh.Session) error { return nil }},
			{"Agent", func(s *ssh.Session) error {
				s.SendRequest("auth-agent-req@openssh.com", true, nil)
				return s.Run("test -S $SSH_AUTH_SOCK")
			}},
			{"Terminal", func(s *ssh.Session) error {
				if err := s.RequestPty("xterm", 24, 80, nil); err != nil {
					return err
				}
				return s.Start("sleep 60")
			}},
			{"ClosedAtOnce", func(s *ssh.Session) error {
				s.SendRequest("exec", false, ssh.Marshal(struct{ Line string }{"cat"}))
				return s.Close()
			}},
		} {
			s, err := c.NewSession()
			if err == nil {
				err = how.do(s)
			}
			if err != nil {
				t.Errorf("%s: %v", how.name, err)
			}
			s.Close()
		}
		if _, err := c.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Error(err)
		}
		if l, err := c.ListenUnix(filepath.Join(t.TempDir(), "s")); err != nil {
			t.Error(err)
		} else {
			l.Close()
		}
		if nc, err := c.Dial("tcp", address); err != nil {
			t.Error(err)
		} else {
			nc.Write([]byte("half"))
		}
		half, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(half, "SSH-2.0-half\r\n\x00\x00")
		half.Close()
		if _, err := dial(address, "alice", newKey(t), m.host); err == nil {
			t.Error("a wrong key opened the endpoint")
		}
		if err := k.VerifyLogin(verifyContext(t), "n1"); err != nil {
			t.Error(err)
		}
	}
	try() // creates what is created only once
	time.Sleep(50 * time.Millisecond)
	goroutines, files := runtime.NumGoroutine(), descriptors(t)
	for range 10 {
		try()
	}
	wait.Holds(t, func() bool { return runtime.NumGoroutine() <= goroutines && descriptors(t) <= files }, func() string {
		b := make([]byte, 1<<20)
		return fmt.Sprintf("goroutines %d, before %d; descriptors %d, before %d\n%s", runtime.NumGoroutine(), goroutines,
			descriptors(t), files, b[:runtime.Stack(b, true)])
	})
	left := func() []string {
		all, _ := filepath.Glob("/tmp/ssh-*/agent")
		return slices.DeleteFunc(all, func(path string) bool { return len(filepath.Base(filepath.Dir(path))) != len("ssh-")+26 })
	}
	wait.Holds(t, func() bool { return len(left()) == 0 }, func() string { return fmt.Sprint("left behind: ", left()) })
	stop()
}

// A source that fills the places of connections without login loses its own connections.
func TestConnectionsWithoutLogin(t *testing.T) {
	var w pendingConns
	var closed atomic.Int64
	enter := func(source string) *pendingConn { return w.add(source, &silent{closed: &closed}) }
	honest := enter("192.0.2.1")
	for i := range 10 * maxSourcePending {
		enter("192.0.2.66")
		if i%100 == 0 {
			w.remove(enter("192.0.2.2"))
		}
	}
	if n := len(w.bySource["192.0.2.66"]); n != maxSourcePending || w.n != n+1 {
		t.Errorf("%d of one source, %d in all", n, w.n)
	}
	for i := range 10 * maxPending {
		enter(fmt.Sprintf("198.51.100.%d", i%6))
	}
	if w.n != maxPending || len(w.bySource["192.0.2.1"]) != 1 {
		t.Errorf("%d in all, %d of the honest one", w.n, len(w.bySource["192.0.2.1"]))
	}
	w.remove(honest)
	w.remove(honest) // it may have been evicted before
	if w.n != maxPending-1 {
		t.Errorf("%d after one left", w.n)
	}
	wait.Holds(t, func() bool { return closed.Load() == int64(10*maxSourcePending+10*maxPending+1)-maxPending }, func() string {
		return fmt.Sprintf("%d were closed", closed.Load())
	})
}

type silent struct {
	net.Conn
	closed *atomic.Int64
}

func (s *silent) Close() error { s.closed.Add(1); return nil }

// More half-open, slow and invalid connections than there are places do not keep an
// honest client out.
func TestHonestClientGetsThrough(t *testing.T) {
	t.Parallel()
	s, _, _ := newSite(t)
	alice := newKey(t)
	m := s.add("n1", Account{Login: "alice", Keys: []string{alice.line}})
	address := m.public.Addr().String()
	stop := make(chan struct{})
	var all sync.WaitGroup
	for i := range 2 * maxSourcePending {
		nc, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		switch i % 3 {
		case 0: // sends nothing
		case 1:
			all.Go(func() { // one byte at a time
				for _, b := range []byte(strings.Repeat("SSH-2.0-drip", 100)) {
					if _, err := nc.Write([]byte{b}); err != nil {
						return
					}
					select {
					case <-stop:
						return
					case <-time.After(20 * time.Millisecond):
					}
				}
			})
		case 2:
			b, _ := random(t, 4<<10)
			nc.Write(append([]byte("SSH-2.0-x\r\n"), b...))
		}
	}
	for range 5 {
		c, err := dial(address, "alice", alice, m.host)
		if err != nil {
			t.Error(err)
			continue
		}
		c.Close()
	}
	close(stop)
	all.Wait()
	if err := s.manager.VerifyLogin(verifyContext(t), "n1"); err != nil {
		t.Error(err)
	}
}

// A logged-in client may send many requests, but they use few resources, and other
// clients are unaffected.
func TestFloods(t *testing.T) {
	t.Parallel()
	s, _, _ := newSite(t)
	alice := newKey(t)
	m := s.add("n1", Account{Login: "alice", Keys: []string{alice.line}})
	login := func() *ssh.Client {
		c, err := dial(m.public.Addr().String(), "alice", alice, m.host)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	works := func(t *testing.T) {
		t.Helper()
		if err := s.manager.VerifyLogin(verifyContext(t), "n1"); err != nil {
			t.Error(err)
		}
	}
	t.Run("Channels", func(t *testing.T) {
		c := login()
		refused := 0
		for range maxChannels + 20 {
			_, requests, err := c.OpenChannel("session", nil)
			var e *ssh.OpenChannelError
			if errors.As(err, &e) && e.Reason == ssh.ResourceShortage {
				refused++
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			go ssh.DiscardRequests(requests)
		}
		if refused != 20 {
			t.Errorf("%d were refused", refused)
		}
		works(t)
	})
	t.Run("GlobalRequests", func(t *testing.T) {
		c := login()
		start := time.Now()
		for range burst + rate/2 {
			if _, _, err := c.SendRequest("tcpip-forward", true, []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took < 300*time.Millisecond {
			t.Errorf("%d requests took only %s", burst+rate/2, took)
		}
		works(t)
	})
	t.Run("Forwards", func(t *testing.T) {
		c := login()
		n := 0
		for range maxForwards + 5 {
			if l, err := c.Listen("tcp", "127.0.0.1:0"); err == nil {
				defer l.Close()
				n++
			}
		}
		if n != maxForwards {
			t.Errorf("%d ports", n)
		}
	})
	t.Run("LongOpening", func(t *testing.T) {
		c := login()
		if _, _, err := c.OpenChannel("direct-tcpip", make([]byte, maxExtra+1)); err == nil || !strings.Contains(err.Error(), "too long") {
			t.Error(err)
		}
	})
	t.Run("OutputThatNobodyReads", func(t *testing.T) {
		c := login()
		session, err := c.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		out, err := session.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := session.Start("cat /dev/zero"); err != nil {
			t.Fatal(err)
		}
		works(t)
		if _, err := io.CopyN(io.Discard, out, 8<<20); err != nil {
			t.Error(err)
		}
	})
	t.Run("InputThatNobodyReads", func(t *testing.T) {
		c := login()
		session, err := c.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		in, err := session.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := session.Start("sleep 1; exit 3"); err != nil {
			t.Fatal(err)
		}
		go io.Copy(in, zeroes{}) // until the window is full
		var exit *ssh.ExitError
		if err := session.Wait(); !errors.As(err, &exit) || exit.ExitStatus() != 3 {
			t.Error(err)
		}
		works(t)
	})
}

type zeroes struct{}

func (zeroes) Read(b []byte) (int, error) { return len(b), nil }

// At the limit of unread data, of a slice or of all, the connection with the most is
// ended. Data that is still being read does not count.
func TestUnreadDataEndsConnection(t *testing.T) {
	g := &gateway{log: quiet()}
	s := &g.backlogs
	ended := make(chan *login, 8)
	make := func(slice string) (*login, *flow) {
		c := &login{g: g, share: slice, transport: &throttledConn{backlog: &backlog{parent: s}}}
		c.stop = func() error { ended <- c; return nil }
		return c, c.flow()
	}
	wait := func(want *login) {
		t.Helper()
		if c := <-ended; c != want {
			t.Errorf("the one of slice %s was ended", c.share)
		}
		if len(ended) > 0 {
			t.Error("another one was ended, too")
		}
	}
	moving, f := make("a")
	for range 100 {
		moving.transport.backlog.received(maxUnread)
		f.begin(32<<10, true)
		moving.transport.backlog.received(maxSliceUnread / 2)
		f.end()
	}
	modest, f1 := make("a")
	f1.begin(1, true)
	modest.transport.backlog.received(maxSliceUnread / 4)
	greedy, f2 := make("a")
	f2.begin(1, false)
	greedy.transport.backlog.received(maxSliceUnread / 2)
	f2.end() // the flow still has data
	if len(ended) > 0 || s.total != maxSliceUnread/4+maxSliceUnread/2-1 {
		t.Fatalf("%d ended, %d bytes", len(ended), s.total)
	}
	modest.transport.backlog.received(maxSliceUnread / 8)
	greedy.transport.backlog.received(maxSliceUnread / 4)
	wait(greedy)
	// Each slice is below its limit, but not all together.
	var flows []*flow
	most, f3 := make("most")
	f3.begin(1, true)
	most.transport.backlog.received(maxSliceUnread)
	for left, i := maxUnread-s.total+1, 0; left > 0; left, i = left-maxSliceUnread/2, i+1 {
		c, f := make(fmt.Sprint(i))
		f.begin(1, true)
		c.transport.backlog.received(min(left, maxSliceUnread/2))
		flows = append(flows, f)
	}
	wait(most)
	for _, f := range append(flows, f1, f2, f3) {
		f.close()
	}
	if s.total != 0 || len(s.byShare) != 0 || len(s.waiting) != 0 {
		t.Errorf("left: %d, %v, %d", s.total, s.byShare, len(s.waiting))
	}
}

// A client that fills all windows of two unread connections uses little memory of the
// gateway. One whose node reads twenty connections slowly is not ended.
func TestUnreadForwardsUseLittleMemory(t *testing.T) {
	s, _, _ := newSite(t)
	alice := newKey(t)
	m := s.add("n1", Account{Login: "alice", Keys: []string{alice.line}})
	slow := s.add("n2", Account{Login: "alice", Keys: []string{alice.line}})
	slow.endpoint.Slice = "another"
	if err := s.manager.SetEndpoint(slow.endpoint, slow.public, nil); err != nil {
		t.Fatal(err)
	}
	pid := s.gatewayPID()
	deaf := listen(t)
	defer deaf.Close()
	fill := func(m *testNode, channels int) *ssh.Client {
		c, err := dial(m.public.Addr().String(), "alice", alice, m.host)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		for range channels {
			nc, err := c.Dial("tcp", deaf.Addr().String())
			if err != nil {
				break // it was ended
			}
			go io.Copy(nc, zeroes{})
		}
		return c
	}
	honest := fill(slow, 20)
	for range 2 {
		c := fill(m, maxChannels)
		over := make(chan error, 1)
		go func() { over <- c.Wait() }()
		select {
		case <-over:
		case <-time.After(time.Minute):
			t.Error("it is not ended")
		}
	}
	if _, _, err := honest.SendRequest("keepalive@openssh.com", true, nil); err != nil {
		t.Error("the one with a slow node was ended:", err)
	}
	if err := s.manager.VerifyLogin(verifyContext(t), "n1"); err != nil {
		t.Error(err)
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal("the gateway is gone:", err)
	}
	var most int
	_, rest, _ := strings.Cut(string(b), "VmHWM:")
	fmt.Sscan(rest, &most)
	t.Logf("at most %d kB", most)
	info, _ := debug.ReadBuildInfo()
	if slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return // the race detector uses more memory than the limit
	}
	if most == 0 || most > 300<<10 {
		t.Errorf("it took %d kB", most)
	}
}

// Logins beyond the limits of an account or a node are refused, and others succeed.
func TestLimitsOfLogins(t *testing.T) {
	g := &gateway{
		endpoints: map[string]*endpoint{}, keys: index{}, conns: map[*login]struct{}{}, loginsByLimit: map[string]int{}, loginsByShare: map[string]int{},
	}
	key := []byte("key")
	for _, node := range []string{"n1", "n2"} {
		g.replaceEndpoint(node, &endpoint{node: node, accounts: map[string][][]byte{"a": {key}, "b": {key}, "c": {key}}})
	}
	admit := func(node, user string) error {
		return g.admit(&login{g: g, kind: public, node: node, user: user, key: key})
	}
	for range maxAccountLogins {
		if err := admit("n1", "a"); err != nil {
			t.Fatal(err)
		}
	}
	if admit("n1", "a") == nil {
		t.Error("no limit of an account")
	}
	for range maxNodeLogins - maxAccountLogins {
		if err := admit("n1", "b"); err != nil {
			t.Fatal(err)
		}
	}
	if admit("n1", "c") == nil {
		t.Error("no limit of a node")
	}
	if err := admit("n2", "a"); err != nil {
		t.Error(err)
	}
	for c := range g.conns {
		g.removeLogin(c)
	}
	if len(g.loginsByLimit) != 0 || len(g.conns) != 0 {
		t.Errorf("left: %v", g.loginsByLimit)
	}
}

// A slice at the limit loses its own oldest logins, whatever keys and nodes they use.
// Logins of others and of VerifyLogin succeed.
func TestSliceAtLimitLosesItsOldestLogins(t *testing.T) {
	g := &gateway{
		log: quiet(), endpoints: map[string]*endpoint{}, keys: index{}, conns: map[*login]struct{}{}, loginsByLimit: map[string]int{}, loginsByShare: map[string]int{},
		verificationKeys: map[string]map[fingerprint]bool{},
	}
	mine, proof := []byte("mine"), []byte("proof")
	keys := func(slice string, n int) [][]byte {
		list := [][]byte{mine} // any user may list it
		for i := range n {
			list = append(list, fmt.Append(nil, slice, i))
		}
		return list
	}
	put := func(node, slice string, n int) {
		g.replaceEndpoint(node, &endpoint{node: node, slice: slice, accounts: map[string][][]byte{"a": keys(slice, n)}})
	}
	ended := make(chan *login, 2*maxLogins)
	admit := func(k connectionKind, node, slice string, key []byte) error {
		c := &login{g: g, kind: k, node: node, slice: slice, user: "a", key: key}
		c.stop = func() error { ended <- c; return nil }
		return g.admit(c)
	}
	put("mine", "honest", 0)
	for i := range 20 {
		put(fmt.Sprint("n", i), "greedy", 30)
	}
	for range 10 {
		if err := errors.Join(admit(public, "mine", "honest", mine), admit(jump, "", "", mine)); err != nil {
			t.Fatal(err)
		}
	}
	if g.loginsByShare["honest"] != 10 || g.loginsByShare["greedy"] != 0 {
		t.Fatalf("shares: %v", g.loginsByShare)
	}
	tried := 0
	for i := range 20 * maxAccountLogins {
		if admit(public, fmt.Sprint("n", i%20), "greedy", []byte("greedy0")) != nil {
			t.Fatal("it was refused after", tried)
		}
		tried++
	}
	for i := range 20 * maxAccountLogins {
		if admit(jump, "", "", fmt.Append(nil, "greedy", i%30)) != nil {
			t.Fatal("it was refused after", tried)
		}
		tried++
	}
	g.verificationKeys["mine"] = map[fingerprint]bool{sha256.Sum256(proof): true}
	if err := errors.Join(admit(public, "mine", "honest", mine), admit(jump, "", "", mine), admit(public, "mine", "honest", proof)); err != nil {
		t.Error("others:", err)
	}
	if g.logins != maxLogins || g.loginsByShare["honest"] != 11 || g.loginsByShare["greedy"] != maxLogins-22 {
		t.Errorf("%d logins, shares %v", g.logins, g.loginsByShare)
	}
	for range tried + 22 - maxLogins {
		if c := <-ended; c.share != "greedy" || c.sequence > uint64(20+tried+22-maxLogins) {
			t.Fatalf("number %d was ended, of %s", c.sequence, c.share)
		}
	}
	for c := range g.conns {
		g.removeLogin(c)
	}
	if g.logins != 0 || len(g.loginsByShare) != 0 || len(g.loginsByLimit) != 0 {
		t.Errorf("left: %d, %v, %v", g.logins, g.loginsByShare, g.loginsByLimit)
	}
}
