package local

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"patchbay/am/testkit/require"
	"patchbay/inventory/provider/fdsocket"
)

// endpointsDouble answers the action endpoints like a testbed that publishes both ways,
// with one mistake: it leads nowhere below 10.
type endpointsDouble struct {
	mu        sync.Mutex
	endpoints map[string]EndpointRequest
}

func (d *endpointsDouble) answer(c *fdsocket.Conn, r Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var q EndpointsInput
	var out EndpointsOutput
	if err := json.Unmarshal(r.Input, &q); err != nil || r.Action != ActionEndpoints {
		_ = c.Send(Answer{Error: fmt.Sprint(r.Action, err)})
		return
	}
	for _, name := range q.Remove {
		delete(d.endpoints, name)
	}
	for _, ask := range q.Set {
		old := d.endpoints[ask.Name]
		if ask.Users == nil {
			ask.Users = old.Users
		}
		if ask.Address == "" {
			ask.Address = old.Address
		}
		if strings.HasPrefix(ask.Address, "127.") {
			out.Endpoints = append(out.Endpoints, EndpointStatus{Name: ask.Name, Error: "the gateway may not lead there"})
			continue
		}
		d.endpoints[ask.Name] = ask
		q.Names = append(q.Names, ask.Name)
	}
	for _, name := range q.Names {
		if ask, ok := d.endpoints[name]; ok {
			is := EndpointStatus{Name: name, Address: ask.Address, Users: ask.Users}
			if ask.Address != "" {
				is.Login, is.Proxy = []string{"lab.example.org:20001", name + ":22"}, "gateway@lab.example.org:20000"
			}
			out.Endpoints = append(out.Endpoints, is)
		}
	}
	b, _ := json.Marshal(out)
	_ = c.Send(Answer{Output: b})
}

// users returns the stored users of a node.
func (d *endpointsDouble) users(name string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.endpoints[name].Users
}

const otherMetadata = `provider:
  name: rack
  type: node
  invoke: json
  suitable: true
  probe: true
  attributes:
    name: {type: string}
    ensure: {type: "enum[present,absent]"}
    component: {type: string}
    login: {type: "array[string]", kind: r}
`

// behindOther sets up a provider behind another one, which answers with the files get.json and
// set.json and writes its input to asked.json.
func behindOther(t *testing.T, metadata string) (call func(action, input string) string, d *endpointsDouble, dir string, stderr *strings.Builder) {
	t.Helper()
	dir = t.TempDir()
	script := `#!/bin/sh
case $1 in
ral_action=describe) cat metadata.yaml ;;
*) cat >asked.json; cat "${1#ral_action=}.json" ;;
esac
`
	for name, text := range map[string]string{"rack.prov": script, "metadata.yaml": metadata, "endpoints.yaml": "instance: local\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	d = &endpointsDouble{endpoints: map[string]EndpointRequest{}}
	socket := double(t, d.answer)
	stderr = &strings.Builder{}
	c := client{dir: dir, name: "endpoints", socket: func(string) string { return socket }, stderr: stderr, behind: true}
	return func(action, input string) string {
		t.Helper()
		var out strings.Builder
		if err := c.runBehind("rack.prov", "ral_action="+action, strings.NewReader(input), &out); err != nil {
			t.Fatalf("%s: %v", action, err)
		}
		return strings.TrimSpace(out.String())
	}, d, dir, stderr
}

func keep(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestMetadataOfAnotherProvider(t *testing.T) {
	call, _, dir, _ := behindOther(t, otherMetadata)
	for _, from := range []string{"describe", "companion"} {
		if from == "companion" {
			keep(t, dir, "rack.yaml", otherMetadata)
			keep(t, dir, "metadata.yaml", "rubbish")
		}
		var m struct {
			Provider struct {
				Name, Type string
				Probe      bool
				Attributes map[string]struct{ Type, Kind string }
			}
		}
		if err := yaml.Unmarshal([]byte(call("describe", "")), &m); err != nil {
			t.Fatal(err)
		}
		a := m.Provider.Attributes
		if m.Provider.Name != "" || !m.Provider.Probe || a["users"].Type != "array[string]" || a["proxy"].Kind != "r" || a["login"].Kind != "r" || a["message"].Kind != "r" || a["component"].Type != "string" {
			t.Errorf("%s: %+v", from, m)
		}
	}
}

func TestNodesOfAnotherProviderGetEndpoints(t *testing.T) {
	call, d, dir, stderr := behindOther(t, otherMetadata)
	keep(t, dir, "get.json", `{"resources": [
		{"name": "a", "ensure": "present", "login": ["10.0.0.1:22"], "odd": 1},
		{"name": "b", "ensure": "present", "login": ["root@10.0.0.2:22", "user@10.0.0.3:22"]},
		{"name": "c", "ensure": "present"},
		{"name": "d", "ensure": "present", "login": ["10.0.0.4:22"], "proxy": "me@gw.example.org:22"},
		{"name": "e", "ensure": "present", "login": ["127.0.0.1:22"]},
		{"name": "f", "error": {"message": "broken"}},
		{"name": "g", "ensure": "absent"}]}`)
	d.endpoints["f"], d.endpoints["g"], d.endpoints["h"] = EndpointRequest{Name: "f"}, EndpointRequest{Name: "g"}, EndpointRequest{Name: "h"}
	d.endpoints["a"] = EndpointRequest{Name: "a", Users: []string{`{"login":"alice"}`}}
	var got struct{ Resources []map[string]any }
	if err := json.Unmarshal([]byte(call("get", `{"names":["a","b","c","d","e","f","g","h"]}`)), &got); err != nil {
		t.Fatal(err)
	}
	gateway := "gateway@lab.example.org:20000"
	for i, want := range []map[string]any{
		{"login": []any{"lab.example.org:20001", "a:22"}, "proxy": gateway, "odd": 1.0, "users": []any{`{"login":"alice"}`}},
		{"login": []any{"root@lab.example.org:20001", "root@b:22"}, "proxy": gateway},
		{"login": nil, "proxy": nil},
		{"login": []any{"10.0.0.4:22"}, "proxy": "me@gw.example.org:22"},
		{"login": []any{}, "proxy": nil, "message": "the gateway may not lead there"},
	} {
		for key, v := range want {
			if fmt.Sprint(got.Resources[i][key]) != fmt.Sprint(v) {
				t.Errorf("%v: %s is %v, want %v", got.Resources[i]["name"], key, got.Resources[i][key], v)
			}
		}
	}
	if !strings.Contains(stderr.String(), "error: node e gets no endpoint") {
		t.Errorf("standard error %q", stderr.String())
	}
	var left []string
	for name := range d.endpoints {
		left = append(left, name)
	}
	slices.Sort(left)
	if want := []string{"a", "b", "f"}; !slices.Equal(left, want) { // f may be there
		t.Errorf("endpoints %q, want %q", left, want)
	}
}

func TestUsersAreRememberedForTheEndpoints(t *testing.T) {
	call, d, dir, _ := behindOther(t, otherMetadata)
	for _, tt := range []struct{ rule, input, other, passed, answer string }{
		{
			"the other does not see them", `{"updates":[{"name":"a","is":{"users":[]},"should":{"ensure":"present","users":["u"]}}],"ral":{"noop":false}}`, `{"derive":true}`,
			`{"ral":{"noop":false},"updates":[{"is":{},"name":"a","should":{"ensure":"present"}}]}`, `{"changes":[],"derive":true}`,
		},
		{
			"nothing is left for the other", `{"updates":[{"name":"a","is":{"users":["u"]},"should":{"users":["v"]}}]}`, `no answer`,
			"", `{"changes":[{"name":"a","users":{"is":["v"],"was":["u"]}}],"derive":false}`,
		},
		{
			"it tells of changes", `{"updates":[{"name":"a","is":{},"should":{"power":"on","users":["w"]}}]}`, `{"changes":[{"name":"a","power":{"is":"on","was":"off"}}]}`,
			`{"ral":null,"updates":[{"is":{},"name":"a","should":{"power":"on"}}]}`, `{"changes":[{"name":"a","power":{"is":"on","was":"off"},"users":{"is":["w"],"was":null}}],"derive":false}`,
		},
		{
			"it refuses", `{"updates":[{"name":"a","is":{},"should":{"power":"on","users":["x"]}}]}`, `{"changes":[{"name":"a","error":{"message":"no"}}]}`,
			`{"ral":null,"updates":[{"is":{},"name":"a","should":{"power":"on"}}]}`, `{"changes":[{"error":{"message":"no"},"name":"a"}],"derive":false}`,
		},
		{
			"the whole call fails", `{"updates":[{"name":"a","is":{},"should":{"power":"on"}}]}`, `{"error":{"message":"no"}}`,
			`{"ral":null,"updates":[{"is":{},"name":"a","should":{"power":"on"}}]}`, `{"error":{"message":"no"}}`,
		},
		{
			"a dry run", `{"updates":[{"name":"a","is":{},"should":{"users":["y"]}}],"ral":{"noop":true}}`, `no answer`,
			"", `{"changes":[{"name":"a","users":{"is":["y"],"was":null}}],"derive":false}`,
		},
	} {
		keep(t, dir, "set.json", tt.other)
		keep(t, dir, "asked.json", "")
		if got := call("set", tt.input); got != tt.answer {
			t.Errorf("%s: answer %s, want %s", tt.rule, got, tt.answer)
		}
		passed, err := os.ReadFile(filepath.Join(dir, "asked.json"))
		if err != nil || string(passed) != tt.passed {
			t.Errorf("%s: passed on %s, %v; want %s", tt.rule, passed, err, tt.passed)
		}
	}
	if got := d.users("a"); !slices.Equal(got, []string{"x"}) {
		t.Errorf("remembered are %q", got)
	}
	call("set", `{"updates":[{"name":"a","is":{},"should":{"users":[]}}]}`)
	if got := d.users("a"); got == nil || len(got) > 0 {
		t.Errorf("after taking all away: %q", got)
	}
}

func TestOtherProviderThatBreaks(t *testing.T) {
	_, _, dir, _ := behindOther(t, otherMetadata)
	for script, want := range map[string]string{
		"#!/bin/sh\nexit 3\n":              "exit status 3; or write its metadata into rack.yaml or endpoints.yaml",
		"#!/bin/sh\necho 'provider: {}'\n": "has no metadata with attributes; write its metadata into rack.yaml, under provider",
		"#!/bin/sh\necho '['\n":            "the metadata that rack.prov describes",
	} {
		if err := os.WriteFile(filepath.Join(dir, "rack.prov"), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		var out, stderr strings.Builder
		c := client{dir: dir, name: "endpoints", socket: Socket, stderr: &stderr, behind: true}
		if err := c.runBehind("rack.prov", "ral_action=get", strings.NewReader("{}"), &out); err != nil || !strings.Contains(stderr.String(), want) {
			t.Errorf("%q: %v, %q, want %q", script, err, stderr.String(), want)
		}
		if want := `{"error":{"kind":"failed","message":"this provider is not set up; ask the operators of the site to look into the log"}}`; strings.TrimSpace(out.String()) != want {
			t.Errorf("experimenters get %s", out.String())
		}
		if err := c.runBehind("rack.prov", "ral_action=describe", nil, &out); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("describe, %q: %v, want %q", script, err, want)
		}
	}
	keep(t, dir, "rack.prov", "#!/bin/sh\ncat metadata.yaml; exec cat >&2 </dev/null")
	err := RunBehind(dir, "endpoints", "rack.prov", "ral_action=get", strings.NewReader("{}"), &strings.Builder{})
	if err == nil || !strings.Contains(err.Error(), "the answer of rack.prov") {
		t.Errorf("no answer: %v", err)
	}
}

// A process that it started may survive with its output open.
func TestOtherProviderLeavesAProcess(t *testing.T) {
	call, _, dir, _ := behindOther(t, otherMetadata)
	keep(t, dir, "rack.prov", "#!/bin/sh\ncat metadata.yaml\nsleep 10 &\n")
	began := time.Now()
	if out := call("describe", ""); !strings.Contains(out, "component") {
		t.Errorf("it describes %q", out)
	}
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("waited %v for what it left behind", took)
	}
}

// TestExampleOfAnotherProvider sets the example of PROVIDER.md up as the page says.
func TestExampleOfAnotherProvider(t *testing.T) {
	require.Tool(t, "jq")
	dir := t.TempDir()
	program, err := os.ReadFile("../testdata/rack.prov")
	if err != nil {
		t.Fatal(err)
	}
	settings, err := os.ReadFile("../testdata/rack.yaml")
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(program), `[.component + ".lab.example.org:22"]`, `["10.0.0.7:22"]`, 1)
	if changed == string(program) {
		t.Fatal("the example has no such login")
	}
	if err := os.WriteFile(filepath.Join(dir, "rack.real"), []byte(changed), 0o700); err != nil {
		t.Fatal(err)
	}
	socket := double(t, (&endpointsDouble{endpoints: map[string]EndpointRequest{}}).answer)
	call := func(action, input string) (string, string) {
		t.Helper()
		var out, stderr strings.Builder
		c := client{dir: dir, name: "rack", socket: func(string) string { return socket }, stderr: &stderr, behind: true}
		if err := c.runBehind("./rack.real", "ral_action="+action, strings.NewReader(input), &out); err != nil {
			t.Fatalf("%s: %v", action, err)
		}
		return out.String(), stderr.String()
	}
	set := `{"updates":[{"name":"n","is":{},"should":{"name":"n","ensure":"present","component":"pc1","power":"on","users":["u"]}}],"ral":{"noop":false}}`

	keep(t, dir, "rack.yaml", string(settings))
	if out, stderr := call("get", "{}"); !strings.Contains(stderr, "rack.yaml: the attributes lack proxy; add the line proxy: {type: string, kind: r}, or move") || !strings.Contains(out, "not set up") {
		t.Errorf("without proxy: %s, %s", out, stderr)
	}
	withProxy := strings.Replace(string(settings), "  attributes:\n", "  attributes:\n    proxy: {type: string, kind: r}\n", 1)
	keep(t, dir, "rack.yaml", withProxy)
	if out, stderr := call("set", set); !strings.Contains(stderr, "rack.yaml has no line instance: NAME, with the name of a testbed; running here: ") || !strings.Contains(out, "not set up") {
		t.Errorf("without instance: %s, %s", out, stderr)
	}
	for _, way := range []string{"metadata in rack.yaml", "metadata in rack.real.yaml"} {
		keep(t, dir, "rack.yaml", withProxy+"instance: local\n")
		if way == "metadata in rack.real.yaml" {
			metadata, own, _ := strings.Cut(string(settings), "\n\n")
			keep(t, dir, "rack.real.yaml", metadata)
			keep(t, dir, "rack.yaml", own+"instance: local\n")
		}
		if out, stderr := call("set", set); !strings.Contains(out, `"derive":true`) || strings.Contains(stderr, "error") {
			t.Fatalf("%s: set: %s, %s", way, out, stderr)
		}
		if out, _ := call("get", `{"names":["n"]}`); !strings.Contains(out, `"login":["lab.example.org:20001","n:22"]`) || !strings.Contains(out, `"proxy":"gateway@lab.example.org:20000"`) {
			t.Errorf("%s: get: %s", way, out)
		}
	}
}

func TestInstanceOfAnotherProvider(t *testing.T) {
	dir := t.TempDir()
	folder := t.TempDir()
	l, err := fdsocket.Listen(filepath.Join(folder, "lab.sock"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dead, err := fdsocket.Listen(filepath.Join(folder, "dead.sock"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	dead.Close()
	for text, want := range map[string]string{
		"instance: nosuch\nmachines: [a]\n": "rack.yaml has the line instance: nosuch, but this testbed does not run; running here: lab\n",
		"machines: [a]\n":                   "rack.yaml has no line instance: NAME",
		"instance: ../x\n":                  `rack.yaml:1: instance is "../x" and must be the name of a testbed`,
		"instance: [x]\n":                   `rack.yaml:1: instance is "[…]" and must be the name of a testbed`,
		"a:\n  b: 1s\n c: 1s\n":             "rack.yaml:3: at or after line 3 this is not YAML: ",
		strings.Repeat("#", maxSettings+1):  "rack.yaml cannot be read: it is larger than",
	} {
		keep(t, dir, "rack.yaml", text)
		var stderr strings.Builder
		c := client{dir: dir, name: "rack", socket: func(name string) string { return filepath.Join(folder, name+".sock") }, stderr: &stderr, behind: true}
		if _, err := c.requestTestbed(t.Context(), Request{}); err == nil || !strings.Contains(stderr.String(), want) {
			t.Errorf("%.40q: %v, %q, want %q", text, err, stderr.String(), want)
		}
	}
	if got := running(t.TempDir()); got != "none" {
		t.Errorf("in an empty folder: %s", got)
	}
}
