package e2e

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"encoding/xml"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/testkit/program"
	"patchbay/credentials/trial"
	"patchbay/credentials/trial/trialtest"
)

// clientTestSite is a site as other clients see it: a served program with users and
// slices of its trial authority, called by the URLs that it reports.
type clientTestSite struct {
	*servedSite
	authority *trial.Authority
}

// instantNodes are settings of the simulated provider without delays.
const instantNodes = "timing: {make: 0s, start: 0s, stop: 0s, restart: 0s, users: 0s, remove: 0s}\n"

// newClientTestSite serves the site testbed.example.org with these settings of the
// provider, and with more lines of patchbay.yaml.
func newClientTestSite(t testing.TB, settings string, more ...string) *clientTestSite {
	t.Helper()
	s := newServedSite(t, "testbed.example.org", nil, nil)
	s.appendSettings(settings)
	file := filepath.Join(s.dir, "patchbay.yaml")
	program.Write(t, file, program.ReadFile(t, file)+strings.Join(more, ""))
	s.start()
	a, err := trial.Open(filepath.Join(s.dir, "authority"))
	if err != nil {
		t.Fatal(err)
	}
	return &clientTestSite{s, a}
}

// wireClient is a user who calls the aggregate at one version of the API.
type wireClient struct {
	t    testing.TB
	site *clientTestSite
	trial.User
	identity tls.Certificate
	version  int
	url      string
	http     *http.Client
}

// newClient creates a user, and returns a client for them.
func (s *clientTestSite) newClient(t testing.TB, name string, version int) *wireClient {
	t.Helper()
	u, err := s.authority.User(name, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return s.newClientOf(t, u, version)
}

// newClientOf returns a client that gets the URL of the version from GetVersion.
func (s *clientTestSite) newClientOf(t testing.TB, u trial.User, version int) *wireClient {
	t.Helper()
	// Go's parser refuses certificates of the federation, so the client parses none.
	var id tls.Certificate
	for block, rest := pem.Decode(u.Certificate); block != nil; block, rest = pem.Decode(rest) {
		id.Certificate = append(id.Certificate, block.Bytes)
	}
	id.PrivateKey = parseKey(t, u.Key)
	here, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	v := &wireClient{t: t, site: s, User: u, identity: id, version: version, url: s.url + "/"}
	v.http = &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		// The name of the site does not resolve; connect to its address.
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, here.Host)
		},
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &id, nil
		}},
		DisableCompression: true,
	}}
	t.Cleanup(v.http.CloseIdleConnections)
	there, ok := member(v.want("GetVersion", am.Success), "geni_api_versions", strconv.Itoa(version)).(string)
	if !ok {
		t.Fatalf("version %d is nowhere", version)
	}
	v.url = there
	return v
}

// parseKey reads a private key in any usual form.
func parseKey(t testing.TB, text []byte) crypto.Signer {
	t.Helper()
	block, _ := pem.Decode(text)
	if block == nil {
		t.Fatalf("no key in %q", text)
	}
	if k, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return k
	}
	if k, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
		return k
	}
	k, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return k.(crypto.Signer)
}

// slice creates a slice for some days, with its credential.
func (v *wireClient) slice(name string, days int) (slice, credential string, expires time.Time) {
	v.t.Helper()
	x, err := trialtest.NewSlice(v.site.authority, name, v.URN.Name, time.Now().Add(time.Duration(days)*24*time.Hour), time.Now())
	if err != nil {
		v.t.Fatal(err)
	}
	return x.URN.String(), string(x.Credential), x.Expires
}

// wireReply is a decoded answer.
type wireReply struct {
	code   am.Code
	value  xmlrpc.Value
	output string
	top    xmlrpc.Struct
	fault  *xmlrpc.Fault
}

// call makes a call and checks what every client requires of an answer; the caller checks
// the code.
func (v *wireClient) call(method string, params ...xmlrpc.Value) wireReply {
	v.t.Helper()
	body, err := xmlrpc.AppendCall(nil, xmlrpc.Call{Method: method, Params: params})
	if err != nil {
		v.t.Fatal(err)
	}
	return v.post(string(body))
}

func (v *wireClient) post(body string) wireReply {
	v.t.Helper()
	req, err := http.NewRequest(http.MethodPost, v.url, strings.NewReader(body))
	if err != nil {
		v.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "text/xml")
	resp, err := v.http.Do(req)
	if err != nil {
		v.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		v.t.Fatal(err)
	case resp.StatusCode != http.StatusOK:
		v.t.Fatalf("HTTP status %d", resp.StatusCode)
	case resp.ContentLength != int64(len(text)) || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/xml"):
		v.t.Fatalf("%d bytes with Content-Length %d and type %s", len(text), resp.ContentLength, resp.Header.Get("Content-Type"))
	}
	return v.read(text)
}

// read decodes an answer: code, value and output are always present, with the types that
// clients expect.
func (v *wireClient) read(text []byte) wireReply {
	v.t.Helper()
	value, err := xmlrpc.DecodeResponse(text, xmlrpc.Limits{})
	if f, ok := err.(*xmlrpc.Fault); ok {
		return wireReply{code: -1, output: f.Text, fault: f}
	}
	if err != nil {
		v.t.Fatal(err)
	}
	top, ok := value.(xmlrpc.Struct)
	code, ok1 := member(top, "code", "geni_code").(int)
	_, ok2 := member(top, "code", "am_code").(int)
	_, ok3 := member(top, "code", "am_type").(string)
	output, ok4 := member(top, "output").(string)
	a := wireReply{am.Code(code), member(top, "value"), output, top, nil}
	if !ok || !ok1 || !ok2 || !ok3 || !ok4 || a.value == nil || code != 0 && output == "" {
		v.t.Fatalf("an envelope that is not whole: code %v, output %.200q", member(top, "code"), output)
	}
	return a
}

// want makes a call that must answer with a code, and returns its value.
func (v *wireClient) want(method string, code am.Code, params ...xmlrpc.Value) xmlrpc.Value {
	v.t.Helper()
	a := v.call(method, params...)
	if a.code != code {
		v.t.Fatalf("%s: code %d %.300q, want %d", method, a.code, a.output, code)
	}
	return a.value
}

// fails makes a call that must fail with an envelope.
func (v *wireClient) fails(what, method string, params ...xmlrpc.Value) {
	v.t.Helper()
	if a := v.call(method, params...); a.code <= am.Success {
		v.t.Errorf("%s: %s answers code %d %.200q, and must fail", what, method, a.code, a.output)
	}
}

// creds returns credentials in the form of the client's version.
func (v *wireClient) creds(documents ...string) []xmlrpc.Value {
	list := []xmlrpc.Value{}
	for _, d := range documents {
		if v.version == 2 {
			list = append(list, d)
		} else {
			list = append(list, labelledCredential("geni_sfa", "3", d))
		}
	}
	return list
}

func labelledCredential(typ, version, document string) xmlrpc.Value {
	return xmlrpc.Struct{{Name: "geni_type", Value: typ}, {Name: "geni_version", Value: version}, {Name: "geni_value", Value: document}}
}

func urns(list ...string) []xmlrpc.Value {
	var out []xmlrpc.Value
	for _, u := range list {
		out = append(out, u)
	}
	return out
}

// rspec3 returns options that request GENI 3, with the type as the client spells it.
func rspec3(typ string, more ...xmlrpc.Member) xmlrpc.Struct {
	return append(xmlrpc.Struct{{Name: "geni_rspec_version", Value: xmlrpc.Struct{{Name: "type", Value: typ}, {Name: "version", Value: "3"}}}}, more...)
}

func option(name string, value xmlrpc.Value) xmlrpc.Member {
	return xmlrpc.Member{Name: name, Value: value}
}

// userAccounts returns geni_users for one user with one key.
func userAccounts(u trial.User) []xmlrpc.Value {
	key := strings.TrimSpace(string(u.SSHPublicKey))
	return []xmlrpc.Value{xmlrpc.Struct{{Name: "urn", Value: u.URN.String()}, {Name: "keys", Value: []xmlrpc.Value{key}}}}
}

// member returns a member of nested structs.
func member(v xmlrpc.Value, names ...string) xmlrpc.Value {
	for _, n := range names {
		s, _ := v.(xmlrpc.Struct)
		v, _ = s.Get(n)
	}
	return v
}

// slivers returns the sliver structs of the value of any method of version 3.
func (v *wireClient) slivers(value xmlrpc.Value) (all []xmlrpc.Struct) {
	v.t.Helper()
	list, ok := value.([]xmlrpc.Value)
	if !ok {
		list, ok = member(value, "geni_slivers").([]xmlrpc.Value)
	}
	if !ok {
		v.t.Fatalf("no slivers in a %T", value)
	}
	for _, x := range list {
		s, _ := x.(xmlrpc.Struct)
		for _, name := range []string{"geni_sliver_urn", "geni_allocation_status", "geni_operational_status", "geni_expires", "geni_error"} {
			if _, ok := member(s, name).(string); !ok {
				v.t.Fatalf("a sliver whose %s is no string: %v", name, s)
			}
		}
		if u := member(s, "geni_sliver_urn").(string); !regexp.MustCompile(`^urn:publicid:IDN\+testbed\.example\.org\+sliver\+[-a-zA-Z0-9_.]+$`).MatchString(u) {
			v.t.Fatalf("%s is no name of a sliver", u)
		}
		if e := member(s, "geni_expires").(string); !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`).MatchString(e) {
			v.t.Fatalf("it expires at %q", e)
		}
		all = append(all, s)
	}
	return all
}

func sliverNames(slivers []xmlrpc.Struct) (all []string) {
	for _, s := range slivers {
		all = append(all, member(s, "geni_sliver_urn").(string))
	}
	return all
}

// wantEvery fails unless a member of each sliver has this value.
func (v *wireClient) wantEvery(slivers []xmlrpc.Struct, name, value string) {
	v.t.Helper()
	for _, s := range slivers {
		if got := member(s, name); got != value {
			v.t.Errorf("%s: %s is %v, want %s", member(s, "geni_sliver_urn"), name, got, value)
		}
	}
}

// rspecDocument is the part of an RSpec that clients read.
type rspecDocument struct {
	XMLName xml.Name
	Type    string    `xml:"type,attr"`
	Schemas string    `xml:"http://www.w3.org/2001/XMLSchema-instance schemaLocation,attr"`
	Expires string    `xml:"expires,attr"`
	Nodes   []nodeXML `xml:"http://www.geni.net/resources/rspec/3 node"`
	All     []struct {
		XMLName xml.Name
	} `xml:",any"`
}

type nodeXML struct {
	Client    string `xml:"client_id,attr"`
	Component string `xml:"component_id,attr"`
	Sliver    string `xml:"sliver_id,attr"`
	Available *struct {
		Now string `xml:"now,attr"`
	} `xml:"http://www.geni.net/resources/rspec/3 available"`
	Location []struct {
		Latitude  string `xml:"latitude,attr"`
		Longitude string `xml:"longitude,attr"`
	} `xml:"http://www.geni.net/resources/rspec/3 location"`
	Logins []struct {
		Authentication string `xml:"authentication,attr"`
		Host           string `xml:"hostname,attr"`
		Port           string `xml:"port,attr"`
		User           string `xml:"username,attr"`
	} `xml:"http://www.geni.net/resources/rspec/3 services>login"`
}

// rspec reads an RSpec as the acceptance tests do: it must be well-formed, also in lower
// case, and have its type and schema.
func (v *wireClient) rspec(value xmlrpc.Value, typ string) (d rspecDocument) {
	v.t.Helper()
	text, ok := value.(string)
	if !ok {
		v.t.Fatalf("the RSpec is a %T", value)
	}
	if !strings.HasPrefix(text, "<") {
		v.t.Fatalf("the RSpec begins with %.20q", text)
	}
	if err := xml.Unmarshal([]byte(text), &d); err != nil {
		v.t.Fatalf("the %s: %v", typ, err)
	}
	for lower := xml.NewDecoder(strings.NewReader(strings.ToLower(text))); ; {
		if _, err := lower.Token(); err == io.EOF {
			break
		} else if err != nil {
			v.t.Fatalf("the %s in lower case: %v", typ, err)
		}
	}
	schema := map[string]string{"advertisement": "ad.xsd", "manifest": "manifest.xsd"}[typ]
	if !strings.Contains(text, "<rspec") || d.XMLName.Local != "rspec" || d.Type != typ || !strings.Contains(d.Schemas, "http://www.geni.net/resources/rspec/3/"+schema) {
		v.t.Fatalf("the root is %v of type %q with %q, want a %s", d.XMLName, d.Type, d.Schemas, typ)
	}
	return d
}

// ids returns the sets of client_ids and component_ids of all nodes.
func (d rspecDocument) ids() (clients, components []string) {
	for _, n := range d.Nodes {
		clients = append(clients, n.Client)
		if n.Component != "" {
			components = append(components, n.Component)
		}
	}
	slices.Sort(clients)
	slices.Sort(components)
	return clients, components
}
