package testbed

import (
	"crypto/ed25519"
	"encoding/pem"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"patchbay/am/testkit/wait"
	"patchbay/inventory/provider"
	"patchbay/inventory/provider/local"
	"patchbay/inventory/provider/local/gateway"
)

func TestLifeOfANode(t *testing.T) {
	h, tb := runFakeHost(t)
	name := nodeName(1)
	c, err := trySet(tb, name, newNode("web", sliceURN, "alice"))
	if err != nil || fmt.Sprint(c["ensure"]) != "map[is:present was:absent]" || c["hostname"] == nil {
		t.Fatalf("make: %v, %v", c, err)
	}
	r := awaitNode(t, tb, name, isReady)
	if got, want := r.List(provider.AttrLogin), []string{"lab.example.org:30001", "web-00000001:22"}; !slices.Equal(got, want) {
		t.Errorf("login %q, want %q", got, want)
	}
	if got, want := r.Text(provider.AttrProxy), "gateway@lab.example.org:30000"; got != want {
		t.Errorf("proxy %q, want %q", got, want)
	}
	if keys := r.List(provider.AttrHostKeys); len(keys) != 2 || !strings.HasPrefix(keys[0], "ssh-ed25519 ") || !strings.HasPrefix(keys[1], "ecdsa-sha2-nistp256 ") {
		t.Errorf("host keys %q", keys)
	}
	if c, err := trySet(tb, name, newNode("web", sliceURN, "alice")); c != nil || err != nil {
		t.Errorf("the same once more: %v, %v", c, err)
	}

	s := h.running[name]
	if a := s.cfg.Accounts; len(a) != 1 || a[0].Login != "alice" || s.cfg.Hostname != "web" || !strings.Contains(s.cfg.Key, "BEGIN RSA PRIVATE KEY") || !strings.HasPrefix(s.cfg.PublicKey, "ssh-rsa ") {
		t.Errorf("it was configured with %+v", s.cfg)
	}
	if !slices.Equal(s.cfg.Hosts, []string{"127.64.0.1\tweb"}) || len(s.cfg.KnownHosts) != 2 || !strings.HasPrefix(s.cfg.KnownHosts[0], "web,127.64.0.1 ssh-ed25519 ") {
		t.Errorf("its peers are %q, %q", s.cfg.Hosts, s.cfg.KnownHosts)
	}
	if d := h.opens[name]; len(d.Accounts) != 2 || d.Slice != sliceID(sliceURN) || len(d.InsideKeys) != 1 || d.Names[0] != "web-00000001" || len(d.HostKey) == 0 {
		t.Errorf("its endpoint is %+v", d)
	}

	for _, step := range []struct {
		does   string
		should provider.Resource
		starts int
		on     bool
		logins int
	}{
		{"restart", provider.Resource{"restart_serial": "1"}, 2, true, 1},
		{"other accounts", provider.Resource{"users": userItems("alice", "bob")}, 2, true, 2},
		{"off", provider.Resource{"power": "off"}, 2, false, 0},
		{"restart while off", provider.Resource{"restart_serial": "2"}, 2, false, 0},
		{"on", provider.Resource{"power": "on"}, 3, true, 2},
		{"no accounts", provider.Resource{"users": []string{}}, 3, true, 0},
	} {
		if c, err := trySet(tb, name, step.should); err != nil || len(c) != 2 {
			t.Fatalf("%s: %v, %v", step.does, c, err)
		}
		r := awaitNode(t, tb, name, isReady)
		h.mu.Lock()
		s, door := h.running[name], h.opens[name]
		if h.starts[name] != step.starts || (s != nil) != step.on || len(door.Accounts) != countWithRoot(step.logins) {
			t.Errorf("%s: started %d times, runs: %v, endpoint %+v", step.does, h.starts[name], s != nil, door)
		}
		if s != nil && len(s.cfg.Accounts) != step.logins {
			t.Errorf("%s: accounts %v", step.does, s.cfg.Accounts)
		}
		h.mu.Unlock()
		if open := len(r.List(provider.AttrLogin)) > 0; open != step.on {
			t.Errorf("%s: login %q", step.does, r.List(provider.AttrLogin))
		}
	}

	if c, err := trySet(tb, name, absent); err != nil || fmt.Sprint(c["ensure"]) != "map[is:absent was:present]" {
		t.Fatalf("remove: %v, %v", c, err)
	}
	awaitNode(t, tb, name, provider.Gone)
	for range 2 {
		if c, err := trySet(tb, name, absent); c != nil || err != nil {
			t.Errorf("remove of a missing node: %v, %v", c, err)
		}
	}
	h.checkNothingLeft(t, tb)
}

// checkNothingLeft fails if anything but the testbed's own files exists.
func (h *fakeHost) checkNothingLeft(t *testing.T, tb *Testbed) {
	t.Helper()
	for dir, want := range map[string]string{"claims/ids": "[testbed-t:gateway]", "claims/ports": "[testbed-t:gateway]"} {
		if got := fmt.Sprint(allocationHolders(t, filepath.Join(h.dir, dir))); got != want {
			t.Errorf("%s holds %s, want %s", dir, got, want)
		}
	}
	for _, dir := range []string{"nodes", "slices", "endpoints"} {
		if entries, err := os.ReadDir(filepath.Join(h.dir, "state", dir)); err != nil || len(entries) > 0 {
			t.Errorf("left in %s: %v, %v", dir, entries, err)
		}
	}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		h.mu.Lock()
		doors, peers, running, networks := len(h.opens), len(h.peers), len(h.running), len(h.fabric)
		h.mu.Unlock()
		tb.mu.Lock()
		known := len(tb.networks)
		tb.mu.Unlock()
		if doors+peers+running+networks+known == 0 {
			return
		}
		if time.Now().After(end) {
			t.Errorf("left are %d endpoints, %d slices at the gateway, %d systems, %d networks (%d known)", doors, peers, running, networks, known)
			return
		}
	}
}

func TestPublishedEndpointsFollowTheSettings(t *testing.T) {
	for publish, want := range map[local.Publish][2]string{
		local.Both: {"[lab.example.org:30001 web-00000001:22]", "gateway@lab.example.org:30000"}, local.Gateway: {"[web-00000001:22]", "gateway@lab.example.org:30000"},
		local.Direct: {"[lab.example.org:30000]", ""},
	} {
		h := newFakeHost(t)
		h.settings.Publish = publish
		tb, stop := h.run(-1)
		set(t, tb, nodeName(1), newNode("web", sliceURN, "alice"))
		r := awaitNode(t, tb, nodeName(1), isReady)
		if got := [2]string{fmt.Sprint(r.List(provider.AttrLogin)), r.Text(provider.AttrProxy)}; got != want {
			t.Errorf("%s: %q, want %q", publish, got, want)
		}
		stop()
	}
}

// countWithRoot returns the number of accounts of an endpoint with that many logins.
func countWithRoot(logins int) int {
	if logins == 0 {
		return 0
	}
	return logins + 1
}

func TestRootLogsInWithAllKeysAndIsNotListed(t *testing.T) {
	h, tb := runFakeHost(t)
	name := nodeName(1)
	set(t, tb, name, newNode("web", sliceURN, "alice", "bob"))
	r := awaitNode(t, tb, name, isReady)
	if got := r.List(provider.AttrLogin); len(got) != 2 || strings.Contains(strings.Join(got, " "), "root@") {
		t.Errorf("login %q, want those without a user", got)
	}
	h.mu.Lock()
	a := h.opens[name].Accounts
	h.mu.Unlock()
	if len(a) != 3 || a[2].Login != "root" || !slices.Equal(a[2].Keys, slices.Concat(a[0].Keys, a[1].Keys)) {
		t.Errorf("the login is open for %+v", a)
	}
	// A node without users has no login for root either.
	set(t, tb, name, provider.Resource{"users": []string{}})
	r = awaitNode(t, tb, name, isReady)
	h.mu.Lock()
	defer h.mu.Unlock()
	if a := h.opens[name].Accounts; len(a) != 0 || len(r.List(provider.AttrLogin)) != 2 {
		t.Errorf("without users the login is open for %+v, login %q", a, r.List(provider.AttrLogin))
	}
}

// Logins of the other accounts were not proven.
func TestChangedAccountsAreProvenAgain(t *testing.T) {
	h, tb := runFakeHost(t)
	setUntilReady(t, tb, nodeName(1), newNode("web", sliceURN, "alice"))
	h.failOperation("prove", errors.New("broken"))
	set(t, tb, nodeName(1), provider.Resource{"users": userItems("alice", "bob")})
	if r := awaitNode(t, tb, nodeName(1), isSettled); r.Text("state") != "failed" {
		t.Errorf("%v, and no user can log in", r)
	}
}

func TestRefusals(t *testing.T) {
	_, tb := runFakeHost(t)
	with := func(attribute string, v any) provider.Resource {
		r := newNode("web", sliceURN, "alice")
		r[attribute] = v
		return r
	}
	set(t, tb, nodeName(1), newNode("web", sliceURN, "alice"))
	for _, tt := range []struct {
		rule, name string
		should     provider.Resource
		want       string
	}{
		{"no such component", nodeName(2), with("component", "pc9"), "unknown: the local testbed has no component pc9; its component is host1"},
		{"no component", nodeName(2), with("component", ""), "failed: a node needs a component"},
		{"no such sliver type", nodeName(2), with("sliver_type", "xen"), "unknown: there is no sliver type xen; available: container, big"},
		{"no such image", nodeName(2), with("image", "../../etc"), "unknown: there is no image ../../etc; available: debian-12, host"},
		{"a path as a name", "../../usr", newNode("web", sliceURN), `failed: "../../usr" cannot be the name of a node; it must be a UUID`},
		{"the group of the gateway", "gateway", newNode("web", sliceURN), `failed: "gateway" cannot be the name of a node; it must be a UUID`},
		{"an endpoint of another provider", foreignEndpointID("rack", "n1"), newNode("web", sliceURN), fmt.Sprintf("failed: %q cannot be the name of a node; it must be a UUID", foreignEndpointID("rack", "n1"))},
		{"large letters", strings.ToUpper("aaaaaaaa-0000-4000-8000-000000000000"), newNode("web", sliceURN), `failed: "AAAAAAAA-0000-4000-8000-000000000000" cannot be the name of a node; it must be a UUID`},
		{"no name", "", newNode("web", sliceURN), `failed: "" cannot be the name of a node; it must be a UUID`},
		{"a name of an option", "-rf", newNode("web", sliceURN), `failed: "-rf" cannot be the name of a node; it must be a UUID`},
		{"a hostname with a line break", nodeName(2), with("hostname", "a\nb"), `failed: "a\nb" cannot be a hostname; use up to 64 letters, digits, hyphens and dots`},
		{"a slice with a line break", nodeName(2), with("slice_urn", "a\nb"), "failed: slice_urn must be one line of at most 1024 bytes"},
		{"a long client_id", nodeName(2), with("client_id", strings.Repeat("x", 1025)), "failed: client_id must be one line of at most 1024 bytes"},
		{"power", nodeName(2), with("power", "half"), `failed: power is "half"; it must be on or off`},
		{"ensure", nodeName(2), with("ensure", "maybe"), `failed: ensure is "maybe"; it must be present or absent`},
		{"a node that does not exist", nodeName(2), provider.Resource{"power": "off"}, "unknown: there is no node " + nodeName(2)},
		{"account with a dot, which the agent does not take", nodeName(2), with("users", []string{`{"login":"a.b"}`}), `failed: "a.b" cannot be the name of an account; use up to 32 small letters, digits, hyphens and underscores, beginning with a letter`},
		{"account that is an option", nodeName(2), with("users", []string{`{"login":"-o"}`}), `failed: "-o" cannot be the name of an account; use up to 32 small letters, digits, hyphens and underscores, beginning with a letter`},
		{"account twice", nodeName(2), with("users", userItems("a", "a")), "failed: the account a is listed twice; remove one"},
		{"account that is no object", nodeName(2), with("users", []string{"alice"}), "failed: account 1 is not a JSON object with login and keys"},
		{"key of two lines", nodeName(2), with("users", []string{`{"login":"a","keys":["x\ny"]}`}), "failed: a key of the account a must be one line of at most 16384 bytes"},
		{"other component", nodeName(1), provider.Resource{"component": "host2"}, "failed: the component of a node cannot be changed; remove the node first"},
		{"other image", nodeName(1), provider.Resource{"image": "debian-12"}, "failed: the image of a node cannot be changed; remove the node first"},
		{"other slice", nodeName(1), provider.Resource{"slice_urn": "x"}, "failed: the slice_urn of a node cannot be changed; remove the node first"},
	} {
		if _, err := trySet(tb, tt.name, tt.should); err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v\nwant %s", tt.rule, err, tt.want)
		}
	}
	if r := getNode(tb, nodeName(2)); !provider.Gone(r) {
		t.Errorf("the refused node exists: %v", r)
	}
	if entries, _ := os.ReadDir(tb.nodesDir); len(entries) != 1 {
		t.Errorf("folders: %v", entries)
	}
}

// TestHostileValuesAreRefused requests names and texts that could reach a file, a shell or a
// terminal.
func TestHostileValuesAreRefused(t *testing.T) {
	_, tb := runFakeHost(t)
	refuse := func(what, name string, r provider.Resource) {
		t.Helper()
		if _, err := trySet(tb, name, r); err == nil {
			t.Errorf("%s was accepted", what)
		}
	}
	for _, bad := range []string{".", "..", "a/b", "/etc", "A", "\u00fcn\u00ef", "a\x00b", "a\nb", "a b", strings.Repeat("a", 65), "a\x1b[2J"} {
		refuse(fmt.Sprintf("the name %q", bad), bad, newNode("web", sliceURN))
	}
	key := `ssh-ed25519 AAAA`
	for attribute, values := range map[string][]string{
		"image":          {"../x", "/etc", "host/../..", ".", "a\x00b", strings.Repeat("x", 5000)},
		"hostname":       {"a\n127.0.0.1 b", "a;reboot", "$(id)", "a b", "-x", "..", "a..b", "\x1b]0;x\a", "\u00fc", strings.Repeat("a", 65), "a\x00"},
		"login":          {"", "-x", "a:b", "a\nb", "a/b", "..", "a.b", "A", "\u00fc", "0a", "a b", strings.Repeat("a", 33), "a\x00"},
		"key":            {key + "\nssh-rsa AAAA", "a\rb", "a\x00b", "a\x1b[2J", strings.Repeat("k", 20<<10)},
		"client_id":      {"a\nb", "a\x1b[2J", "a\x00", strings.Repeat("u", 2000)},
		"slice_urn":      {"a\nb", "a\x1b[2J", "a\x00", strings.Repeat("u", 2000)},
		"sliver_urn":     {"a\nb", "a\x1b[2J", "a\x00", strings.Repeat("u", 2000)},
		"restart_serial": {"a\nb", "a\x1b[2J", "a\x00", strings.Repeat("u", 2000)},
		"component":      {"../.."}, "sliver_type": {"../.."}, "power": {"\x1b"}, "users": {"[]", "null"},
	} {
		for _, bad := range values {
			r := newNode("web", sliceURN, "alice")
			switch attribute {
			case "login":
				r["users"] = []string{toJSON(object{"login": bad, "keys": []string{key}})}
			case "key":
				r["users"] = []string{toJSON(object{"login": "alice", "keys": []string{bad}})}
			case "users":
				r["users"] = []string{bad}
			default:
				r[attribute] = bad
			}
			refuse(fmt.Sprintf("%s %.20q", attribute, bad), nodeName(2), r)
		}
	}
	if r := getNode(tb, nodeName(2)); !provider.Gone(r) {
		t.Errorf("a refused node exists: %v", r)
	}
}

func TestNameOfANodeThatIsBeingRemoved(t *testing.T) {
	h, tb := runFakeHost(t)
	name := nodeName(1)
	setUntilReady(t, tb, name, newNode("web", sliceURN))
	h.failOperation("remove", errors.New("busy"))
	set(t, tb, name, absent)
	if _, err := trySet(tb, name, newNode("web", sliceURN)); err == nil || !strings.Contains(err.Error(), "is still being removed") {
		t.Errorf("made while it is removed: %v", err)
	}
	if r := getNode(tb, name); r.Text("ensure") != "present" {
		t.Errorf("it is absent while something is left: %v", r)
	}
	h.failOperation("remove", nil)
	awaitNode(t, tb, name, provider.Gone)
	if _, err := trySet(tb, name, newNode("web", sliceURN)); err != nil {
		t.Errorf("made after it is gone: %v", err)
	}
	awaitNode(t, tb, name, isReady)
}

func TestFailures(t *testing.T) {
	for _, tt := range []struct {
		operation, message string
	}{
		{"prepare", "its disk cannot be created"},
		{"start", "it does not start"},
		{"configure", "its accounts cannot be set up"},
		{"set endpoint", "the gateway cannot accept logins for it"},
		{"prove", "the logins do not work: broken"},
		{"find image", "its image cannot be prepared"},
		{"set link", "its links cannot be created"},
		{"attach end", "its links cannot be created"},
	} {
		t.Run(tt.operation, func(t *testing.T) {
			t.Parallel()
			h := newFakeHost(t)
			h.settings.FirstPort += 1000 * len(tt.operation)
			h.settings.LastPort = h.settings.FirstPort + 99
			tb, stop := h.run(-1)
			defer stop()
			h.failOperation(tt.operation, errors.New("broken"))
			set(t, tb, nodeName(1), newLinkedNode("web", interfaceItem("0", "lan", "", "")))
			r := awaitNode(t, tb, nodeName(1), isSettled)
			if r.Text("state") != "failed" || r.Text("message") != tt.message || len(r.List("login")) > 0 {
				t.Errorf("%v", r)
			}
			stop()
			tb, stop = h.run(-1)
			defer stop()
			if r := awaitNode(t, tb, nodeName(1), isSettled); r.Text("state") != "failed" || r.Text("message") != tt.message {
				t.Errorf("after a restart: %v", r)
			}
			h.failOperation(tt.operation, nil)
			set(t, tb, nodeName(1), provider.Resource{"restart_serial": "1"})
			if r := awaitNode(t, tb, nodeName(1), isSettled); r.Text("state") != "ready" || r.Text("message") != "" {
				t.Errorf("requested once more: %v", r)
			}
			remove(t, tb, nodeName(1))
			h.checkNothingLeft(t, tb)
		})
	}
}

func TestEndedSystemIsRestartedThreeTimes(t *testing.T) {
	h, tb := runFakeHost(t)
	name := nodeName(1)
	set(t, tb, name, newNode("web", sliceURN, "alice"))
	for i := range maxDeaths + 1 {
		awaitNode(t, tb, name, func(r provider.Resource) bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			return isReady(r) && h.starts[name] == i+1 && h.running[name] != nil
		})
		h.killSystem(name)
	}
	r := awaitNode(t, tb, name, func(r provider.Resource) bool { return r.Text("state") == "failed" })
	if r.Text("message") != deathsMessage || h.starts[name] != maxDeaths+1 {
		t.Errorf("after %d starts: %v", h.starts[name], r)
	}
	setUntilReady(t, tb, name, provider.Resource{"restart_serial": "1"})
}

func TestTakenPortIsReplaced(t *testing.T) {
	h := newFakeHost(t)
	tb, stop := h.run(-1)
	setUntilReady(t, tb, nodeName(1), newNode("web", sliceURN, "alice"))
	stop()
	l, err := tb.bind(30001)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	tb, stop = h.run(-1)
	defer stop()
	if login := awaitNode(t, tb, nodeName(1), isReady).List("login"); login[0] != "lab.example.org:30002" {
		t.Errorf("login %q", login)
	}
	if got := allocationHolders(t, filepath.Join(h.dir, "claims/ports")); hasPart(got, nodeName(1)) && len(got) != 2 {
		t.Errorf("claims %v", got)
	}
	if h.starts[nodeName(1)] != 1 {
		t.Error("it was started again")
	}
}

func TestDamagedRecordAffectsNoOtherNode(t *testing.T) {
	h := newFakeHost(t)
	tb, stop := h.run(-1)
	for i := range 2 {
		setUntilReady(t, tb, nodeName(i), newNode("web", sliceURN))
	}
	stop()
	if err := os.WriteFile(filepath.Join(tb.nodesDir, nodeName(0), recordFile), []byte(`{"desired":`), 0o600); err != nil {
		t.Fatal(err)
	}
	tb, stop = h.run(-1)
	defer stop()
	awaitNode(t, tb, nodeName(1), isReady)
	if r := awaitNode(t, tb, nodeName(0), isSettled); r.Text("state") != "failed" || h.running[nodeName(0)] != nil {
		t.Errorf("the spoilt one: %v", r)
	}
	for i := range 2 {
		remove(t, tb, nodeName(i))
	}
	h.checkNothingLeft(t, tb)
}

func TestPeersOfASliceKnowEachOther(t *testing.T) {
	h, tb := runFakeHost(t)
	for i, hostname := range []string{"a.exp.example.org", "b", "c"} {
		slice := sliceURN
		if hostname == "c" {
			slice += "2"
		}
		setUntilReady(t, tb, nodeName(i), newNode(hostname, slice, "alice"))
	}
	want := []string{"127.64.0.1\ta.exp.example.org a", "127.64.0.2\tb"}
	awaitNode(t, tb, nodeName(0), func(provider.Resource) bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return slices.Equal(h.running[nodeName(0)].cfg.Hosts, want) && slices.Equal(h.running[nodeName(1)].cfg.Hosts, want)
	})
	if hosts := h.running[nodeName(2)].cfg.Hosts; !slices.Equal(hosts, []string{"127.64.0.1\tc"}) {
		t.Errorf("another slice's node knows %q", hosts)
	}
	set(t, tb, nodeName(0), absent)
	awaitNode(t, tb, nodeName(1), func(r provider.Resource) bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return isReady(r) && slices.Equal(h.running[nodeName(1)].cfg.Hosts, want[1:]) && len(h.peers[sliceID(sliceURN)]) == 1
	})
	if h.starts[nodeName(1)] != 1 {
		t.Error("it was restarted")
	}
}

// TestKilledAtAnyOperation sets random attributes at a testbed that is killed at random
// operations. In the end all nodes must be in their last desired state.
func TestKilledAtAnyOperation(t *testing.T) {
	rounds := 25
	if testing.Short() {
		rounds = 10
	}
	for i := range rounds {
		seed := uint64(i) + 1
		t.Run(fmt.Sprint(seed), func(t *testing.T) { runKilledRepeatedly(t, seed) })
	}
}

func runKilledRepeatedly(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0))
	h := newFakeHost(t)
	wanted := map[string]provider.Resource{} // desired attributes, by node
	const names = 4
	for range 6 {
		tb, stop := h.run(r.IntN(60))
		for range 1 + r.IntN(6) {
			name := nodeName(r.IntN(names))
			should := provider.Resource{}
			switch old := wanted[name]; {
			case old == nil:
				slice := sliceURN + fmt.Sprint(name[7]%2)
				should = newNode(fmt.Sprintf("n%d", r.IntN(100)), slice, "alice")
				should["interfaces"] = []string{`{"client_id":"if0","link":"lan","slice":"` + slice + `"}`, `{"client_id":"` + name + `"}`}
			case r.IntN(4) == 0:
				should = absent
			case r.IntN(3) == 0:
				should["power"] = []string{"on", "off"}[r.IntN(2)]
			case r.IntN(2) == 0:
				should["restart_serial"] = fmt.Sprint(r.IntN(1000))
			default:
				should["users"] = userItems([]string{"alice", "bob", "carol"}[:r.IntN(4)]...)
			}
			want := provider.Resource{}
			for k, v := range wanted[name] {
				want[k] = v
			}
			for k, v := range should {
				want[k] = v
			}
			if should["ensure"] == "absent" {
				want = nil
			}
			if tb == nil {
				break
			}
			if provider.Gone(getNode(tb, name)) && want != nil {
				should = want // it was killed before it saved that
			}
			_, err := trySet(tb, name, should)
			if err != nil && strings.Contains(err.Error(), "try again") {
				continue // still being removed
			}
			if err != nil && !h.last.isKilled() {
				t.Fatalf("%s: %v: %v", name, should, err)
			}
			wanted[name] = want // a manager repeats the request
			if r.IntN(2) == 0 {
				time.Sleep(time.Duration(r.IntN(3000)) * time.Microsecond)
			}
		}
		stop()
	}

	tb, stop := h.run(-1)
	defer stop()
	for name, want := range wanted {
		for {
			should := want
			if want == nil {
				should = absent
			}
			if _, err := trySet(tb, name, should); err == nil {
				break
			} else if !strings.Contains(err.Error(), "try again") {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
	}
	live := 0
	for name, want := range wanted {
		got := awaitNode(t, tb, name, isSettled)
		if want == nil {
			awaitNode(t, tb, name, provider.Gone)
			continue
		}
		live++
		if got.Text("state") != "ready" {
			t.Errorf("%s: %v", name, got)
		}
		on := want["power"] == "on"
		slice := want["slice_urn"].(string)
		if plugged := slices.Contains(h.attachedEnds(slice, "lan"), name+"/eth1"); plugged != on {
			t.Errorf("%s is on: %v, and on its link: %v", name, on, plugged)
		}
		users := want["users"].([]string)
		h.mu.Lock()
		s, door := h.running[name], h.opens[name]
		if (s != nil) != on || (len(got.List("login")) > 0) != on || (door.Node != "") != on {
			t.Errorf("%s is on: %v; runs %v, endpoint %v, %v", name, on, s != nil, door, got)
		}
		if on && s != nil && (len(s.cfg.Accounts) != len(users) || len(door.Accounts) != countWithRoot(len(users))) {
			t.Errorf("%s has accounts %v and a login for %v; requested were %v", name, s.cfg.Accounts, door.Accounts, users)
		}
		h.mu.Unlock()
		if got.Text("restart_serial") != want["restart_serial"] {
			t.Errorf("%s: %v", name, got)
		}
	}
	for _, dir := range []string{"ids", "ports"} {
		if got := allocationHolders(t, filepath.Join(h.dir, "claims", dir)); len(got) != live+1 {
			t.Errorf("%s are held by %v, and there are %d nodes", dir, got, live)
		}
	}
	for name := range wanted {
		set(t, tb, name, absent)
	}
	for name := range wanted {
		awaitNode(t, tb, name, provider.Gone)
	}
	h.checkNothingLeft(t, tb)
	if len(h.wrong) > 0 {
		t.Error(h.wrong)
	}
}

// keys returns the slice's key as the running nodes, the gateway and the saved file have it. It
// is empty if they differ.
func (h *fakeHost) keys(tb *Testbed, nodes ...string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	saved, err := os.ReadFile(filepath.Join(tb.keysDir, sliceID(sliceURN)))
	if err != nil {
		return ""
	}
	public, err := publicLines(saved)
	for _, name := range nodes {
		if s, open := h.running[name], h.opens[name]; err != nil || s == nil || s.cfg.Key != string(saved) || !slices.Equal(open.InsideKeys, []string{public}) {
			return ""
		}
	}
	return string(saved)
}

// freshKeys makes the testbed create a different key each time.
func freshKeys(tb *Testbed) {
	tb.newKey = func() ([]byte, error) {
		_, key, err := ed25519.GenerateKey(nil)
		if err != nil {
			return nil, err
		}
		block, err := ssh.MarshalPrivateKey(key, "")
		return pem.EncodeToMemory(block), err
	}
}

// A user who has lost access may have a copy of the slice's key.
func TestKeyOfASliceIsReplacedWhenUsersLoseAccess(t *testing.T) {
	a, b, other := nodeName(1), nodeName(2), nodeName(3)
	for _, tt := range []struct {
		name    string
		changes map[string]provider.Resource
		want    bool
	}{
		{"a user is removed", map[string]provider.Resource{a: {"users": userItems("alice")}, b: {"users": userItems("alice")}}, true},
		{"a user is removed from one node", map[string]provider.Resource{a: {"users": userItems("alice")}}, true},
		{"all users are removed", map[string]provider.Resource{a: {"users": []string{}}}, true},
		{"a key of a user is replaced", map[string]provider.Resource{a: {"users": append(userItems("alice"), `{"login":"bob","urn":"","keys":["ssh-ed25519 BBBB bob"]}`)}}, true},
		{"a user is removed, and the node is switched off", map[string]provider.Resource{a: {"users": userItems("alice"), "power": "off"}}, true},
		{"a user is removed, and the node restarts", map[string]provider.Resource{a: {"users": userItems("alice"), "restart_serial": "1"}}, true},
		{"a node is removed, whose user has no other", map[string]provider.Resource{other: absent}, true},
		{"a node is removed, whose users have others", map[string]provider.Resource{a: absent}, false},
		{"a user is added", map[string]provider.Resource{a: {"users": userItems("alice", "bob", "dave")}}, false},
		{"users are in another order", map[string]provider.Resource{a: {"users": userItems("bob", "alice")}}, false},
		{"a node restarts", map[string]provider.Resource{a: {"restart_serial": "1"}}, false},
		{"a node of another slice loses users", map[string]provider.Resource{nodeName(4): {"users": []string{}}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newFakeHost(t)
			tb := h.open(-1)
			freshKeys(tb)
			t.Cleanup(h.startServing(tb))
			setAll(t, tb, map[string]provider.Resource{
				a: newNode("a", sliceURN, "alice", "bob"), b: newNode("b", sliceURN, "alice", "bob"), other: newNode("c", sliceURN, "carol"),
				nodeName(4): newNode("d", sliceURN+"2", "alice"),
			})
			left := []string{a, b, other}
			wait.Until(t, "one key", func() bool { return h.keys(tb, left...) != "" })
			before := h.keys(tb, left...)
			setAll(t, tb, tt.changes)
			for name, change := range tt.changes {
				if change["ensure"] != nil || change["power"] != nil {
					left = slices.DeleteFunc(left, func(s string) bool { return s == name })
				}
				if r := awaitNode(t, tb, name, isSettled); change["ensure"] == nil && !isReady(r) {
					t.Fatal(r)
				}
			}
			setUntilReady(t, tb, nodeName(5), newNode("later", sliceURN, "alice"))
			left = append(left, nodeName(5))
			wait.Until(t, "one key, and the right one", func() bool {
				is := h.keys(tb, left...)
				return is != "" && (is != before) == tt.want
			})
		})
	}
}

// The program is killed at each operation after a user was removed.
func TestKilledWhileTheKeyOfASliceIsReplaced(t *testing.T) {
	a, b := nodeName(1), nodeName(2)
	for operations := range 30 {
		h := newFakeHost(t)
		tb := h.open(-1)
		freshKeys(tb)
		stop := h.startServing(tb)
		setAll(t, tb, map[string]provider.Resource{a: newNode("a", sliceURN, "alice", "bob"), b: newNode("b", sliceURN, "alice", "bob")})
		wait.Until(t, "one key", func() bool { return h.keys(tb, a, b) != "" })
		before := h.keys(tb, a, b)
		h.mu.Lock()
		h.last.left = operations
		h.mu.Unlock()
		change := provider.Resource{"users": userItems("alice")}
		_, err1 := trySet(tb, a, change)
		_, err2 := trySet(tb, b, change)
		if err1 == nil && err2 == nil {
			wait.Until(t, "the end", func() bool { return h.last.isKilled() || h.keys(tb, a, b) != "" && h.keys(tb, a, b) != before })
		}
		stop()
		tb = h.open(-1)
		freshKeys(tb)
		stop = h.startServing(tb)
		setAll(t, tb, map[string]provider.Resource{a: change, b: change}) // a manager repeats the request
		awaitNode(t, tb, a, isReady)
		awaitNode(t, tb, b, isReady)
		wait.Until(t, "one new key", func() bool { is := h.keys(tb, a, b); return is != "" && is != before })
		stop()
	}
}

// In the node nothing can be configured any more, which a user with the rights of root can
// cause.
func TestWithdrawnUsersLoseAccessEvenIfTheNodeFails(t *testing.T) {
	h, tb := runFakeHost(t)
	name := nodeName(1)
	setUntilReady(t, tb, name, newNode("web", sliceURN, "alice", "bob"))
	h.failOperation("configure", errors.New("it is a directory"))
	set(t, tb, name, provider.Resource{"users": userItems("alice", "carol")})
	if r := awaitNode(t, tb, name, isSettled); r.Text("state") != "failed" {
		t.Errorf("%v", r)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var in []string
	for _, a := range h.opens[name].Accounts {
		in = append(in, a.Login)
	}
	if !slices.Equal(in, []string{"alice", gateway.Root}) || len(h.opens[name].Accounts[1].Keys) != 1 {
		t.Errorf("the gateway accepts %q; bob was withdrawn, and carol has no account", in)
	}
}

// TestOlderNamesOfFiles opens the state of a program before schema 5 of the site's store.
func TestOlderNamesOfFiles(t *testing.T) {
	h := newFakeHost(t)
	tb, stop := h.run(-1)
	name := nodeName(1)
	set(t, tb, name, newNodeWithSetup(executeStep("server")))
	h.endStep(name, "1", stepDone)
	awaitNode(t, tb, name, hasStepStates(t, "done"))
	requestEndpoints(t, tb, local.EndpointsInput{Set: []local.EndpointRequest{{Name: "n1", Address: "10.0.0.1:22"}}})
	stop()
	state := filepath.Join(h.dir, "state")
	node := filepath.Join(state, "nodes", name)
	text, err := os.ReadFile(filepath.Join(node, recordFile))
	if err == nil {
		older := strings.NewReplacer(`"desired":`, `"asked":`, `"egress_number":`, `"outside":`).Replace(string(text))
		err = errors.Join(os.WriteFile(filepath.Join(node, recordFile), []byte(older), 0o600),
			os.Rename(filepath.Join(node, journalFile), filepath.Join(node, "services.json")),
			os.Rename(filepath.Join(state, "endpoints"), filepath.Join(state, "doors")))
	}
	if err != nil {
		t.Fatal(err)
	}
	tb, stop = h.run(-1)
	defer stop()
	awaitNode(t, tb, name, hasStepStates(t, "done"))
	if d := requestEndpoints(t, tb, local.EndpointsInput{Names: []string{"n1"}}); len(d) != 1 {
		t.Errorf("endpoints %v", d)
	}
	if h.starts[name] != 1 || len(h.begun) != 1 {
		t.Errorf("it was started %d times, and its steps %v", h.starts[name], h.begun)
	}
}
