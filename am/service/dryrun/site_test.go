package dryrun_test

import (
	"cmp"
	"context"
	"encoding/pem"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/api"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/service"
	"patchbay/am/service/dryrun"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/am/work"
	"patchbay/credentials"
	"patchbay/credentials/cert"
	"patchbay/credentials/trial"
	"patchbay/credentials/trial/trialtest"
	"patchbay/inventory"
	"patchbay/inventory/provider"
	"patchbay/rspec"
)

// All tests share one authority, because keys take long to make.
var (
	authority *trial.Authority
	alice     trial.User
	chain     [][]byte
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && strings.HasPrefix(os.Args[1], "ral_action=") {
		act(strings.TrimPrefix(os.Args[1], "ral_action="))
		return
	}
	dir, err := os.MkdirTemp("", "patchbay-probe")
	if err != nil {
		panic(err)
	}
	if authority, err = trial.Create(filepath.Join(dir, "authority"), "example.org", time.Now()); err != nil {
		panic(err)
	}
	if alice, err = authority.User("alice", time.Now()); err != nil {
		panic(err)
	}
	for rest := alice.Certificate; ; {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			break
		}
		chain = append(chain, b.Bytes)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

const inventoryText = `
provider: rack
default_sliver_type: raw-pc
sliver_types: [{name: raw-pc}]
components:
  - {names: pc1..pc8, exclusive: true, sliver_types: [raw-pc]}
  - {names: q1..q4, exclusive: true, sliver_types: [raw-pc], provider: quiet}
  - {names: s1..s2, exclusive: true, sliver_types: [raw-pc], provider: slow}
`

// site is an aggregate with everything but a network: calls go in as bytes, and
// its providers are executables.
type site struct {
	t         *testing.T
	api       *api.API
	store     *store.Store
	inventory *inventory.Inventory
	dir       string
	log       *memory
	slice     string
	cred      string
}

// newSite serves with the providers rack and slow, which want to be probed, and
// quiet, which does not.
func newSite(t *testing.T) *site {
	t.Helper()
	return newImpatientSite(t, 0)
}

// newImpatientSite is newSite with a limit for probes.
func newImpatientSite(t *testing.T, limit time.Duration) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), log: &memory{}}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	s.inventory, err = inventory.Parse([]byte(inventoryText), "inventory.yaml", "example.org")
	must(err)
	for _, name := range []string{"rack", "slow", "quiet"} {
		lay(t, s.dir, name, name != "quiet")
	}
	s.behave("slow", behaviour{})
	found, problems := provider.Load(s.dir, nil)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	log := slog.New(s.log)
	for _, p := range found {
		p.Log = log
	}
	s.store, err = store.Open(filepath.Join(t.TempDir(), "store"), store.Options{})
	must(err)
	t.Cleanup(func() { s.store.Close() })
	inForce := &atomic.Pointer[inventory.Inventory]{}
	inForce.Store(s.inventory)
	components := func(u urn.URN) (string, string, bool) {
		c, ok := s.inventory.Component(u)
		if !ok {
			return "", "", false
		}
		return c.Name, c.Provider, true
	}
	runner := work.New(work.Config{
		Store: s.store, Components: components, Log: log,
		Providers: func(name string) (work.Provider, error) { return work.Executable(found[name]), nil },
		Limits:    work.Limits{RetryMin: time.Millisecond, RetryMax: 5 * time.Millisecond, PollMin: 5 * time.Millisecond, Attempts: 3},
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	svc := service.New(service.Config{
		Store: s.store, Inventory: inForce, GeneratedBy: "patchbay", Runner: runner,
		Prober: dryrun.New(dryrun.Config{
			Components: components, Log: log, Limit: limit,
			Providers: func(name string) (dryrun.Provider, bool) { p := found[name]; return p, p.Probe },
		}),
	})
	anchors, err := cert.ParsePEM(authority.Certificate())
	must(err)
	reading := rspec.ReadOptions{Managers: []urn.URN{s.inventory.Manager}, LinkTypes: s.inventory.LinkTypes, CheckSchemas: true}
	s.api = api.New(svc, credentials.New(cert.NewAnchors(cert.Anchor{Certificate: anchors[0]}), credentials.Config{SHA1Signatures: true}), api.Config{
		Manager: s.inventory.Manager, PublicURL: "https://am.example.org:8443", SoftwareVersion: "test", Reading: reading,
	})
	s.slice, s.cred = s.sliceNamed(strings.ToLower(regexp.MustCompile(`[^A-Za-z0-9]`).ReplaceAllString(t.Name(), "")))
	return s
}

func (s *site) sliceNamed(name string) (u, cred string) {
	s.t.Helper()
	if len(name) > 19 {
		name = name[len(name)-19:]
	}
	x, err := trialtest.NewSlice(authority, name, "alice", time.Now().Add(time.Hour), time.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	return x.URN.String(), string(x.Credential)
}

// answer is a decoded answer.
type answer struct {
	code   am.Code
	detail am.Detail
	output string
	value  xmlrpc.Value
}

func get(v xmlrpc.Value, names ...string) xmlrpc.Value {
	for _, name := range names {
		st, _ := v.(xmlrpc.Struct)
		v, _ = st.Get(name)
	}
	return v
}

func (s *site) serve(ctx context.Context, version int, method string, params ...xmlrpc.Value) answer {
	s.t.Helper()
	body, err := xmlrpc.AppendCall(nil, xmlrpc.Call{Method: method, Params: params})
	if err != nil {
		s.t.Fatal(err)
	}
	resp := s.api.Serve(ctx, version, api.Request{ID: "r1", Chain: chain, Body: body})
	v, err := xmlrpc.DecodeResponse(resp.Body, xmlrpc.Limits{})
	if err != nil {
		s.t.Fatalf("%s: no envelope: %v", method, err)
	}
	code, _ := get(v, "code", "geni_code").(int)
	detail, _ := get(v, "code", "am_code").(int)
	output, _ := get(v, "output").(string)
	return answer{am.Code(code), am.Detail(detail), output, get(v, "value")}
}

func creds(text string) []xmlrpc.Value {
	return []xmlrpc.Value{xmlrpc.Struct{{Name: "geni_type", Value: "geni_sfa"}, {Name: "geni_version", Value: "3"}, {Name: "geni_value", Value: text}}}
}

var options = xmlrpc.Struct{{Name: "geni_rspec_version", Value: xmlrpc.Struct{{Name: "type", Value: "geni"}, {Name: "version", Value: "3"}}}}

// request has a node a, b, c, … for each component, "" for any.
func request(components ...string) string {
	var b strings.Builder
	for i, c := range components {
		id := ""
		if c != "" {
			id = fmt.Sprintf(` component_id="urn:publicid:IDN+example.org+node+%s"`, c)
		}
		fmt.Fprintf(&b, `<node client_id="%c"%s/>`, 'a'+i, id)
	}
	return `<rspec xmlns="http://www.geni.net/resources/rspec/3" type="request">` + b.String() + `</rspec>`
}

func (s *site) allocate(components ...string) answer {
	s.t.Helper()
	return s.serve(s.t.Context(), 3, "Allocate", s.slice, creds(s.cred), request(components...), options)
}

func (s *site) create(components ...string) answer {
	s.t.Helper()
	users := []xmlrpc.Value{xmlrpc.Struct{{Name: "urn", Value: alice.URN.String()}, {Name: "keys", Value: []xmlrpc.Value{}}}}
	return s.serve(s.t.Context(), 2, "CreateSliver", s.slice, creds(s.cred), request(components...), users, options)
}

func (s *site) on(method string, more ...xmlrpc.Value) answer {
	s.t.Helper()
	params := append([]xmlrpc.Value{[]xmlrpc.Value{s.slice}, creds(s.cred)}, more...)
	return s.serve(s.t.Context(), 3, method, append(params, options)...)
}

func (a answer) want(t *testing.T, code am.Code, says ...string) answer {
	t.Helper()
	if a.code != code {
		t.Fatalf("code %d %q, want %d", a.code, a.output, code)
	}
	for _, text := range says {
		if !strings.Contains(a.output, text) {
			t.Errorf("output %q does not say %q", a.output, text)
		}
	}
	return a
}

// components returns the components of the slivers in the store, by client_id.
func (s *site) components() map[string]string {
	s.t.Helper()
	all, err := s.store.Slivers()
	if err != nil {
		s.t.Fatal(err)
	}
	m := map[string]string{}
	for _, x := range all {
		m[x.ClientID] = x.Component.Name
	}
	return m
}

// nothingKept checks that a refused call has stored nothing.
func (s *site) nothingKept() {
	s.t.Helper()
	err := s.store.Read(func(v *store.View) error {
		return cmp.Or(
			v.Slivers(func(x am.Sliver) bool { s.t.Errorf("kept: sliver %s on %s", x.ClientID, x.Component.Name); return true }),
			v.Slices(func(x am.Slice) bool { s.t.Errorf("kept: slice %s", x.URN); return true }),
			v.Tasks(func(x am.Task) bool { s.t.Errorf("kept: task %s", x.Goal); return true }),
			v.Journal(func(x am.JournalEntry) bool { s.t.Errorf("journal: %s", x.Event); return true }),
		)
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// states returns geni_operational_status and geni_error of Status, by client_id.
func (s *site) states() map[string][2]string {
	s.t.Helper()
	m := map[string][2]string{}
	list, _ := get(s.on("Status").want(s.t, am.Success).value, "geni_slivers").([]xmlrpc.Value)
	for _, x := range list {
		text := func(name string) string { v, _ := get(x, name).(string); return v }
		m[text("geni_client_id")] = [2]string{text("geni_operational_status"), text("geni_error")}
	}
	return m
}

// memory is a log.
type memory struct {
	mu    sync.Mutex
	lines []string
}

func (m *memory) Enabled(context.Context, slog.Level) bool { return true }
func (m *memory) WithAttrs([]slog.Attr) slog.Handler       { return m }
func (m *memory) WithGroup(string) slog.Handler            { return m }
func (m *memory) Handle(_ context.Context, r slog.Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lines = append(m.lines, r.Level.String()+" "+r.Message)
	return nil
}

func (m *memory) has(text string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Contains(strings.Join(m.lines, "\n"), text)
}
