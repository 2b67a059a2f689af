package conformance_test

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"

	"patchbay/am/api/xmlrpc"
	"patchbay/am/client"
	"patchbay/am/client/conformance"
)

// mutation is one call that passes the proxy between the probe and a correct aggregate.
type mutation struct {
	version  int
	call     xmlrpc.Call
	stranger bool
	run      *mutantRun
	answer   xmlrpc.Struct // nil for a fault
}

// mutantRun is one run of the probe.
type mutantRun struct {
	mu      sync.Mutex
	started bool   // geni_start was called
	deleted bool   // Delete was called
	key     string // of geni_users
}

func (m *mutation) is(version int, methods ...string) bool {
	for _, name := range methods {
		if m.version == version && m.call.Method == name {
			return true
		}
	}
	return false
}

func (m *mutation) code() int {
	v, _ := m.answer.Get("code")
	s, _ := v.(xmlrpc.Struct)
	n, _ := s.Get("geni_code")
	code, _ := n.(int)
	return code
}

// set replaces a member of a struct, or removes it if v is nil.
func set(s xmlrpc.Struct, name string, v xmlrpc.Value) xmlrpc.Struct {
	var out xmlrpc.Struct
	for _, m := range s {
		if m.Name != name {
			out = append(out, m)
		}
	}
	if v != nil {
		out = append(out, xmlrpc.Member{Name: name, Value: v})
	}
	return out
}

func (m *mutation) setValue(v xmlrpc.Value) { m.answer = set(m.answer, "value", v) }

// succeed makes the answer a success with the value.
func (m *mutation) succeed(v xmlrpc.Value) {
	m.answer = xmlrpc.Struct{{Name: "code", Value: xmlrpc.Struct{{Name: "geni_code", Value: 0}}}, {Name: "value", Value: v}, {Name: "output", Value: ""}}
}

func (m *mutation) setCode(code int) {
	m.answer = set(m.answer, "code", xmlrpc.Struct{{Name: "geni_code", Value: code}})
	m.answer = set(m.answer, "output", "mutant")
}

func (m *mutation) value() xmlrpc.Value { v, _ := m.answer.Get("value"); return v }

// member replaces a member of the value.
func (m *mutation) member(name string, v xmlrpc.Value) {
	if s, ok := m.value().(xmlrpc.Struct); ok {
		m.setValue(set(s, name, v))
	}
}

// slivers changes each sliver of the answer.
func (m *mutation) slivers(f func(xmlrpc.Struct) xmlrpc.Struct) {
	v := m.value()
	s, inStruct := v.(xmlrpc.Struct)
	if inStruct {
		v, _ = s.Get("geni_slivers")
	}
	list, _ := v.([]xmlrpc.Value)
	out := []xmlrpc.Value{}
	for _, x := range list {
		if y, ok := x.(xmlrpc.Struct); ok {
			out = append(out, f(y))
		}
	}
	if m.code() != 0 {
		return
	}
	if inStruct {
		m.setValue(set(s, "geni_slivers", out))
	} else {
		m.setValue(out)
	}
}

// sliver replaces a member of each sliver.
func (m *mutation) sliver(name string, v xmlrpc.Value) {
	m.slivers(func(s xmlrpc.Struct) xmlrpc.Struct { return set(s, name, v) })
}

// rspec changes the document of the answer.
func (m *mutation) rspec(f func(string) string) {
	if m.code() != 0 {
		return
	}
	if s, ok := m.value().(string); ok {
		plain, err := client.Unpack(s)
		if err != nil {
			return
		}
		if changed := f(plain); plain == s {
			m.setValue(changed)
		} else {
			m.setValue(packed(changed))
		}
		return
	}
	s, _ := m.value().(xmlrpc.Struct)
	if text, ok := s.Get("geni_rspec"); ok {
		m.member("geni_rspec", f(text.(string)))
	}
}

func (m *mutation) replace(old, new string) {
	m.rspec(func(s string) string { return strings.Replace(s, old, new, 1) })
}

func packed(s string) string {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	io.WriteString(z, s)
	z.Close()
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

// credential returns the documents of the call as one text.
func (m *mutation) credential() string {
	var all strings.Builder
	for _, p := range m.call.Params {
		list, _ := p.([]xmlrpc.Value)
		for _, x := range list {
			if s, ok := x.(xmlrpc.Struct); ok {
				v, _ := s.Get("geni_value")
				x = v
			}
			if t, ok := x.(string); ok {
				all.WriteString(t)
			}
		}
	}
	return all.String()
}

func (m *mutation) option(name string) bool {
	if len(m.call.Params) == 0 {
		return false
	}
	s, _ := m.call.Params[len(m.call.Params)-1].(xmlrpc.Struct)
	v, _ := s.Get(name)
	return v == true
}

// state is the allocation state of the first sliver of the answer.
func (m *mutation) state() (state string) {
	m.slivers(func(s xmlrpc.Struct) xmlrpc.Struct {
		if v, _ := s.Get("geni_allocation_status"); state == "" {
			state, _ = v.(string)
		}
		return s
	})
	return state
}

// on returns a mutant of the answers of some methods of a version.
func on(version int, method string, f func(*mutation)) func(*mutation) {
	return func(m *mutation) {
		if m.is(version, method) {
			f(m)
		}
	}
}

// accepted returns a mutant that accepts a refused call if the condition holds.
func accepted(version int, method string, when func(*mutation) bool) func(*mutation) {
	return on(version, method, func(m *mutation) {
		if m.code() != 0 && when(m) {
			m.succeed("<rspec/>")
		}
	})
}

func runProbe(t *testing.T, ctx context.Context, c conformance.Config) *conformance.Report {
	t.Helper()
	r, err := conformance.Run(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	if r.Left != "" {
		t.Errorf("not deleted: %s", r.Left)
	}
	return r
}

// broken returns the names and texts of the broken checks.
func broken(r *conformance.Report) (list []string) {
	for _, x := range r.Results {
		if x.Verdict == conformance.Broken {
			list = append(list, x.Name+": "+x.Text)
		}
	}
	return list
}

// newMutatingProxy returns the URL of a proxy in front of an aggregate. It calls as the user of the
// folder if the client has that user's certificate, and else with another one.
func newMutatingProxy(t *testing.T, upstream, folder string, mutate func(*mutation), raw func([]byte, http.ResponseWriter) bool) string {
	t.Helper()
	alice, err := tls.LoadX509KeyPair(filepath.Join(folder, "alice-cert.pem"), filepath.Join(folder, "alice-key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	run := &mutantRun{}
	node := newFakeNode(t, run)
	var proxy *httptest.Server
	call := func(as tls.Certificate, path string, body []byte) ([]byte, int, error) {
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{as}}}
		defer transport.CloseIdleConnections()
		resp, err := (&http.Client{Transport: transport}).Post(upstream+path, "text/xml", bytes.NewReader(body))
		if err != nil {
			return nil, 0, err
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		return answer, resp.StatusCode, err
	}
	proxy = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/xml")
		if err != nil || raw != nil && raw(body, w) {
			return
		}
		stranger := !bytes.Equal(r.TLS.PeerCertificates[0].Raw, alice.Certificate[0])
		as := alice
		if stranger {
			as = proxy.TLS.Certificates[0]
		}
		answer, status, err := call(as, r.URL.Path, body)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		w.WriteHeader(status)
		w.Write(mutated(r.URL.Path, body, answer, stranger, run, node, mutate))
	}))
	proxy.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	proxy.StartTLS()
	t.Cleanup(proxy.Close)
	return proxy.URL
}

func mutated(path string, body, answer []byte, stranger bool, run *mutantRun, node string, mutate func(*mutation)) []byte {
	in, err := xmlrpc.DecodeCall(body, xmlrpc.Limits{Values: 100_000})
	if err != nil {
		return answer
	}
	m := &mutation{version: 3, call: in, stranger: stranger, run: run}
	if strings.Contains(path, "2.0") {
		m.version = 2
	}
	v, err := xmlrpc.DecodeResponse(answer, xmlrpc.Limits{Values: 1_000_000})
	if err == nil {
		m.answer, _ = v.(xmlrpc.Struct)
	}
	run.mu.Lock()
	defer run.mu.Unlock()
	switch m.call.Method {
	case "Provision":
		if m.answer != nil && len(in.Params) == 3 {
			run.key = fmt.Sprint(in.Params[2])
		}
	case "PerformOperationalAction":
		run.started = run.started || in.Params[2] == "geni_start"
	}
	if m.is(3, "Describe") { // the simulated node does not answer
		m.rspec(func(s string) string { return loginForm.ReplaceAllString(s, node) })
	}
	if mutate != nil {
		mutate(m)
	}
	run.deleted = run.deleted || m.is(3, "Delete")
	if m.answer == nil {
		return answer
	}
	out, err := xmlrpc.AppendResponse(nil, m.answer)
	if err != nil {
		panic(err)
	}
	return out
}

// loginForm matches the address in a login of the manifest.
var loginForm = regexp.MustCompile(`hostname="[^"]*" port="\d+"`)

// newFakeNode is an SSH server that accepts the key of geni_users. It returns the attributes of a
// login.
func newFakeNode(t *testing.T, run *mutantRun) string {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	host, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		run.mu.Lock()
		defer run.mu.Unlock()
		if line := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))); run.key == "any" || strings.Contains(run.key, line) {
			return nil, nil
		}
		return nil, fmt.Errorf("unknown key")
	}}
	config.AddHostKey(host)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go serveFakeNode(conn, config)
		}
	}()
	return fmt.Sprintf(`hostname="127.0.0.1" port="%d"`, l.Addr().(*net.TCPAddr).Port)
}

func serveFakeNode(conn net.Conn, config *ssh.ServerConfig) {
	defer conn.Close()
	_, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for c := range channels {
		channel, wishes, err := c.Accept()
		if err != nil {
			return
		}
		for w := range wishes {
			w.Reply(true, nil)
			if w.Type == "exec" {
				io.WriteString(channel, "probe\n")
				channel.SendRequest("exit-status", false, []byte{0, 0, 0, 0})
				channel.Close()
			}
		}
	}
}
