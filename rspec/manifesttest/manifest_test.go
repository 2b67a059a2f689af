package manifesttest_test

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"patchbay/am/testkit/require"
	"patchbay/am/urn"
	"patchbay/rspec"
)

var (
	seed    = flag.Uint64("perturb.seed", 1, "the seed of the first perturbation")
	times   = flag.Int("perturb.times", 1, "how often each document is perturbed")
	manager = urn.MustParse("urn:publicid:IDN+example.org+authority+cm")
)

// folder returns the contents of the files of a pattern.
func folder(t testing.TB, pattern ...string) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(pattern...))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s is empty: %v", pattern, err)
	}
	found := map[string][]byte{}
	for _, file := range files {
		if found[filepath.Base(file)], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// requests are the requests of RSpec version 3 in the corpus.
func requests(t testing.TB) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	for _, kind := range []string{"request", "synthetic"} {
		for name, b := range folder(t, require.Shared(t, "corpus", "rspecs", kind), "*") {
			if d, err := parse(b); err != nil {
				t.Errorf("%s: %v", name, err)
			} else if d.root.is(core, "rspec") && d.root.get("type") == "request" {
				found[name] = b
			}
		}
	}
	return found
}

// generous returns all facts of every own node and link.
func generous(r *rspec.Request) (rspec.Part, rspec.ManifestOptions) {
	now := time.Date(2031, 5, 1, 12, 0, 0, 0, time.UTC)
	alice := urn.MustParse("urn:publicid:IDN+example.org+user+alice")
	p := rspec.Part{Request: r, Nodes: map[string]rspec.NodeFacts{}, Links: map[string]rspec.LinkFacts{}}
	for i, n := range r.Nodes {
		f := rspec.NodeFacts{
			ComponentID: urn.MustParse(fmt.Sprintf("urn:publicid:IDN+example.org+node+pc%d", i)), SliverID: urn.MustParse(fmt.Sprintf("urn:publicid:IDN+example.org+sliver+s%d", i)),
			ComponentName: fmt.Sprintf("pc%d", i), Exclusive: i%2 == 0, SliverType: "raw-pc", DiskImage: "urn:publicid:IDN+example.org+image+debian", HardwareType: "pc<3000>",
			Hosts:   []rspec.Host{{Name: "n.example.org", IPv4: "192.0.2.7"}},
			Logins:  []rspec.Login{{Hostname: "gw.example.org", Username: "alice"}, {Hostname: "2001:db8::7", Port: 2222, Username: "bob"}},
			Users:   []rspec.User{{Login: "alice", URN: alice, Keys: []string{"ssh-rsa AAAA <é> & \"so\""}}},
			Proxies: []rspec.Proxy{{Proxy: "alice@gw.example.org:22", For: "bob@2001:db8::7:2222"}},
			Sliver:  &rspec.SliverInfo{Creator: alice, Created: now, Expires: now, State: "geni_notready", Error: "disk <full>"},
			VNode:   &rspec.VNode{Name: "vnode", HardwareType: "pcvm"}, Interfaces: map[string]rspec.InterfaceFacts{},
		}
		if u, err := urn.Parse(strings.TrimSpace(n.ComponentID)); err == nil {
			f.ComponentID = u // what is bound stays so
		}
		for j, e := range n.Interfaces {
			f.Interfaces[e.ClientID] = rspec.InterfaceFacts{
				MAC: fmt.Sprintf("02:00:00:00:%02x:%02x", i%256, j%256), ComponentID: urn.MustParse("urn:publicid:IDN+example.org+interface+pc:eth"),
				Addresses: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, byte(i), byte(1 + j%200)}), 24)},
			}
		}
		p.Nodes[n.ClientID] = f
	}
	for i, l := range r.Links {
		p.Links[l.ClientID] = rspec.LinkFacts{VLANTag: fmt.Sprint(100 + i)}
	}
	return p, rspec.ManifestOptions{Manager: manager, Generated: now, Expires: now, GeneratedBy: `an "AM" & more`}
}

// held writes a generous manifest of a request and compares the two. It returns the parsed request;
// a refused one is read as a stored request.
func held(t *testing.T, name string, b []byte, managers []urn.URN) (r *rspec.Request, isRefused bool) {
	t.Helper()
	r, err := rspec.ParseRequest(b, rspec.ReadOptions{Managers: managers})
	if isRefused = err != nil; isRefused {
		if r, err = rspec.ParseRequest(b, rspec.ReadOptions{Managers: managers, Stored: true}); err != nil {
			t.Errorf("%s, stored: %v", name, err)
			return nil, true
		}
	}
	part, o := generous(r)
	manifest, err := rspec.WriteManifest([]rspec.Part{part}, o)
	if err != nil {
		t.Errorf("%s: %v", name, err)
	} else if wrong, _ := compare(b, manifest, r); wrong != "" && !isRefused {
		t.Errorf("%s: %s", name, wrong)
	}
	return r, isRefused
}

// everyManager makes all nodes of a document ours.
func everyManager(d *doc) []urn.URN {
	list := []urn.URN{manager}
	for _, n := range d.root.all(core, "node") {
		if u, err := urn.Parse(strings.TrimSpace(n.get("component_manager_id"))); err == nil {
			list = append(list, u)
		}
		if u, err := urn.Parse(strings.TrimSpace(n.get("component_id"))); err == nil {
			list = append(list, urn.URN{Authority: u.Authority, Type: urn.Authority, Name: "cm"})
		}
	}
	return list
}

// TestCorpusOurs reads every node of every real request as ours, unchanged and in an equivalent
// spelling.
func TestCorpusOurs(t *testing.T) {
	t.Parallel()
	perturbed(t, requests(t), *times, everyManager)
}

// TestNasty does the same with the documents in testdata, each an unusual case of XML or RSpec. The
// nodes without a manager or of example.org are ours.
func TestNasty(t *testing.T) {
	all := folder(t, "testdata", "*.xml")
	if len(all) < 15 {
		t.Fatalf("only %d documents in testdata", len(all))
	}
	if refused := perturbed(t, all, 10**times, func(*doc) []urn.URN { return []urn.URN{manager} }); refused > 0 {
		t.Errorf("%d are refused", refused)
	}
}

// meaning compares requests without the positions.
var meaning = gocmp.Options{
	cmpopts.IgnoreUnexported(rspec.Node{}, rspec.Request{}),
	cmpopts.IgnoreFields(rspec.Node{}, "Line", "Column"), cmpopts.IgnoreFields(rspec.Interface{}, "Line"), cmpopts.IgnoreFields(rspec.Link{}, "Line", "Column"), cmpopts.IgnoreFields(rspec.Lease{}, "Line"),
	cmpopts.IgnoreFields(rspec.Request{}, "Notices"), // they tell lines
	cmpopts.EquateComparable(netip.Prefix{}),
}

// perturbed perturbs every document, or every second one of the corpus daily.
func perturbed(t *testing.T, all map[string][]byte, times int, managersOf func(*doc) []urn.URN) (refused int) {
	t.Logf("-perturb.seed=%d", *seed)
	for i, name := range slices.Sorted(maps.Keys(all)) {
		if len(all) > 100 && !require.Daily(i, 2) {
			continue
		}
		d, err := parse(all[name])
		if err != nil {
			t.Fatal(err)
		}
		managers := managersOf(d)
		plain, wasRefused := held(t, name, all[name], managers)
		if wasRefused {
			refused++
		}
		for n := range times {
			s := *seed + uint64(n*len(all)+i)
			other := perturb(d, s)
			where := fmt.Sprintf("%s, seed %d", name, s)
			r, isRefused := held(t, where, other, managers)
			if isRefused != wasRefused {
				t.Errorf("%s: refused: %v, and before %v", where, isRefused, wasRefused)
			} else if diff := gocmp.Diff(plain, r, meaning); diff != "" {
				t.Errorf("%s: means something else now:\n%s", where, diff)
			}
			if t.Failed() {
				t.Fatalf("the document is %.5000s", other)
			}
		}
	}
	t.Logf("%d documents, %d of them refused", len(all), refused)
	return refused
}

// TestCorpusForeign reads them such that only nodes without a manager are ours. The others must not
// change.
func TestCorpusForeign(t *testing.T) {
	t.Parallel()
	perturbed(t, requests(t), *times, func(*doc) []urn.URN { return []urn.URN{manager} })
}

// TestDamageIsDetected changes each byte of a valid manifest that comes from the request. Each change
// must be detected. Otherwise the other tests of this package prove nothing.
func TestDamageIsDetected(t *testing.T) {
	t.Parallel()
	request := []byte(`<?xml version='1.0'?>
<!-- before --><rspec type = "request" xmlns="` + core + `" xmlns:x='urn:x' xmlns:i="` + instance + `"
	i:schemaLocation="` + core + ` ` + rspec.RequestSchema + `">
  <node client_id='a' exclusive="1" x:sliver_id="its own"><services ><install url="http://example.org/&#97;" install_path="/"/></services>
    <sliver_type name="vm"/> <x:ext k='>'>text &amp; <![CDATA[<raw>]]><y xmlns=""/></x:ext><interface client_id="a:0"/></node>
  <node client_id="b" component_manager_id="urn:publicid:IDN+elsewhere.example.net+authority+cm" sliver_id="theirs"><host name="h"/><interface client_id="b:0" /></node>
  <link client_id="l" ><interface_ref client_id="a:0"></interface_ref></link><?pi pi?>
  <link client_id="m"><interface_ref client_id="b:0"/></link>
</rspec>
`)
	r, err := rspec.ParseRequest(request, rspec.ReadOptions{Managers: []urn.URN{manager}})
	if err != nil {
		t.Fatal(err)
	}
	part, o := generous(r)
	manifest, err := rspec.WriteManifest([]rspec.Part{part}, o)
	if err != nil {
		t.Fatal(err)
	}
	wrong, kept := compare(request, manifest, r)
	if wrong != "" {
		t.Fatal(wrong)
	}
	tried := 0
	for _, k := range kept {
		for i := k[0]; i < k[1]; i++ {
			c, other := manifest[i], "x"
			if c == 'x' {
				other = "y"
			}
			for _, with := range []string{"", string(c) + string(c), other, string(c) + " "} {
				tried++
				if wrong, _ := compare(request, slices.Concat(manifest[:i], []byte(with), manifest[i+1:]), r); wrong == "" {
					t.Errorf("byte %d: %q became %q undetected: %q", i, c, with, manifest[max(0, i-30):i+30])
				}
			}
		}
	}
	if tried < 4*len(request)*8/10 {
		t.Errorf("only %d changes of %d bytes were tried", tried, len(request))
	}
}

// FuzzSplice reads arbitrary bytes, or, with a seed, those that the generator makes of them. The
// manifest of an accepted request differs from it only where the list allows it.
func FuzzSplice(f *testing.F) {
	for _, b := range folder(f, "testdata", "*.xml") {
		f.Add(b, uint64(0))
		f.Add(b, uint64(1))
	}
	f.Fuzz(func(t *testing.T, b []byte, seed uint64) {
		d, err := parse(b)
		if err != nil || len(b) > 20000 {
			return
		}
		if seed > 0 {
			b = perturb(d, seed)
		}
		if _, err := rspec.ParseRequest(bytes.Clone(b), rspec.ReadOptions{Managers: []urn.URN{manager}}); err == nil {
			held(t, "the document", b, []urn.URN{manager})
		}
	})
}
