package main

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/xmlrpc"
	"patchbay/credentials/trial"

	"patchbay/am/testkit/require"
)

// The hostile-client suite: the served program, with the race detector where
// PATCHBAY_RACE is set, against everything that a client can send. The cases
// are in the files e2e_hostile*_test.go, one for each layer of the protocol.

// siegeConfig makes the server's patience short enough to be seen to end. The
// race detector makes everything slower, so it gets more of it.
func siegeConfig() string {
	seconds := 1
	if os.Getenv("PATCHBAY_RACE") != "" {
		seconds = 4
	}
	return fmt.Sprintf(`
limits:
  header_timeout: %ds
  stall_timeout: %ds
  read_timeout: %ds
  idle_timeout: %ds
stop_timeout: 3s
`, 6*seconds, 6*seconds, 15*seconds, 6*seconds)
}

// mega is a megabyte; the race detector makes reading many times as slow, so
// beside it what is large is a fourth as large.
var mega = func() int {
	if os.Getenv("PATCHBAY_RACE") != "" {
		return 1 << 18
	}
	return 1 << 20
}()

// siege is a served site, somebody who works there, and two with a certificate
// and credentials in good order who do not: one who sends what is wrong, and one
// who only holds what he gets.
type siege struct {
	*strangersSite
	good, bad, idle *worker
	forged          *forger
	// canary is a file that no document may bring into being.
	canary string
}

// worker is a visitor with a slice.
type worker struct {
	*visitor
	slice, cred string
}

func newSiege(t *testing.T) *siege {
	t.Helper()
	s := newServed(t, "testbed.example.org", nil, nil)
	s.settings("timing: {make: 0s, start: 0s, stop: 0s, restart: 0s, users: 0s, remove: 0s}\n")
	file := filepath.Join(s.dir, "patchbay.yaml")
	if err := os.WriteFile(file, append([]byte(readFile(t, file)), siegeConfig()...), 0o644); err != nil {
		t.Fatal(err)
	}
	s.start()
	a, err := trial.Open(filepath.Join(s.dir, "authority"))
	if err != nil {
		t.Fatal(err)
	}
	g := &siege{strangersSite: &strangersSite{s, a}, canary: filepath.Join(t.TempDir(), "canary")}
	hire := func(name string) *worker {
		w := &worker{visitor: g.visit(t, name, 3)}
		w.http.Timeout = time.Minute
		w.slice, w.cred, _ = w.visitor.slice(name, 2)
		return w
	}
	g.good, g.bad, g.idle = hire("alice"), hire("attacker"), hire("idle")
	g.forged = newForger(t, g)
	return g
}

// still demands that the server lives and serves a good client over a
// connection of its own, in all that matters: who it is, what it offers, and a
// reservation that is made and given back.
func (s *siege) still(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.Signal(0)); err != nil {
		t.Fatalf("the server is gone: %v", err)
	}
	s.good.http.CloseIdleConnections()
	v := *s.good.visitor
	v.t = t
	if got := member(v.want("GetVersion", am.Success), "geni_api"); got != 3 {
		t.Errorf("GetVersion: geni_api is %v", got)
	}
	v.rspec(v.want("ListResources", am.Success, v.creds(string(v.Credential)), rspec3("GENI")), "advertisement")
	made := v.want("Allocate", am.Success, s.good.slice, v.creds(s.good.cred), soakRequest, xmlrpc.Struct{})
	if n := len(v.slivers(made)); n != 1 {
		t.Errorf("Allocate: %d slivers, want 1", n)
	}
	v.want("Delete", am.Success, urns(s.good.slice), v.creds(s.good.cred), xmlrpc.Struct{})
}

// door is the address that clients connect to.
func (s *siege) door() string { return strings.TrimPrefix(s.url, "https://") }

// knock connects from the loopback address 127.0.0.host, without TLS.
func (s *siege) knock(host byte) (*net.TCPConn, error) {
	d := net.Dialer{Timeout: time.Minute, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, host)}}
	c, err := d.Dial("tcp", s.door())
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil
}

// enter connects with a certificate and finishes the handshake, as far as the
// client's side can tell.
func (s *siege) enter(host byte, id tls.Certificate) (*tls.Conn, error) {
	c, err := s.knock(host)
	if err != nil {
		return nil, err
	}
	c.SetDeadline(time.Now().Add(time.Minute))
	t := tls.Client(c, &tls.Config{Certificates: []tls.Certificate{id}, InsecureSkipVerify: true})
	if err := t.Handshake(); err != nil {
		c.Close()
		return nil, err
	}
	return t, nil
}

// as is a client for HTTP that shows these certificates.
func (s *siege) as(t *testing.T, change func(*tls.Config)) *http.Client {
	c := &tls.Config{InsecureSkipVerify: true}
	change(c)
	h := &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: c, DisableCompression: true}}
	t.Cleanup(h.CloseIdleConnections)
	return h
}

// attack is one case. It says itself what must come of it; that the server
// serves others all the while is asked after each.
type attack struct {
	name string
	run  func(t *testing.T, s *siege)
}

// TestHostileClients plays every case against one served program, and all of them
// again where PATCHBAY_LONG is set; it works
// as a good client between any two, and looks from outside at what is left of
// them in the process: descriptors, threads, goroutines, TLS sessions, memory.
// While the first cases of a round are played, hundreds of connections stand
// that take all the time they are given.
func TestHostileClients(t *testing.T) {
	s := newSiege(t)
	s.still(t)
	w := &watch{s: s}
	w.settle(t, "at first")
	rounds := []int{1000}
	if require.Long() {
		rounds = append(rounds, 5000)
	}
	for round, connections := range rounds {
		gone := s.besiege(t)
		for _, layer := range []struct {
			name  string
			cases []attack
		}{
			{"TLS", tlsAttacks()}, {"HTTP", httpAttacks()}, {"XML-RPC", callAttacks()}, {"credentials", credentialAttacks()}, {"requests", requestAttacks()},
			{"limits", limitAttacks()}, {"together", crowdAttacks(connections)},
		} {
			t.Run(fmt.Sprintf("round %d/%s", round+1, layer.name), func(t *testing.T) {
				for _, a := range layer.cases {
					t.Run(a.name, func(t *testing.T) {
						s.forged.t = t
						a.run(t, s)
						s.still(t)
					})
				}
			})
		}
		gone()
		w.settle(t, fmt.Sprintf("after round %d", round+1))
		w.read(t)
	}
	if len(rounds) > 1 {
		w.flat(t)
	}
	if _, err := os.Stat(s.canary); err == nil {
		t.Errorf("a document has made the file %s", s.canary)
	}
	s.stopUnderSiege(t)
}

// stopUnderSiege ends the server while hostile connections of each kind stand:
// it must go in good order all the same.
func (s *siege) stopUnderSiege(t *testing.T) {
	t.Helper()
	var open []net.Conn
	for _, p := range patients() {
		for range 3 {
			c, err := p.open(s)
			if err != nil {
				t.Fatalf("%s: %v", p.name, err)
			}
			defer c.Close()
			open = append(open, c)
		}
	}
	s.still(t)
	ended := make(chan error, 1)
	s.cmd.Process.Signal(syscall.SIGTERM)
	go func() { ended <- s.cmd.Wait() }()
	select {
	case err := <-ended:
		s.cmd = nil
		if err != nil {
			t.Errorf("the server did not stop well beside %d hostile connections: %v", len(open), err)
		}
	case <-time.After(time.Minute):
		t.Errorf("the server did not stop beside %d hostile connections", len(open))
	}
	log := []byte(s.logged())
	for _, word := range []string{"panic", "fatal error", "DATA RACE", "runtime error", "concurrent map"} {
		if i := bytes.Index(log, []byte(word)); i >= 0 {
			t.Errorf("the log tells of a %s:\n%s", word, log[i:min(len(log), i+2000)])
		}
	}
}
