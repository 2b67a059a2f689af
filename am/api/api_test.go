package api

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"encoding/base64"
	"encoding/pem"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/service"
	"patchbay/am/service/lease"
	"patchbay/am/store"
	"patchbay/am/testkit/disk"
	"patchbay/am/testkit/program"
	"patchbay/am/urn"
	"patchbay/am/work"
	"patchbay/credentials"
	"patchbay/credentials/cert"
	"patchbay/credentials/trial"
	"patchbay/credentials/trial/trialtest"
	"patchbay/inventory"
	"patchbay/rspec"
	"patchbay/rspec/compile"
)

// site is an aggregate without server and runner. Calls go in as bytes; settle carries out
// the tasks of the providers.
type site struct {
	t         testing.TB
	api       *API
	store     *store.Store
	file      string // of the store
	trial     *trial.Authority
	inventory *inventory.Inventory
	service   *service.Service
	// reading and previewer are for previewed; previewer is nil with a policy.
	reading   rspec.ReadOptions
	previewer *service.Service
	// previewsAlways compares although the site has slivers.
	previewsAlways bool

	mu  sync.Mutex
	now time.Time
}

const authority = "example.org"

// began is the clock of all sites at their start. They share one authority and
// its users, because keys take long to make.
var (
	began  = time.Now().UTC().Truncate(time.Second)
	common *trial.Authority
	known  sync.Map // user name → trial.User
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "patchbay-api")
	if err != nil {
		panic(err)
	}
	if common, err = trial.Create(dir+"/authority", authority, began); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func newAuthority(t testing.TB, dir string, now time.Time) *trial.Authority {
	t.Helper()
	a, err := trial.Create(filepath.Join(dir, "authority"), authority, now)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// setting configures a site; the zero value is valid.
type setting struct {
	began   time.Time
	anchors *cert.Anchors
	// alias is one more name for sliver type vm.
	alias string
	// inventory is the text of the inventory; "" for the simulated one.
	inventory string
	// extensions are reported in manifests beside the core.
	extensions []string
	// emptyNotFound refuses to describe a slice without slivers.
	emptyNotFound bool
	// stages says which providers have them; nil: all.
	stages func(provider string) bool
	// changes says which providers change nodes in place; nil: all.
	changes func(provider string) bool
	// prober makes the dry runs; nil makes none.
	prober service.Prober
	// policy is the text of its rules.
	policy string
	// denied refuses users at the start of reservations; nil refuses none.
	denied func(user, slice urn.URN) error
	// records is a compressed store, whose records the site has; "" for none.
	records string
	// fault makes writes of the store fail.
	fault func() error
	// endLeases has Allocate end expired leases, as a served site does.
	endLeases bool
	// adExtensions are those of advertisements beside the core.
	adExtensions []string
	// limits are those of requests.
	limits rspec.Limits
	// leases are the limits of leases; zero for the default ones.
	leases service.Leases
	// compile compiles templates; nil refuses them.
	compile func(rspec.Template, service.Known) (rspec.Expansion, error)
}

func newSite(t testing.TB) *site { return setting{}.site(t) }

func (o setting) site(t testing.TB) *site {
	t.Helper()
	s := &site{t: t, now: began, trial: common}
	if !o.began.IsZero() {
		s.now = o.began
	}
	dir := t.TempDir()
	s.file = filepath.Join(dir, "store")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	if o.anchors == nil {
		anchors, err := cert.ParsePEM(s.trial.Certificate())
		must(err)
		o.anchors = cert.NewAnchors(cert.Anchor{Certificate: anchors[0]})
	}
	text := string(inventory.SimulatedText(authority))
	if o.alias != "" {
		text = strings.Replace(text, "aliases: [", "aliases: ["+o.alias+", ", 1)
	}
	if o.inventory != "" {
		text = o.inventory
	}
	inv, err := inventory.Parse([]byte(text), "inventory.yaml", authority)
	must(err)
	s.inventory = inv
	options := store.Options{Now: s.clock}
	if o.fault != nil {
		options.Write = (&disk.Writes{Path: s.file, Fail: o.fault}).Wrap
	}
	if o.records != "" {
		must(program.Execute("sh", "-c", `exec gunzip <"$0" >"$1"`, o.records, s.file))
	}
	s.store, err = store.Open(s.file, options)
	must(err)
	t.Cleanup(func() { s.store.Close() })
	var current atomic.Pointer[inventory.Inventory]
	current.Store(inv)
	reading := rspec.ReadOptions{Managers: []urn.URN{inv.Manager}, LinkTypes: inv.RequestLinkTypes(), CopyCrossLinks: inv.CrossLinks == inventory.Copy, CheckSchemas: true, Limits: o.limits}
	rules := o.rules(t, dir, inv)
	var runner service.Runner
	if o.endLeases {
		runner = leaseRunner{site: s}
	}
	svc := service.New(service.Config{Store: s.store, Inventory: &current, Reading: reading, Policy: rules, Denied: o.denied, GeneratedBy: "patchbay", ManifestExtensions: o.extensions, Prober: o.prober, Runner: runner, EmptyDescribeNotFound: o.emptyNotFound, Leases: o.leases, AdExtensions: o.adExtensions, HasStages: o.stages, ChangesNodes: o.changes, Compile: o.compile})
	if s.reading, s.service = reading, svc; o.policy == "" {
		s.previewer = svc
	}
	s.api = New(svc, credentials.New(o.anchors, credentials.Config{SHA1Signatures: true}), Config{
		Manager: inv.Manager, PublicURL: "https://am.example.org:8443", SoftwareVersion: "test", Reading: reading, Now: s.clock, Language: compile.Language,
	})
	return s
}

func (s *site) clock() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// pass lets time go by.
func (s *site) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

// settle carries out all tasks successfully.
func (s *site) settle() {
	s.t.Helper()
	for s.settleSome(100) {
	}
}

// settleSome carries out up to most tasks, and reports whether there were any.
func (s *site) settleSome(most int) bool {
	s.t.Helper()
	var tasks []am.Task
	err := s.store.Commit(context.Background(), func(v *store.View) (store.ChangeSet, error) {
		var cs store.ChangeSet
		var gone []am.Sliver
		v.Tasks(func(t am.Task) bool { tasks = append(tasks, t); return len(tasks) < most })
		for _, t := range tasks {
			x, _, err := v.Sliver(t.Sliver)
			if err != nil {
				return cs, err
			}
			if t.Goal == am.GoalRemove {
				gone = append(gone, x)
				continue
			}
			cs.Remove(store.TaskKey(t.Sliver))
			x.Status = am.Done(x.Status, t.Goal, x.Desired.On)
			x.Observed = am.Observed{State: "ready", Addresses: []string{"192.0.2.7"}, Logins: []string{"pc1.example.org:22"}}
			cs.PutSliver(x)
		}
		return cs, lease.Forget(v, &cs, gone)
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return len(tasks) > 0
}

// leaseRunner ends expired leases, as the runner does.
type leaseRunner struct {
	service.NoRunner
	*site
}

func (r leaseRunner) EndLeases(ctx context.Context) error {
	return work.New(work.Config{Store: r.store, Deadline: r.service.Deadline, Log: slog.New(slog.DiscardHandler)}).EndLeases(ctx)
}

// caller is a user with credentials.
type caller struct {
	site  *site
	urn   urn.URN
	chain [][]byte
	user  string
}

func (s *site) user(name string) *caller {
	s.t.Helper()
	var u trial.User
	if v, ok := known.Load(name); ok && s.trial == common {
		u = v.(trial.User)
	} else {
		now := s.clock()
		if s.trial == common {
			now = began
		}
		var err error
		if u, err = s.trial.User(name, now); err != nil {
			s.t.Fatal(err)
		}
		if s.trial == common {
			known.Store(name, u)
		}
	}
	c := &caller{site: s, urn: u.URN, user: string(u.Credential)}
	for rest := u.Certificate; ; {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			return c
		}
		c.chain = append(c.chain, b.Bytes)
	}
}

// slice makes a slice of the caller's and its credential.
func (c *caller) slice(name string, lasts time.Duration) (u, credential string) {
	c.site.t.Helper()
	now := c.site.clock()
	made := now
	if c.site.trial == common { // other sites, whose clocks stand elsewhere, know the slice too
		made = began
	}
	x, err := trialtest.NewSlice(c.site.trial, name, c.urn.Name, now.Add(lasts), made)
	if err != nil {
		c.site.t.Fatal(err)
	}
	return x.URN.String(), string(x.Credential)
}

// answer is a decoded envelope.
type answer struct {
	code   am.Code
	detail int
	output string
	value  xmlrpc.Value
	top    xmlrpc.Struct
	resp   Response
}

func (c *caller) call(method string, params ...xmlrpc.Value) answer {
	c.site.t.Helper()
	body, err := xmlrpc.AppendCall(nil, xmlrpc.Call{Method: method, Params: params})
	if err != nil {
		c.site.t.Fatal(err)
	}
	return c.site.serve(Request{ID: "r1", Chain: c.chain, Body: body})
}

func (s *site) serve(r Request) answer {
	s.t.Helper()
	return s.serveVersion(Version3, r)
}

func (s *site) serveVersion(version int, r Request) answer {
	s.t.Helper()
	resp := s.api.Serve(context.Background(), version, r)
	body := resp.Body
	if resp.Gzip {
		z, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			s.t.Fatal(err)
		}
		body, _ = io.ReadAll(z)
	}
	v, err := xmlrpc.DecodeResponse(body, xmlrpc.Limits{})
	if err != nil {
		s.t.Fatalf("no envelope: %v", err)
	}
	a := openEnvelope(s.t, v, resp)
	s.previewed(r.Body, a.code, a.output)
	return a
}

// openEnvelope checks what every answer must have: all three members with
// their types (AM API v3, "Return struct").
func openEnvelope(t testing.TB, v xmlrpc.Value, resp Response) answer {
	t.Helper()
	top, ok := v.(xmlrpc.Struct)
	code, ok2 := get(top, "code").(xmlrpc.Struct)
	output, ok3 := get(top, "output").(string)
	value := get(top, "value")
	gc, ok4 := get(code, "geni_code").(int)
	ac, ok5 := get(code, "am_code").(int)
	if !ok || !ok2 || !ok3 || !ok4 || !ok5 || value == nil || get(code, "am_type") != "patchbay" {
		t.Fatalf("the envelope is not whole: %v", v)
	}
	if gc != 0 && output == "" {
		t.Fatalf("code %d without output", gc)
	}
	return answer{am.Code(gc), ac, output, value, top, resp}
}

func get(v xmlrpc.Value, name string) xmlrpc.Value {
	s, _ := v.(xmlrpc.Struct)
	x, _ := s.Get(name)
	return x
}

// creds is a list of credentials in the struct form.
func creds(texts ...string) []xmlrpc.Value {
	list := []xmlrpc.Value{}
	for _, t := range texts {
		list = append(list, xmlrpc.Struct{{Name: "geni_type", Value: "geni_sfa"}, {Name: "geni_version", Value: "3"}, {Name: "geni_value", Value: t}})
	}
	return list
}

func strs(s ...string) []xmlrpc.Value {
	list := make([]xmlrpc.Value, len(s))
	for i := range s {
		list[i] = s[i]
	}
	return list
}

// opts is an options struct with the RSpec version every method may have.
func opts(m ...xmlrpc.Member) xmlrpc.Struct {
	return append(xmlrpc.Struct{{Name: "geni_rspec_version", Value: xmlrpc.Struct{{Name: "type", Value: "geni"}, {Name: "version", Value: "3"}}}}, m...)
}

func opt(name string, v xmlrpc.Value) xmlrpc.Member { return xmlrpc.Member{Name: name, Value: v} }

func (a answer) want(t testing.TB, what string, code am.Code) answer {
	t.Helper()
	if a.code != code {
		t.Fatalf("%s: code %d %q, want %d (cause: %v)", what, a.code, a.output, code, a.resp.Event.Err)
	}
	return a
}

// slivers are the sliver structs of any method's value, each checked for the
// members that clients insist on.
func (a answer) slivers(t testing.TB) []xmlrpc.Struct {
	t.Helper()
	list, ok := a.value.([]xmlrpc.Value)
	if !ok {
		list, ok = get(a.value, "geni_slivers").([]xmlrpc.Value)
	}
	if !ok {
		t.Fatalf("no slivers in %v", a.value)
	}
	var out []xmlrpc.Struct
	for _, v := range list {
		s := v.(xmlrpc.Struct)
		for _, name := range []string{"geni_sliver_urn", "geni_expires", "geni_allocation_status", "geni_operational_status", "geni_error"} {
			if _, ok := get(s, name).(string); !ok {
				t.Fatalf("sliver without %s: %v", name, s)
			}
		}
		out = append(out, s)
	}
	return out
}

func unzip(t testing.TB, s string) string {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	z, err := zlib.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func request(nodes ...string) string {
	return `<?xml version="1.0" encoding="UTF-8"?>
<rspec xmlns="http://www.geni.net/resources/rspec/3" type="request">` + strings.Join(nodes, "") + `</rspec>`
}

func node(id string) string {
	return `<node client_id="` + id + `"><sliver_type name="raw-pc"/></node>`
}
