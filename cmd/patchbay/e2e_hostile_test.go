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

// hostileTestConfig returns a configuration with short time limits. With the race
// detector, which is slow, they are longer.
func hostileTestConfig() string {
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

// largeSize is the size of large texts: 1 MB, or a quarter of that with the slow race
// detector.
var largeSize = func() int {
	if os.Getenv("PATCHBAY_RACE") != "" {
		return 1 << 18
	}
	return 1 << 20
}()

// hostileTest is a served site with a working user and two hostile users with valid
// certificates and credentials: one sends wrong calls, the other only holds connections.
type hostileTest struct {
	*clientTestSite
	good, bad, idle *worker
	forged          *certificateForger
	// canary is a file that no document may create.
	canary string
}

// worker is a client with a slice.
type worker struct {
	*wireClient
	slice, cred string
}

func newHostileTest(t *testing.T) *hostileTest {
	t.Helper()
	s := newServedSite(t, "testbed.example.org", nil, nil)
	s.appendSettings("timing: {make: 0s, start: 0s, stop: 0s, restart: 0s, users: 0s, remove: 0s}\n")
	file := filepath.Join(s.dir, "patchbay.yaml")
	if err := os.WriteFile(file, append([]byte(readFile(t, file)), hostileTestConfig()...), 0o644); err != nil {
		t.Fatal(err)
	}
	s.start()
	a, err := trial.Open(filepath.Join(s.dir, "authority"))
	if err != nil {
		t.Fatal(err)
	}
	g := &hostileTest{clientTestSite: &clientTestSite{s, a}, canary: filepath.Join(t.TempDir(), "canary")}
	hire := func(name string) *worker {
		w := &worker{wireClient: g.newClient(t, name, 3)}
		w.http.Timeout = time.Minute
		w.slice, w.cred, _ = w.wireClient.slice(name, 2)
		return w
	}
	g.good, g.bad, g.idle = hire("alice"), hire("attacker"), hire("idle")
	g.forged = newCertificateForger(t, g)
	return g
}

// wantWorking fails unless the server serves the working user over a new connection:
// GetVersion, ListResources, and a reservation that is created and deleted.
func (s *hostileTest) wantWorking(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.Signal(0)); err != nil {
		t.Fatalf("the server is gone: %v", err)
	}
	s.good.http.CloseIdleConnections()
	v := *s.good.wireClient
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

// address returns the address for clients.
func (s *hostileTest) address() string { return strings.TrimPrefix(s.url, "https://") }

// connect connects from the loopback address 127.0.0.host, without TLS.
func (s *hostileTest) connect(host byte) (*net.TCPConn, error) {
	d := net.Dialer{Timeout: time.Minute, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, host)}}
	c, err := d.Dial("tcp", s.address())
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil
}

// connectTLS connects with a certificate and finishes the handshake, as far as the client
// can tell.
func (s *hostileTest) connectTLS(host byte, id tls.Certificate) (*tls.Conn, error) {
	c, err := s.connect(host)
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

// httpClient returns an HTTP client with a changed TLS configuration.
func (s *hostileTest) httpClient(t *testing.T, change func(*tls.Config)) *http.Client {
	c := &tls.Config{InsecureSkipVerify: true}
	change(c)
	h := &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: c, DisableCompression: true}}
	t.Cleanup(h.CloseIdleConnections)
	return h
}

// attack is one case. It checks its own outcome; afterwards the test checks that the
// server still works.
type attack struct {
	name string
	run  func(t *testing.T, s *hostileTest)
}

// TestHostileClients runs every case against one server, twice if PATCHBAY_LONG is set.
// Between cases it makes calls as a working user, and measures the process: descriptors,
// threads, goroutines, TLS sessions, memory. During the first cases of a round hundreds
// of slow connections are open.
func TestHostileClients(t *testing.T) {
	s := newHostileTest(t)
	s.wantWorking(t)
	w := &resourceWatch{s: s}
	w.awaitIdle(t, "at first")
	rounds := []int{1000}
	if require.Long() {
		rounds = append(rounds, 5000)
	}
	for round, connections := range rounds {
		gone := s.startPatientAttacks(t)
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
						s.wantWorking(t)
					})
				}
			})
		}
		gone()
		w.awaitIdle(t, fmt.Sprintf("after round %d", round+1))
		w.checkLog(t)
	}
	if len(rounds) > 1 {
		w.wantNoGrowth(t)
	}
	if _, err := os.Stat(s.canary); err == nil {
		t.Errorf("a document has made the file %s", s.canary)
	}
	s.stopUnderAttack(t)
}

// stopUnderAttack stops the server while hostile connections of each kind are open; it
// must end cleanly.
func (s *hostileTest) stopUnderAttack(t *testing.T) {
	t.Helper()
	var open []net.Conn
	for _, p := range patientAttacks() {
		for range 3 {
			c, err := p.open(s)
			if err != nil {
				t.Fatalf("%s: %v", p.name, err)
			}
			defer c.Close()
			open = append(open, c)
		}
	}
	s.wantWorking(t)
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
	log := []byte(s.newLog())
	for _, word := range []string{"panic", "fatal error", "DATA RACE", "runtime error", "concurrent map"} {
		if i := bytes.Index(log, []byte(word)); i >= 0 {
			t.Errorf("the log tells of a %s:\n%s", word, log[i:min(len(log), i+2000)])
		}
	}
}
