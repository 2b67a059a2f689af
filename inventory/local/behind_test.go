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

	"go.yaml.in/yaml/v3"

	"patchbay/inventory/local/wire"
)

// doorsDouble answers the action doors like a testbed that publishes both ways,
// with one mistake: it leads nowhere below 10.
type doorsDouble struct {
	mu    sync.Mutex
	doors map[string]DoorAsk
}

func (d *doorsDouble) answer(c *wire.Conn, r Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var q DoorsInput
	var out DoorsOutput
	if err := json.Unmarshal(r.Input, &q); err != nil || r.Action != ActionDoors {
		_ = c.Send(Answer{Error: fmt.Sprint(r.Action, err)})
		return
	}
	for _, name := range q.Remove {
		delete(d.doors, name)
	}
	for _, ask := range q.Put {
		old := d.doors[ask.Name]
		if ask.Users == nil {
			ask.Users = old.Users
		}
		if ask.Address == "" {
			ask.Address = old.Address
		}
		if strings.HasPrefix(ask.Address, "127.") {
			out.Doors = append(out.Doors, DoorIs{Name: ask.Name, Error: "the gateway may not lead there"})
			continue
		}
		d.doors[ask.Name] = ask
		q.Names = append(q.Names, ask.Name)
	}
	for _, name := range q.Names {
		if ask, ok := d.doors[name]; ok {
			is := DoorIs{Name: name, Address: ask.Address, Users: ask.Users}
			if ask.Address != "" {
				is.Login, is.Proxy = []string{"lab.example.org:20001", name + ":22"}, "gateway@lab.example.org:20000"
			}
			out.Doors = append(out.Doors, is)
		}
	}
	b, _ := json.Marshal(out)
	_ = c.Send(Answer{Output: b})
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

// behindOther readies a provider before another, which answers what the files
// get.json and set.json hold and keeps what it was asked in asked.json.
func behindOther(t *testing.T, metadata string) (call func(action, input string) string, d *doorsDouble, dir string, stderr *strings.Builder) {
	t.Helper()
	dir = t.TempDir()
	script := `#!/bin/sh
case $1 in
ral_action=describe) cat metadata.yaml ;;
*) cat >asked.json; cat "${1#ral_action=}.json" ;;
esac
`
	for name, text := range map[string]string{"rack.prov": script, "metadata.yaml": metadata, "doors.yaml": "instance: local\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	d = &doorsDouble{doors: map[string]DoorAsk{}}
	socket := double(t, d.answer)
	stderr = &strings.Builder{}
	c := client{dir: dir, name: "doors", socket: func(string) string { return socket }, stderr: stderr}
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

func TestNodesOfAnotherProviderGetDoors(t *testing.T) {
	call, d, dir, stderr := behindOther(t, otherMetadata)
	keep(t, dir, "get.json", `{"resources": [
		{"name": "a", "ensure": "present", "login": ["10.0.0.1:22"], "odd": 1},
		{"name": "b", "ensure": "present", "login": ["root@10.0.0.2:22", "user@10.0.0.3:22"]},
		{"name": "c", "ensure": "present"},
		{"name": "d", "ensure": "present", "login": ["10.0.0.4:22"], "proxy": "me@gw.example.org:22"},
		{"name": "e", "ensure": "present", "login": ["127.0.0.1:22"]},
		{"name": "f", "error": {"message": "broken"}},
		{"name": "g", "ensure": "absent"}]}`)
	d.doors["f"], d.doors["g"], d.doors["h"] = DoorAsk{Name: "f"}, DoorAsk{Name: "g"}, DoorAsk{Name: "h"}
	d.doors["a"] = DoorAsk{Name: "a", Users: []string{`{"login":"alice"}`}}
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
	if !strings.Contains(stderr.String(), "error: node e gets no door") {
		t.Errorf("standard error %q", stderr.String())
	}
	var left []string
	for name := range d.doors {
		left = append(left, name)
	}
	slices.Sort(left)
	if want := []string{"a", "b", "f"}; !slices.Equal(left, want) { // f may be there
		t.Errorf("doors %q, want %q", left, want)
	}
}

func TestUsersAreRememberedForTheDoors(t *testing.T) {
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
	if got := d.doors["a"].Users; !slices.Equal(got, []string{"x"}) {
		t.Errorf("remembered are %q", got)
	}
	call("set", `{"updates":[{"name":"a","is":{},"should":{"users":[]}}]}`)
	if got := d.doors["a"].Users; got == nil || len(got) > 0 {
		t.Errorf("after taking all away: %q", got)
	}
}

func TestOtherProviderThatBreaks(t *testing.T) {
	_, _, dir, _ := behindOther(t, otherMetadata)
	for script, want := range map[string]string{
		"#!/bin/sh\nexit 3\n":                                   "exit status 3",
		"#!/bin/sh\necho 'provider: {}'\n":                      "describes no provider with attributes",
		"#!/bin/sh\necho '['\n":                                 "what rack.prov describes",
		"#!/bin/sh\ncat metadata.yaml; exec cat >&2 </dev/null": "the answer of rack.prov",
	} {
		if err := os.WriteFile(filepath.Join(dir, "rack.prov"), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		err := RunBehind(dir, "doors", "rack.prov", "ral_action=get", strings.NewReader("{}"), &strings.Builder{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", script, err, want)
		}
	}
}
