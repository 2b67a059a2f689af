package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/testkit/program"
	"patchbay/am/testkit/wait"
)

// These tests attack the served program, with the race detector if PATCHBAY_RACE is set.
// They have a few cases for each layer. The tables of am/server/mtls, am/server, am/api/xmlrpc,
// am/api, credentials and rspec have the others.

// hostileTest is a served site with a working user and a hostile user.
type hostileTest struct {
	*clientTestSite
	good, bad *wireClient
	slice     map[*wireClient]string
	cred      map[*wireClient]string
}

func newHostileTest(t *testing.T) *hostileTest {
	t.Helper()
	seconds := 2
	if os.Getenv("PATCHBAY_RACE") != "" {
		seconds = 20
	}
	s := &hostileTest{clientTestSite: newClientTestSite(t, instantNodes, fmt.Sprintf(
		"\nlimits: {header_timeout: %[1]ds, stall_timeout: %[1]ds, read_timeout: %[2]ds, idle_timeout: %[1]ds}\nstop_timeout: 3s\n", seconds, 2*seconds)),
		slice: map[*wireClient]string{}, cred: map[*wireClient]string{}}
	s.good, s.bad = s.newClient(t, "alice", 3), s.newClient(t, "attacker", 3)
	for _, v := range []*wireClient{s.good, s.bad} {
		s.slice[v], s.cred[v], _ = v.slice(v.URN.Name, 2)
	}
	return s
}

// wantWorking fails unless the working user can reserve a node over a new connection.
func (s *hostileTest) wantWorking(t *testing.T) {
	t.Helper()
	s.good.http.CloseIdleConnections()
	v := *s.good
	v.t = t
	grant := v.creds(s.cred[s.good])
	v.want("Allocate", am.Success, s.slice[s.good], grant, program.SmallRequest, xmlrpc.Struct{})
	v.want("Delete", am.Success, urns(s.slice[s.good]), grant, xmlrpc.Struct{})
}

// connect connects as the hostile user, without TLS if plain is set. That user's address is not
// that of the working user, whose connections the server could close for the same reasons.
func (s *hostileTest) connect(t *testing.T, plain bool) net.Conn {
	t.Helper()
	hostile := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	c, err := hostile.Dial("tcp", strings.TrimPrefix(s.url, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute))
	if plain {
		return c
	}
	return tls.Client(c, &tls.Config{Certificates: []tls.Certificate{s.bad.identity}, InsecureSkipVerify: true})
}

// outcome posts a body with a certificate, or without one. It returns "code 3", "fault",
// "http 413", or "cut" if the connection ended before an answer.
func (s *hostileTest) outcome(t *testing.T, body string, id ...tls.Certificate) (outcome, output string) {
	t.Helper()
	h := &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: id}}}
	defer h.CloseIdleConnections()
	resp, err := h.Post(s.url+"/am/3.0", "text/xml", strings.NewReader(body))
	if err != nil {
		return "cut", err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return "cut", err.Error()
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Sprintf("http %d", resp.StatusCode), string(text)
	}
	value, err := xmlrpc.DecodeResponse(text, xmlrpc.Limits{})
	if f, ok := errors.AsType[*xmlrpc.Fault](err); ok {
		return "fault", f.Text
	}
	output, _ = member(value, "output").(string)
	return fmt.Sprintf("code %v", member(value, "code", "geni_code")), output
}

// selfSigned returns a certificate of a user that no authority has signed.
func selfSigned(t testing.TB) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	name := &url.URL{Scheme: "urn", Opaque: "publicid:IDN+testbed.example.org+user+attacker"}
	x := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), URIs: []*url.URL{name}}
	der, err := x509.CreateCertificate(rand.Reader, x, x, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// encoded returns the body of a call.
func encoded(t testing.TB, method string, params ...xmlrpc.Value) string {
	t.Helper()
	b, err := xmlrpc.AppendCall(nil, xmlrpc.Call{Method: method, Params: params})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// post returns an HTTP 1.1 request with this body.
func post(path, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: am.example.org\r\nContent-Type: text/xml\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
}

// injectionMark begins a line that only a hostile document could write into the log.
const injectionMark = "INJECTED"

// slowConnections are ways to hold a connection: what a client sends, and whether without
// TLS.
var slowConnections = []struct {
	name, text string
	plain      bool
}{
	{"silent", "", true},
	{"part of a TLS greeting", "\x16\x03\x01\x04\x00\x01\x00\x03\xfc\x03\x03", true},
	{"half a header", "POST /am/3.0 HTTP/1.1\r\nHost: x\r\nX: ", false},
	{"a body that does not come", "POST /am/3.0 HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n", false},
	{"half a chunk", "POST /am/3.0 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n400\r\nabc", false},
	{"silent after a call", post("/am/3.0", ""), false},
}

// holdConnections opens several connections of each slow kind.
func (s *hostileTest) holdConnections(t *testing.T) (all []net.Conn) {
	t.Helper()
	for _, x := range slowConnections {
		for range 10 {
			var c net.Conn
			wait.Success(t, x.name, func() error { // on a busy host, the greeting may take too long
				c = s.connect(t, x.plain)
				_, err := io.WriteString(c, x.text)
				return err
			})
			all = append(all, c)
		}
	}
	return all
}

// resources returns the numbers of descriptors, goroutines, TLS connections and children
// of the server.
func (s *hostileTest) resources(t *testing.T) (descriptors, goroutines, connections, children int) {
	t.Helper()
	proc := fmt.Sprintf("/proc/%d", s.cmd.Process.Pid)
	open, err := os.ReadDir(proc + "/fd")
	if err != nil {
		t.Fatalf("the server is gone: %v", err)
	}
	tasks, _ := filepath.Glob(proc + "/task/*/children")
	for _, file := range tasks {
		b, _ := os.ReadFile(file) // the thread may have ended
		children += len(strings.Fields(string(b)))
	}
	_, metrics := program.Get(t, s.admin+"/metrics")
	return len(open), int(program.Metric(t, metrics, "go_goroutines")), int(program.Metric(t, metrics, "patchbay_tls_connections")), children
}

// TestHostileClients attacks each layer, beside connections that are held open. After
// each attack the working user is served. At the end the server holds as many resources
// as before, its log has only its own lines, and it stops.
func TestHostileClients(t *testing.T) {
	t.Parallel()
	s := newHostileTest(t)
	s.wantWorking(t)
	s.good.http.CloseIdleConnections()
	s.bad.http.CloseIdleConnections()
	var descriptors, goroutines int
	wait.Until(t, "the first calls have ended", func() bool {
		var connections, children int
		descriptors, goroutines, connections, children = s.resources(t)
		return connections+children == 0
	})
	held := s.holdConnections(t)
	canary := filepath.Join(t.TempDir(), "canary")
	slice, cred := s.slice[s.bad], s.cred[s.bad]
	describe := func(documents ...string) string {
		return encoded(t, "Describe", urns(slice), s.bad.creds(documents...), rspec3("GENI"))
	}
	allocate := func(inside string) string {
		return encoded(t, "Allocate", slice, s.bad.creds(cred), `<rspec xmlns="http://www.geni.net/resources/rspec/3" type="request">`+inside+"</rspec>", xmlrpc.Struct{})
	}
	const entity = `<!DOCTYPE x [<!ENTITY x SYSTEM "file:///etc/passwd">]>`
	stranger := selfSigned(t)
	eleven := s.bad.identity
	for len(eleven.Certificate) < 11 {
		eleven.Certificate = append(eleven.Certificate[:len(eleven.Certificate):len(eleven.Certificate)], stranger.Certificate[0])
	}
	for _, tt := range []struct {
		name, want, body string
		id               []tls.Certificate
	}{
		{"TLS/no certificate", "cut", encoded(t, "GetVersion"), nil},
		{"TLS/a self-signed certificate", "code 3", describe(cred), []tls.Certificate{stranger}},
		{"TLS/11 certificates", "cut", encoded(t, "GetVersion"), []tls.Certificate{eleven}},
		{"HTTP/a body beyond the limit", "http 413, cut", describe(strings.Repeat("x", 17<<20)), []tls.Certificate{s.bad.identity}},
		{"XML-RPC/16 million open brackets", "fault", strings.Repeat("<", 16<<20), []tls.Certificate{s.bad.identity}},
		{"XML-RPC/an external entity", "fault", entity + encoded(t, "GetVersion"), []tls.Certificate{s.bad.identity}},
		{"XML-RPC/a method with lines for the log", "fault", "<methodCall><methodName>x\n" + injectionMark + "\n</methodName></methodCall>", []tls.Certificate{s.bad.identity}},
		{"credentials/an external entity", "code 3", describe(entity + cred[strings.Index(cred, "?>")+2:]), []tls.Certificate{s.bad.identity}},
		{"credentials/another owner, with lines for the log", "code 3", describe(strings.Replace(cred, "<owner_urn>", "<owner_urn>\n"+injectionMark+"\r\n", 1)), []tls.Certificate{s.bad.identity}},
		{"credentials/another user's", "code 3", describe(s.cred[s.good]), []tls.Certificate{s.bad.identity}},
		{"requests/an external entity", "code 1", encoded(t, "Allocate", slice, s.bad.creds(cred), entity+program.SmallRequest, xmlrpc.Struct{}), []tls.Certificate{s.bad.identity}},
		{"requests/100,000 nodes", "code 6", allocate(strings.Repeat(`<node client_id="n"/>`, 100000)), []tls.Certificate{s.bad.identity}},
		{"provider/a name for a shell", "code 0", allocate(`<node client_id="$(touch ` + canary + `)" exclusive="false"><sliver_type name="vm"/></node>`), []tls.Certificate{s.bad.identity}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got, output string
			wait.Until(t, "the server has room for a large call", func() bool { // it still has the one before
				got, output = s.outcome(t, tt.body, tt.id...)
				return got != "code -32001"
			})
			if !strings.Contains(", "+tt.want+", ", ", "+got+", ") || len(output) > 16<<10 {
				t.Errorf("%s: %.300s; want %s", got, output, tt.want)
			}
			s.wantWorking(t)
		})
	}
	t.Run("provider/runs with the name", func(t *testing.T) {
		v := *s.bad
		v.t = t
		v.want("Provision", am.Success, urns(slice), v.creds(cred), rspec3("GENI", option("geni_users", userAccounts(v.User))))
		wait.Until(t, "the provider has created the node", func() bool {
			a := v.want("Status", am.Success, urns(slice), v.creds(cred), xmlrpc.Struct{})
			return member(v.slivers(a)[0], "geni_operational_status") != "geni_pending_allocation"
		})
		v.want("Delete", am.Success, urns(slice), v.creds(cred), xmlrpc.Struct{})
		if _, err := os.Stat(canary); err == nil {
			t.Error("the provider ran the name in a shell")
		}
	})
	t.Run("HTTP/two lengths", func(t *testing.T) {
		inner := post("/nowhere", "")
		c := s.connect(t, false)
		io.WriteString(c, fmt.Sprintf("POST /am/3.0 HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n%s", 5+len(inner), inner))
		answers, _ := io.ReadAll(c)
		if n := strings.Count(string(answers), "HTTP/1.1 "); n > 1 {
			t.Errorf("%d answers to a request with two lengths:\n%.1000s", n, answers)
		}
		s.wantWorking(t)
	})
	t.Run("TLS/plain HTTP", func(t *testing.T) {
		c := s.connect(t, true)
		io.WriteString(c, post("/am/3.0", ""))
		if answer, _ := io.ReadAll(c); strings.Contains(string(answer), "HTTP/") {
			t.Errorf("answered without TLS: %.200q", answer)
		}
	})
	t.Run("limits/400 connections of one address", func(t *testing.T) {
		for range 400 {
			s.connect(t, true)
		}
		s.wantWorking(t)
		wait.Until(t, "the metrics count the limit", func() bool {
			_, metrics := program.Get(t, s.admin+"/metrics")
			return strings.Contains(metrics, "patchbay_limited_total{limit=\"max_connections_per_address\"}")
		})
	})
	for i, c := range held {
		c.SetDeadline(time.Now().Add(time.Minute))
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the server does not close the connection", slowConnections[i/10].name)
		}
	}
	s.bad.http.CloseIdleConnections()
	s.good.http.CloseIdleConnections()
	wait.Clear(t, func() string {
		d, g, connections, children := s.resources(t)
		if connections+children == 0 && d <= descriptors+8 && g <= goroutines+8 {
			return ""
		}
		return fmt.Sprintf("the server keeps %d descriptors, %d goroutines, %d connections and %d children; before the attacks it had %d descriptors and %d goroutines",
			d, g, connections, children, descriptors, goroutines)
	})

	s.holdConnections(t)
	s.wantWorking(t)
	ended := make(chan error, 1)
	s.cmd.Process.Signal(syscall.SIGTERM)
	go func() { ended <- s.cmd.Wait() }()
	select {
	case err := <-ended:
		s.cmd = nil
		if err != nil {
			t.Errorf("the server did not stop well beside open connections: %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("the server did not stop beside open connections")
	}
	for line := range strings.Lines(program.ReadFile(t, s.log.Name())) {
		if !strings.HasPrefix(line, "time=") || len(line) > 64<<10 || strings.Contains(line, "panic") {
			t.Errorf("a line in the log that is not the server's own, or too long: %.300q", line)
		}
	}
}
