package main

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
	"time"

	"golang.org/x/crypto/ssh"

	"patchbay/am/client"
	"patchbay/am/conformance"
	"patchbay/am/testkit/wait"
	"patchbay/am/xmlrpc"
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

// probeMutants has, for each mutant of the aggregate, the only check that must call it broken.
var probeMutants = []struct {
	check, name string
	mutate      func(*mutation)
	http        func(body []byte, w http.ResponseWriter) (done bool)
}{
	{check: "transport.answers", name: "redirected", http: func(_ []byte, w http.ResponseWriter) bool {
		w.Header().Set("Location", "https://example.org/")
		w.WriteHeader(http.StatusMovedPermanently)
		return true
	}},
	{check: "transport.content-type", name: "HTML", http: func(_ []byte, w http.ResponseWriter) bool {
		w.Header().Set("Content-Type", "text/html")
		return false
	}},
	{check: "transport.bad-xml", name: "status 500", http: func(body []byte, w http.ResponseWriter) bool {
		if _, err := xmlrpc.DecodeCall(body, xmlrpc.Limits{}); err == nil {
			return false
		}
		w.WriteHeader(http.StatusInternalServerError)
		return true
	}},
	{check: "transport.unknown-method", name: "succeeds", mutate: on(3, "NoSuchMethodOfAnyVersion", func(m *mutation) { m.succeed("") })},
	{check: "transport.arguments", name: "seven are accepted", mutate: on(3, "ListResources", func(m *mutation) {
		if len(m.call.Params) == 7 {
			m.succeed("")
		}
	})},
	{check: "version3.answer", name: "wrong geni_api", mutate: on(3, "GetVersion", func(m *mutation) { m.member("geni_api", 2) })},
	{check: "version3.answer", name: "geni_api as text", mutate: on(3, "GetVersion", func(m *mutation) { m.member("geni_api", "3") })},
	{check: "version3.urls", name: "own version missing", mutate: on(3, "GetVersion", func(m *mutation) {
		m.member("geni_api_versions", xmlrpc.Struct{{Name: "2", Value: "https://am.example.org/am/2.0"}})
	})},
	{check: "version3.urls", name: "no URL", mutate: on(3, "GetVersion", func(m *mutation) {
		m.member("geni_api_versions", xmlrpc.Struct{{Name: "2", Value: "https://am.example.org/am/2.0"}, {Name: "3", Value: "here"}})
	})},
	{check: "version3.rspecs", name: "empty", mutate: on(3, "GetVersion", func(m *mutation) { m.member("geni_ad_rspec_versions", []xmlrpc.Value{}) })},
	{check: "version3.credentials", name: "version as number", mutate: on(3, "GetVersion", func(m *mutation) {
		m.member("geni_credential_types", []xmlrpc.Value{xmlrpc.Struct{{Name: "geni_type", Value: "geni_sfa"}, {Name: "geni_version", Value: 3}}})
	})},
	{check: "version2.answer", name: "wrong geni_api", mutate: on(2, "GetVersion", func(m *mutation) { m.member("geni_api", 3) })},
	{check: "version2.rspecs", name: "missing", mutate: on(2, "GetVersion", func(m *mutation) { m.member("geni_request_rspec_versions", nil) })},
	{check: "advertisement3.xml", name: "of another type", mutate: on(3, "ListResources", func(m *mutation) { m.replace(`type="advertisement"`, `type="request"`) })},
	{check: "advertisement3.xml", name: "cut off", mutate: on(3, "ListResources", func(m *mutation) { m.replace("</rspec>", "") })},
	{check: "advertisement3.nodes", name: "a component twice", mutate: on(3, "ListResources", func(m *mutation) {
		m.rspec(func(s string) string { return strings.ReplaceAll(s, "+node+pc2\"", "+node+pc1\"") })
	})},
	{check: "advertisement3.compressed", name: "another text", mutate: on(3, "ListResources", func(m *mutation) {
		if m.option("geni_compressed") {
			m.replace("pc3", "pc4")
		}
	})},
	{check: "advertisement3.available", name: "a node in use", mutate: on(3, "ListResources", func(m *mutation) {
		if m.option("geni_available") {
			m.replace(`now="true"`, `now="false"`)
		}
	})},
	{check: "advertisement2.xml", name: "of another type", mutate: on(2, "ListResources", func(m *mutation) { m.replace(`type="advertisement"`, `type="x"`) })},
	{check: "credentials3.none", name: "accepted", mutate: accepted(3, "ListResources", func(m *mutation) bool { return m.credential() == "" && len(m.call.Params) == 2 })},
	{check: "credentials3.junk", name: "accepted", mutate: accepted(3, "ListResources", func(m *mutation) bool { return m.credential() == "<no-credential/>" })},
	{check: "credentials3.altered", name: "accepted", mutate: accepted(3, "ListResources", func(m *mutation) bool { return strings.Contains(m.credential(), "<expires>30") })},
	{check: "credentials3.altered", name: "wrong code", mutate: on(3, "ListResources", func(m *mutation) {
		if strings.Contains(m.credential(), "<expires>30") {
			m.setCode(5)
		}
	})},
	{check: "credentials3.stranger", name: "accepted", mutate: accepted(3, "ListResources", func(m *mutation) bool { return m.stranger })},
	{check: "credentials3.user-for-slice", name: "accepted", mutate: accepted(3, "Status", func(m *mutation) bool { return !strings.Contains(fmt.Sprint(m.call.Params[1]), "+slice+") })},
	{check: "credentials3.other-slice", name: "accepted", mutate: accepted(3, "Status", func(m *mutation) bool { return strings.Contains(fmt.Sprint(m.call.Params[0]), "no-such-slice") })},
	{check: "credentials3.expired", name: "accepted", mutate: accepted(3, "Status", func(m *mutation) bool { return strings.Contains(fmt.Sprint(m.call.Params[0]), "+slice+gone") })},
	{check: "credentials2.none", name: "accepted", mutate: accepted(2, "ListResources", func(m *mutation) bool { return m.credential() == "" })},
	{check: "credentials2.expired", name: "accepted", mutate: accepted(2, "SliverStatus", func(m *mutation) bool { return strings.Contains(fmt.Sprint(m.call.Params[0]), "+slice+gone") })},
	{check: "life3.empty", name: "succeeds", mutate: on(3, "Status", func(m *mutation) {
		if m.code() == 12 && !m.run.deleted && !strings.Contains(fmt.Sprint(m.call.Params[0]), "no-such-slice") {
			m.succeed(xmlrpc.Struct{{Name: "geni_slivers", Value: []xmlrpc.Value{}}})
		}
	})},
	{check: "life3.allocate", name: "wrong state", mutate: on(3, "Allocate", func(m *mutation) { m.sliver("geni_allocation_status", "geni_provisioned") })},
	{check: "life3.allocate", name: "lost sliver", mutate: on(3, "Allocate", func(m *mutation) { m.member("geni_slivers", []xmlrpc.Value{}) })},
	{check: "life3.allocate", name: "wrong code", mutate: on(3, "Allocate", func(m *mutation) { m.setCode(6) })},
	{check: "life3.lease", name: "longer than the credential", mutate: on(3, "Status", func(m *mutation) { m.sliver("geni_expires", "2099-01-01T00:00:00Z") })},
	{check: "life3.lease", name: "in the past", mutate: on(3, "Status", func(m *mutation) { m.sliver("geni_expires", "2020-01-01T00:00:00Z") })},
	{check: "life3.status", name: "another sliver", mutate: on(3, "Status", func(m *mutation) {
		if m.state() == "geni_allocated" {
			m.sliver("geni_sliver_urn", "urn:publicid:IDN+testbed.example.org+sliver+other")
		}
	})},
	{check: "life3.provision", name: "another sliver", mutate: on(3, "Provision", func(m *mutation) { m.sliver("geni_sliver_urn", "urn:publicid:IDN+testbed.example.org+sliver+other") })},
	{check: "life3.configured", name: "failed", mutate: on(3, "Status", func(m *mutation) {
		if m.state() == "geni_provisioned" && !m.run.started {
			m.sliver("geni_operational_status", "geni_failed")
		}
	})},
	{check: "life3.started", name: "failed", mutate: on(3, "Status", func(m *mutation) {
		if m.run.started && !m.run.deleted {
			m.sliver("geni_operational_status", "geni_failed")
		}
	})},
	{check: "life3.describe", name: "another slice", mutate: on(3, "Describe", func(m *mutation) { m.member("geni_urn", "urn:publicid:IDN+testbed.example.org+slice+x") })},
	{check: "life3.describe", name: "no manifest", mutate: on(3, "Describe", func(m *mutation) { m.replace(`type="manifest"`, `type="request"`) })},
	{check: "life3.renew", name: "another time", mutate: on(3, "Renew", func(m *mutation) { m.sliver("geni_expires", "2026-01-01T00:00:00Z") })},
	{check: "life3.renew-too-long", name: "accepted", mutate: on(3, "Renew", func(m *mutation) {
		if m.code() != 0 {
			m.succeed([]xmlrpc.Value{xmlrpc.Struct{
				{Name: "geni_sliver_urn", Value: "urn:publicid:IDN+testbed.example.org+sliver+1"}, {Name: "geni_allocation_status", Value: "geni_provisioned"},
				{Name: "geni_expires", Value: m.call.Params[2]},
			}})
		}
	})},
	{check: "life3.unknown-action", name: "accepted", mutate: on(3, "PerformOperationalAction", func(m *mutation) {
		if m.code() != 0 {
			m.succeed([]xmlrpc.Value{})
		}
	})},
	{check: "life3.delete", name: "wrong state", mutate: on(3, "Delete", func(m *mutation) { m.sliver("geni_allocation_status", "geni_provisioned") })},
	{check: "life3.deleted", name: "still there", mutate: on(3, "Status", func(m *mutation) {
		if m.run.deleted {
			m.succeed(xmlrpc.Struct{{Name: "geni_slivers", Value: []xmlrpc.Value{}}})
		}
	})},
	{check: "life3.delete-again", name: "wrong code", mutate: on(3, "Delete", func(m *mutation) {
		if m.code() == 12 || len(fmt.Sprint(m.value())) < 4 {
			m.setCode(5)
		}
	})},
	{check: "documents3.extension", name: "a reference resolved", mutate: on(3, "Describe", func(m *mutation) { m.replace("&#xE9;", "é") })},
	{check: "documents3.foreign", name: "a comment lost", mutate: on(3, "Describe", func(m *mutation) { m.replace("<!-- not ours -->", "") })},
	{check: "documents3.client-ids", name: "renamed", mutate: on(3, "Describe", func(m *mutation) { m.replace(`client_id="probe"`, `client_id="node-0"`) })},
	{check: "documents3.sliver-ids", name: "lost", mutate: on(3, "Describe", func(m *mutation) { m.replace("sliver_id=", "sliver_name=") })},
	{check: "login3.offered", name: "lost", mutate: on(3, "Describe", func(m *mutation) {
		m.rspec(func(s string) string { return strings.ReplaceAll(s, "ssh-keys", "password") })
	})},
	{check: "login3.works", name: "refuses the key", mutate: on(3, "Provision", func(m *mutation) { m.run.key = "none" })},
	{check: "login3.refuses-other-keys", name: "accepts any key", mutate: on(3, "Provision", func(m *mutation) { m.run.key = "any" })},
	{check: "life2.create", name: "no manifest", mutate: on(2, "CreateSliver", func(m *mutation) { m.setValue(true) })},
	{check: "life2.status", name: "failed", mutate: on(2, "SliverStatus", func(m *mutation) { m.member("geni_status", "failed") })},
	{check: "life2.status", name: "another slice", mutate: on(2, "SliverStatus", func(m *mutation) { m.member("geni_urn", "urn:publicid:IDN+x+slice+y") })},
	{check: "life2.manifest", name: "of another type", mutate: on(2, "ListResources", func(m *mutation) { m.replace(`type="manifest"`, `type="request"`) })},
	{check: "life2.renew", name: "false", mutate: on(2, "RenewSliver", func(m *mutation) { m.setValue(false) })},
	{check: "life2.delete", name: "a text", mutate: on(2, "DeleteSliver", func(m *mutation) { m.setValue("true") })},
	{check: "life2.deleted", name: "still there", mutate: on(2, "SliverStatus", func(m *mutation) {
		if m.code() == 12 {
			m.succeed(xmlrpc.Struct{})
		}
	})},
	{check: "types3.envelope", name: "no value", mutate: on(3, "Renew", func(m *mutation) { m.setValue(nil) })},
	{check: "types3.envelope", name: "code as number", mutate: on(3, "Describe", func(m *mutation) { m.answer = set(m.answer, "code", 0) })},
	{check: "types3.envelope", name: "no output", mutate: on(3, "Status", func(m *mutation) {
		if m.run.deleted {
			m.answer = set(m.answer, "output", nil)
		}
	})},
	{check: "types3.slivers", name: "no expiry", mutate: on(3, "Provision", func(m *mutation) { m.sliver("geni_expires", nil) })},
	{check: "types3.slivers", name: "state as number", mutate: on(3, "Describe", func(m *mutation) { m.sliver("geni_allocation_status", 3) })},
	{check: "types2.envelope", name: "code as text", mutate: on(2, "RenewSliver", func(m *mutation) { m.answer = set(m.answer, "code", xmlrpc.Struct{{Name: "geni_code", Value: "0"}}) })},
}

// TestProbeNamesEachMutant runs the probe on a correct aggregate, which keeps everything, and on
// mutants of it. For each, exactly one check must be broken.
func TestProbeNamesEachMutant(t *testing.T) {
	if len(probeMutants) < 40 {
		t.Fatalf("only %d mutants", len(probeMutants))
	}
	lab := newProbeLab(t)
	run := func(t *testing.T, name string, mutate func(*mutation), raw func([]byte, http.ResponseWriter) bool) *conformance.Report {
		t.Helper()
		proxy := newMutatingProxy(t, lab.url, lab.folder, mutate, raw)
		c := lab.config(t, name)
		c.URL, c.Other = proxy+"/am/3.0", proxy+"/am/2.0"
		return runProbe(t, t.Context(), c)
	}
	t.Run("unchanged", func(t *testing.T) {
		r := run(t, "unchanged", nil, nil)
		if list := broken(r); list != nil || r.Count(conformance.Kept) < 60 {
			t.Errorf("%d kept; broken: %q", r.Count(conformance.Kept), list)
		}
	})
	for i, m := range probeMutants {
		t.Run(m.check+" "+m.name, func(t *testing.T) {
			t.Parallel()
			list := broken(run(t, fmt.Sprint("m", i), m.mutate, m.http))
			if len(list) != 1 || !strings.HasPrefix(list[0], m.check+": ") {
				t.Errorf("broken: %q", list)
			}
		})
	}
}

// probeLab is a correct aggregate with a user, and the credential of an expired slice.
type probeLab struct {
	dir, folder, url string
	gone             string // a file
	until            time.Time
}

func newProbeLab(t *testing.T) *probeLab {
	t.Helper()
	dir := newSiteWith(t, []string{"user", "alice"})
	removeSimulatedDelays(t, dir)
	l := &probeLab{dir: dir, folder: filepath.Join(dir, "users", "alice"), url: serve(t, dir).url}
	l.gone, l.until = l.slice(t, "gone", "2s"), time.Now().Add(3*time.Second)
	return l
}

func (l *probeLab) slice(t *testing.T, name, life string) string {
	t.Helper()
	if code, out := runCommand(t, "slice", name, "--owner", "alice", "--expires", life, "--config", l.dir); code != 0 {
		t.Fatal(out)
	}
	return filepath.Join(l.folder, "slices", name+"-cred.xml")
}

// config creates a slice. The URL is missing.
func (l *probeLab) config(t *testing.T, name string) conformance.Config {
	t.Helper()
	me, err := readCaller([]string{l.folder}, l.slice(t, name, "1d"))
	if err != nil {
		t.Fatal(err)
	}
	c := conformance.Config{
		CertFile: me.certFile, KeyFile: me.keyFile, Wait: time.Minute, SliceURN: me.sliceURN,
		Expired: func(context.Context) ([]byte, string, error) {
			time.Sleep(time.Until(l.until))
			return []byte(readFile(t, l.gone)), "urn:publicid:IDN+testbed.example.org+slice+gone", nil
		},
	}
	for _, x := range me.credentials {
		if x.kind == "slice" {
			c.Slice, c.SliceExpires = []byte(x.text), x.expires
		} else {
			c.User = []byte(x.text)
		}
	}
	return c
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

// TestProbeOfOneVersion runs the probe on aggregates with one version of the API.
func TestProbeOfOneVersion(t *testing.T) {
	lab := newProbeLab(t)
	for _, x := range []struct{ has, lacks string }{{"3", "2"}, {"2", "3"}} {
		t.Run("version "+x.has, func(t *testing.T) {
			proxy := newMutatingProxy(t, lab.url, lab.folder, func(m *mutation) {
				if m.call.Method == "GetVersion" {
					v, _ := m.value().(xmlrpc.Struct)
					urls, _ := v.Get("geni_api_versions")
					s, _ := urls.(xmlrpc.Struct)
					m.member("geni_api_versions", set(s, x.lacks, nil))
				}
			}, nil)
			c := lab.config(t, "only"+x.has)
			c.URL = proxy + "/am/" + x.has + ".0"
			r := runProbe(t, t.Context(), c)
			if list := broken(r); list != nil || r.Count(conformance.NotOffered) < 10 {
				t.Errorf("%d not offered; broken: %q", r.Count(conformance.NotOffered), list)
			}
			for _, y := range r.Results {
				if y.Name == "life"+x.has+".delete" && y.Verdict != conformance.Kept {
					t.Errorf("%s: %s %s", y.Name, y.Verdict, y.Text)
				}
			}
		})
	}
}

// TestStoppedProbeCleansUp ends the context when nodes exist.
func TestStoppedProbeCleansUp(t *testing.T) {
	lab := newProbeLab(t)
	c := lab.config(t, "stopped")
	c.URL = lab.url + "/am/3.0"
	ctx, stop := context.WithCancel(t.Context())
	c.Progress = func(name string, _, _ int) {
		if name == "life3.started" {
			stop()
		}
	}
	r := runProbe(t, ctx, c)
	for _, x := range r.Results {
		if x.Name == "life3.provision" && x.Verdict != conformance.Kept || x.Name == "life3.started" && x.Verdict != conformance.NotTried {
			t.Errorf("%s: %s %s", x.Name, x.Verdict, x.Text)
		}
	}
	wait.Until(t, "no slivers are left", func() bool {
		_, out := runCommand(t, "slivers", "--config", lab.dir)
		return strings.Contains(out, "There are no slivers.")
	})
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
