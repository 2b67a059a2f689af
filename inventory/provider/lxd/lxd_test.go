package lxd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"patchbay/inventory"
	"patchbay/inventory/provider"
)

const testID = "11111111-1111-4111-8111-111111111111"

// call runs one call of the provider, with a worker in this process after a set.
func call(t *testing.T, dir, action string, input any) object {
	t.Helper()
	in, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := Run(dir, "lxd", "ral_action="+action, bytes.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	var o object
	if err := json.Unmarshal(out.Bytes(), &o); err != nil {
		t.Fatalf("%v in %s", err, out.Bytes())
	}
	return o
}

// claim keeps sets and gets from starting a worker, which would be this test's own program.
func claim(t *testing.T, dir string) (release func()) {
	t.Helper()
	release, err := folder{dir, "lxd"}.claim()
	if err != nil {
		t.Fatal(err)
	}
	return release
}

func set(t *testing.T, dir string, noop bool, should object) (kind, message string) {
	t.Helper()
	defer claim(t, dir)()
	o := call(t, dir, "set", object{"updates": []object{{"name": testID, "should": should}}, "ral": object{"noop": noop}})
	text, _ := json.Marshal(o)
	var answer struct {
		Error   *struct{ Kind, Message string }
		Changes []struct {
			Error *struct{ Kind, Message string }
		}
	}
	_ = json.Unmarshal(text, &answer)
	if answer.Error != nil {
		return answer.Error.Kind, answer.Error.Message
	}
	for _, c := range answer.Changes {
		if c.Error != nil {
			return c.Error.Kind, c.Error.Message
		}
	}
	return "", ""
}

func get(t *testing.T, dir string) map[string]any {
	t.Helper()
	defer claim(t, dir)()
	o := call(t, dir, "get", object{"names": []string{testID}})
	list, _ := o["resources"].([]any)
	if len(list) != 1 {
		t.Fatalf("get: %v", o)
	}
	return list[0].(map[string]any)
}

// finish runs the worker until nothing is left.
func finish(t *testing.T, dir string) {
	t.Helper()
	if err := work(t.Context(), dir, "lxd", 0, os.Stderr); err != nil {
		t.Fatal(err)
	}
}

var present = object{"ensure": "present", "component": "m1", "power": "on", "hostname": "n1", "users": []string{`{"login":"alice","keys":["ssh-ed25519 AAAA"]}`}}

// TestFaults creates and removes a node on a server with each fault, and checks the final state.
func TestFaults(t *testing.T) {
	once := func(method, prefix string, f fault) func(string, string, int) *fault {
		done := false
		return func(m, path string, _ int) *fault {
			if done || m != method || !strings.HasPrefix(path, prefix) {
				return nil
			}
			done = true
			return &f
		}
	}
	onceAny := func(method, suffix string, f fault) func(string, string, int) *fault {
		done := false
		return func(m, path string, _ int) *fault {
			if done || m != method || !strings.HasSuffix(path, suffix) {
				return nil
			}
			done = true
			return &f
		}
	}
	// newNode is a fault of the first creation of an instance after that of the template.
	newNode := func(bad fault) func(string, string, int) *fault {
		exact := 0
		return func(m, path string, _ int) *fault {
			if m != "POST" || path != "/instances" {
				return nil
			}
			if exact++; exact != 2 {
				return nil
			}
			return &bad
		}
	}
	for _, tt := range []struct {
		rule  string
		fault func(method, path string, count int) *fault
	}{
		{"no fault", nil},
		{"the answer to the creation is lost", newNode(fault{lost: true})},
		{"409 at the creation", newNode(fault{status: 409})},
		{"503 at the creation", newNode(fault{status: 503})},
		{"the creation is accepted and fails later", newNode(fault{later: "database is locked"})},
		{"the answer to the creation of the template is lost", once("POST", "/instances", fault{lost: true})},
		{"503 at the creation of the template", once("POST", "/instances", fault{status: 503})},
		{"the creation of the template is accepted and fails later", once("POST", "/instances", fault{later: "database is locked"})},
		{"the template is not marked as complete", once("PATCH", "/instances/"+templatePrefix, fault{status: 503})},
		{"the template is gone", newNode(fault{status: 404})},
		{"the start is accepted and fails later", once("PUT", "/instances/pb-"+testID+"/state", fault{later: "Timeout"})},
		{"the answer to the start is lost", once("PUT", "/instances/pb-"+testID+"/state", fault{lost: true})},
		{"a stream cannot be opened", onceAny("GET", "/websocket", fault{status: 500})},
		{"the program cannot be pushed", once("POST", "/instances/"+templatePrefix, fault{status: 500})},
		{"a command is accepted and fails later", once("POST", "/instances/pb-"+testID+"/exec", fault{later: "context canceled"})},
		{"a command is refused, because the node does not run yet", once("POST", "/instances/pb-"+testID+"/exec", fault{status: 400})},
		{"412 at a change", once("PATCH", "/instances/pb-"+testID, fault{status: 412})},
		{"the answer to the removal is lost", once("DELETE", "/instances/pb-"+testID, fault{lost: true})},
		{"the removal is accepted and fails later", once("DELETE", "/instances/pb-"+testID, fault{later: "Timeout"})},
		{"lists fail", once("GET", "/instances", fault{lost: true})},
		{"the server forgets the operation", once("GET", "/operations/", fault{status: 404})},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			t.Parallel()
			f, dir := newFake(t)
			f.fault = tt.fault
			if kind, message := set(t, dir, false, present); kind != "" {
				t.Fatalf("set: %s %s", kind, message)
			}
			if r := get(t, dir); r["state"] != "changing" || r["ensure"] != "present" {
				t.Errorf("after set: %v", r)
			}
			finish(t, dir)
			r := get(t, dir)
			if r["state"] != "ready" || r["power"] != "on" || len(r["login"].([]any)) != 1 || f.count() != 1 {
				t.Errorf("made: %v, %d instances", r, f.count())
			}
			if kind, message := set(t, dir, false, object{"ensure": "absent"}); kind != "" {
				t.Fatalf("set: %s %s", kind, message)
			}
			finish(t, dir)
			if r := get(t, dir); r["ensure"] != "absent" || f.count() != 0 {
				t.Errorf("removed: %v, %d instances", r, f.count())
			}
			if left, err := (folder{dir, "lxd"}).ids(); err != nil || len(left) > 0 {
				t.Errorf("files are left: %v, %v", left, err)
			}
		})
	}
}

// TestTemplates checks that a new template replaces exactly those of the same image and member.
func TestTemplates(t *testing.T) {
	f, dir := newFake(t)
	for name, of := range map[string][2]string{"old": {"m1", "debian"}, "image": {"m1", "other"}, "member": {"m2", "debian"}} {
		name = templatePrefix + name
		f.instances[name] = &instance{Name: name, Status: statusStopped, Location: of[0], Config: map[string]string{keyTemplate: of[1]}}
	}
	set(t, dir, false, present)
	finish(t, dir)
	if f.instances[templatePrefix+"old"] != nil || len(f.instances) != 4 || f.count() != 1 {
		t.Errorf("%v", slices.Collect(maps.Keys(f.instances)))
	}
}

// TestLastingErrors checks that a permanent error fails the node, that the failed node can be
// removed, and that another instance of the project stays.
func TestLastingErrors(t *testing.T) {
	f, dir := newFake(t)
	f.instances["other"] = &instance{Name: "other", Status: statusRunning, Config: map[string]string{}}
	f.fault = func(method, path string, _ int) *fault {
		if method == http.MethodPost && path == "/instances" {
			return &fault{later: "there is no image\x1b[2J"}
		}
		return nil
	}
	set(t, dir, false, present)
	finish(t, dir)
	r := get(t, dir)
	if message := fmt.Sprint(r["message"]); r["state"] != "failed" || !strings.Contains(message, "there is no image") || strings.Contains(message, "\x1b") {
		t.Errorf("%v", r)
	}
	set(t, dir, false, object{"ensure": "absent"})
	finish(t, dir)
	if r := get(t, dir); r["ensure"] != "absent" || f.count() != 1 {
		t.Errorf("%v, %d instances", r, f.count())
	}
}

// TestHalfMadeInstances checks that an incomplete instance, whose worker ended early, is created
// again.
func TestHalfMadeInstances(t *testing.T) {
	f, dir := newFake(t)
	node, _ := json.Marshal(object{"name": testID, "ensure": "present", "component": "m1"})
	f.instances[instanceName(testID)] = &instance{Name: instanceName(testID), Status: statusStopped, Description: "half", Config: map[string]string{keyNode: string(node)}}
	set(t, dir, false, present)
	finish(t, dir)
	if i := f.instances[instanceName(testID)]; i == nil || i.Description == "half" || !i.isMade() {
		t.Errorf("%+v", i)
	}
}

func TestReloadKeepsHostKeysAndAddresses(t *testing.T) {
	f, dir := newFake(t)
	set(t, dir, false, present)
	finish(t, dir)
	before, made := get(t, dir), f.instances[instanceName(testID)]
	set(t, dir, false, object{"reload_serial": "1"})
	finish(t, dir)
	after, again := get(t, dir), f.instances[instanceName(testID)]
	if made == again || after["reload_serial"] != "1" || fmt.Sprint(before["host_keys"]) != fmt.Sprint(after["host_keys"]) ||
		made.Devices["eth0"]["hwaddr"] != again.Devices["eth0"]["hwaddr"] || after["state"] != "ready" {
		t.Errorf("before %v\nafter %v", before, after)
	}
}

// TestRefusals are answers of the dry run, and of the set that follows.
func TestRefusals(t *testing.T) {
	link := func(id, more string) string {
		return fmt.Sprintf(`{"client_id":%q,"link":"lan","slice":"urn:publicid:IDN+example.org+slice+s"%s}`, id, more)
	}
	with := func(key string, value any) object {
		o := object{}
		for k, v := range present {
			o[k] = v
		}
		o[key] = value
		return o
	}
	for _, tt := range []struct {
		rule   string
		should object
		kind   provider.Kind
		says   string
	}{
		{"accepted", present, "", ""},
		{"a link", with("interfaces", []string{link("n1:0", `,"properties":[{"capacity":1000}]`)}), "", ""},
		{"latency", with("interfaces", []string{link("n1:0", `,"properties":[{"latency":5}]`)}), provider.Unsupported, "link lan asks for latency"},
		{"loss", with("interfaces", []string{link("n1:0", `,"properties":[{"packet_loss":5}]`)}), provider.Unsupported, "link lan asks for packet_loss"},
		{"too many links", with("interfaces", []string{link("n1:0", ""), strings.Replace(link("n1:1", ""), "lan", "lan2", 1)}), provider.Full, "all are in use"},
		{"an unknown shared VLAN", with("interfaces", []string{link("n1:0", `,"shared_vlan":"office"`)}), provider.Unsupported, "shared VLAN"},
		{"an unknown member", with("component", "m7"), provider.Unknown, "m7 is not a member"},
		{"a member like a path", with("component", "../m1"), provider.Unknown, "not a member"},
		{"an unknown image", with("image", "x"), provider.Unknown, "image"},
		{"an unknown type", with("sliver_type", "x"), provider.Unknown, "sliver type"},
		{"a host name with a line", with("hostname", "a\nb"), provider.Failed, "not a host name"},
		{"an account like a path", with("users", []string{`{"login":"../root","keys":[]}`}), provider.Failed, "not a login"},
		{"a key of two lines", with("users", []string{`{"login":"alice","keys":["a\nb"]}`}), provider.Failed, "single line"},
		{"a step of a stage", with("setup", []string{`{"kind":"execute","command":"x","shell":"sh","stage":2}`}), "", ""},
		{"a disk", with("setup", []string{`{"kind":"disk","size":64,"fstype":"ext4","install_path":"/d"}`}), provider.Unsupported, "cannot get a disk"},
		{"a stage that is no number", with("setup_stage", "x"), provider.Failed, "setup_stage"},
		{"a public address", with("interfaces", []string{`{"role":"control","public_address":"192.0.2.9"}`}), provider.Unsupported, "public addresses"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			f, dir := newFake(t)
			for _, noop := range []bool{true, false} {
				kind, message := set(t, dir, noop, tt.should)
				if kind != string(tt.kind) || !strings.Contains(message, tt.says) {
					t.Errorf("noop %t: %s %q", noop, kind, message)
				}
			}
			if tt.kind != "" {
				if ids, _ := (folder{dir, "lxd"}).ids(); len(ids) > 0 || f.count() > 0 {
					t.Errorf("something was made: %v", ids)
				}
			}
		})
	}
	t.Run("a member that is offline", func(t *testing.T) {
		f, dir := newFake(t)
		f.status = "Offline"
		if kind, message := set(t, dir, true, present); kind != string(provider.Full) || !strings.Contains(message, "no heartbeat") {
			t.Errorf("%s %q", kind, message)
		}
	})
	t.Run("another size", func(t *testing.T) {
		_, dir := newFake(t)
		set(t, dir, false, present)
		finish(t, dir)
		if kind, _ := set(t, dir, false, object{"image": "x"}); kind != string(provider.Unknown) {
			t.Error(kind)
		}
		if kind, message := set(t, dir, false, object{"component": "m2"}); kind == "" {
			t.Error(message)
		}
	})
}

// TestOtherServer checks that the provider refuses a server with another certificate than the
// stored one.
func TestOtherServer(t *testing.T) {
	_, dir := newFake(t)
	if err := os.WriteFile(filepath.Join(dir, "lxd.server.crt"), must(os.ReadFile(filepath.Join(dir, "lxd.crt"))), 0o600); err != nil {
		t.Fatal(err)
	}
	defer claim(t, dir)()
	if o := call(t, dir, "get", object{"names": []string{testID}}); o["error"] == nil {
		t.Errorf("%v", o)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestSettingsHaveLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lxd.yaml")
	text := "remote: http://x\nprojct: a\nports: 5-4\nimages: []\nkey: ../key\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := readSettings(path)
	for line, says := range []string{"https://", "projct", "range", "no node could be created", "name of a file"} {
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("lxd.yaml:%d", line+1)) || !strings.Contains(err.Error(), says) {
			t.Errorf("line %d: %v", line+1, err)
		}
	}
}

// TestDoctorOfAnEarlierVersion checks that doctor reports attributes that the metadata of an
// earlier version lacks.
func TestDoctorOfAnEarlierVersion(t *testing.T) {
	_, dir := newFake(t)
	path := filepath.Join(dir, "lxd.yaml")
	settings := readTest(t, path)
	for text, want := range map[string]string{metadataText: "", strings.Replace(metadataText, "    change_serial", "    other", 1): "add below attributes: `    change_serial: {"} {
		writeTest(t, path, text+settings)
		got := ""
		_ = Doctor(t.Context(), dir, "lxd", func(f Finding) { // the server is no whole one
			if f.Name == "settings" {
				got = f.Remedy
			}
		})
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("doctor says %q, want %q", got, want)
		}
	}
}

func FuzzSet(f *testing.F) {
	f.Add(`{"ensure":"present","component":"m1","interfaces":["{\"client_id\":\"a\",\"link\":\"l\",\"properties\":[{\"capacity\":5}]}"],"users":["{}"],"setup":["{}"]}`)
	f.Add(`{"ensure":"absent"}`)
	s := defaultSettings()
	f.Fuzz(func(t *testing.T, should string) {
		n, err := merge(update{Name: testID, Should: json.RawMessage(should)}, nil)
		if err != nil || n.Ensure != provider.Present {
			return
		}
		if s.check(n) != nil || endsOf(map[string]*node{n.Name: n}).check("") != nil {
			return
		}
		mine, err := n.interfaces()
		if err != nil {
			t.Fatal(err)
		}
		names := []string{}
		for _, i := range mine {
			names = append(names, i.name)
		}
		if slices.Sort(names); len(slices.Compact(names)) != len(mine) {
			t.Error("two interfaces have one name")
		}
		n.reportedInterfaces()
		j := journal(n, nil)
		j.Items(1 << 10)
	})
}

// TestEachUpdateIsChecked checks that all updates of a set are checked, also after a refused one.
func TestEachUpdateIsChecked(t *testing.T) {
	f, dir := newFake(t)
	defer claim(t, dir)()
	var updates []object
	for n := range 4 {
		bad := object{"ensure": "present", "component": "m1", "image": "x"}
		updates = append(updates, object{"name": fmt.Sprintf("11111111-1111-4111-8111-%012d", n), "should": bad})
	}
	o := call(t, dir, "set", object{"updates": updates, "ral": object{"noop": false}})
	if changes, _ := o["changes"].([]any); len(changes) != 4 {
		t.Errorf("%v", o)
	}
	if ids, _ := (folder{dir, "lxd"}).ids(); len(ids) > 0 || f.count() > 0 {
		t.Errorf("accepted: %v", ids)
	}
}

// TestLostMember checks that the node of a lost member is failed, not absent. It cannot be changed,
// and its bridge stays reserved. It is ready when the member is back.
func TestLostMember(t *testing.T) {
	f, dir := newFake(t)
	set(t, dir, false, present)
	finish(t, dir)
	f.status, f.used = "Offline", []string{"/1.0/instances/" + instanceName(testID)}
	if r := get(t, dir); r["ensure"] != "present" || r["state"] != "failed" || !strings.Contains(fmt.Sprint(r["message"]), "m1") {
		t.Errorf("lost: %v", r)
	}
	if kind, message := set(t, dir, false, object{"users": []string{}}); kind != string(provider.Failed) || !strings.Contains(message, "m1") {
		t.Errorf("changed: %s %q", kind, message)
	}
	p, err := open(dir, "lxd")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorker(p)
	all, err := p.client.instances(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if chosen, err := w.chooseBridges(t.Context(), []iface{{Link: "lan", Slice: "other"}}, all, ends{}); err == nil {
		t.Errorf("the bridge of a lost node is given away: %v", chosen)
	}
	f.status, f.used = "Online", nil
	if r := get(t, dir); r["state"] != "ready" || len(r["login"].([]any)) != 1 {
		t.Errorf("back: %v", r)
	}
}

// TestHosts checks that a node has the names of the others on its links.
func TestHosts(t *testing.T) {
	n := func(id, host string, links ...string) *node {
		n := &node{Name: id, Hostname: host}
		for k, l := range links {
			name, address, _ := strings.Cut(l, "=")
			n.Interfaces = append(n.Interfaces, fmt.Sprintf(`{"client_id":"%s:%d","link":%q,"slice":"s","addresses":[%q]}`, id, k, name, address))
		}
		return n
	}
	nodes := map[string]*node{
		"a": n("a", "a.lan.example.org", "lan=10.0.0.1/24", "wan=10.1.0.1/24"),
		"b": n("b", "b.lan.example.org", "wan=10.1.0.2/24", "lan=10.0.0.2/24"),
		"c": n("c", "c", "wan=10.1.0.3/24"),
		"d": n("d", "d", "other=10.2.0.4/24"),
		"e": n("e", "e\n10.0.0.9 a", "lan=10.0.0.5/24"),
		"f": n("f", "f"),
	}
	for of, want := range map[string][]string{
		"a": {"10.0.0.1\ta.lan.example.org a a-lan", "10.0.0.2\tb.lan.example.org b b-lan", "10.1.0.3\tc c-wan", "10.1.0.1\ta-wan", "10.1.0.2\tb-wan"},
		"b": {"10.1.0.1\ta.lan.example.org a a-wan", "10.1.0.2\tb.lan.example.org b b-wan", "10.1.0.3\tc c-wan", "10.0.0.1\ta-lan", "10.0.0.2\tb-lan"},
		"d": {"10.2.0.4\td d-other"},
		"f": {"127.0.1.1\tf"},
	} {
		if got := namesIn(nodes, "").hosts(of); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", of, got, want)
		}
	}
}

// TestLaterNodesAreMadeKnown checks that a ready node gets the name of a later one and stays ready
// meanwhile.
func TestLaterNodesAreMadeKnown(t *testing.T) {
	f, dir := newFake(t)
	item := `{"client_id":"%s","link":"lan","slice":"s","addresses":["10.0.0.%d/24"]}`
	first := maps.Clone(present)
	first["interfaces"] = []string{fmt.Sprintf(item, "n1:0", 1)}
	set(t, dir, false, first)
	finish(t, dir)
	second := maps.Clone(present)
	second["hostname"], second["interfaces"] = "n2", []string{fmt.Sprintf(item, "n2:0", 2)}
	release := claim(t, dir)
	call(t, dir, "set", object{"updates": []object{{"name": strings.Replace(testID, "1", "2", 1), "should": second}}, "ral": object{"noop": false}})
	release()
	if r := get(t, dir); r["state"] != "ready" {
		t.Errorf("%v", r)
	}
	finish(t, dir)
	if got := f.hosts[instanceName(testID)]; !strings.Contains(got, `10.0.0.2\tn2 n2-lan`) {
		t.Errorf("the first node has %q", got)
	}
	if left, err := (folder{dir, "lxd"}).ids(); err != nil || len(left) > 0 {
		t.Errorf("files are left: %v, %v", left, err)
	}
	setOther(t, dir, false, strings.Replace(testID, "1", "2", 1), object{"ensure": "absent"})
	finish(t, dir)
	if got := f.hosts[instanceName(testID)]; strings.Contains(got, "n2-lan") {
		t.Errorf("after the removal, the first node has %q", got)
	}
}

// TestSetupsAreBounded checks that a large setup is refused if the lists of instances would become
// too large, and that a small one is not.
func TestSetupsAreBounded(t *testing.T) {
	small := &node{Setup: []string{strings.Repeat("x", smallSetup)}}
	large := &node{Setup: []string{strings.Repeat(`"`, smallSetup+1)}}
	if size := large.setupSize(); size < 4*smallSetup { // each quote is quoted twice
		t.Errorf("a setup of %d quotes has %d bytes in a list", smallSetup+1, size)
	}
	few := &setCall{nodes: map[string]*node{"a": small, "b": large}}
	many := &setCall{setups: maxSetups + 1}
	if few.checkSetups(large) != nil || many.checkSetups(small) != nil {
		t.Error("refused")
	}
	if err := many.checkSetups(large); !errors.As(err, new(*provider.Error)) {
		t.Errorf("a large setup beside many others: %v", err)
	}
}

// TestFacts checks that the listing of all nodes states what the images are.
func TestFacts(t *testing.T) {
	_, dir := newFake(t)
	p, err := open(dir, "lxd")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.get(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	facts, err := inventory.ReadFacts(dir)
	if want := []string{"cpu.arch=x86_64", "disk.0.os.flavour=debian", "disk.0.os.name=linux", "disk.0.os.version=12"}; err != nil || !slices.Equal(facts["lxd"].Images["debian"], want) {
		t.Errorf("%v %v, want %v", facts, err, want)
	}
	for want, properties := range map[string]map[string]string{
		"24.04": {"os": "ubuntu", "release": "noble", "version": "24.04"}, "3.20": {"release": "3.20"}, "": {"release": "sid"}, "13": {"release": "trixie"},
	} {
		if got := versionOf(properties); got != want {
			t.Errorf("%v has version %q, want %q", properties, got, want)
		}
	}
}
