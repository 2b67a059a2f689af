package provider

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestDiff(t *testing.T) {
	users := []string{`{"login":"a","keys":["k"]}`, `{"login":"b"}`}
	for _, tt := range []struct {
		rule             string
		is, should, want Resource
	}{
		{"same", Resource{"cpu": "1"}, Resource{"cpu": "1"}, Resource{}},
		{"name never", Resource{}, Resource{"name": "x"}, Resource{}},
		{"differs", Resource{"cpu": "1", "image": "A"}, Resource{"cpu": "1", "image": "B"}, Resource{"image": "B"}},
		{"new", Resource{"ensure": "absent"}, Resource{"ensure": "present", "cpu": "1"}, Resource{"ensure": "present", "cpu": "1"}},
		{"removal is ensure alone", Resource{"ensure": "present"}, Resource{"ensure": "absent", "cpu": "1"}, Resource{"ensure": "absent"}},
		{"absent already", Resource{"ensure": "absent"}, Resource{"ensure": "absent"}, Resource{}},
		{"absent, never seen", nil, Resource{"ensure": "absent"}, Resource{}},
		{"unset is empty text", Resource{}, Resource{"cpu": ""}, Resource{}},
		{"unset is an empty array", Resource{}, Resource{"users": []string{}}, Resource{}},
		{"emptied", Resource{"users": users}, Resource{"users": []string{}}, Resource{"users": []string{}}},
		{"unset is not false", Resource{}, Resource{"fast": false}, Resource{"fast": false}},
		{"objects in any order and spacing", Resource{"users": []string{`{ "login": "b" }`, `{"keys":["k"],"login":"a"}`}}, Resource{"users": users}, Resource{}},
		{"keys that a provider adds", Resource{"interfaces": []string{`{"role":"control","public_address":"192.0.2.1","gateway":null}`, `{"mac":"02:00:00:00:00:01","client_id":"n:0","vlan":7,"speed":{"x":[1]}}`}},
			Resource{"interfaces": []string{`{"client_id":"n:0","vlan":7}`, `{"role":"control","public_address":"192.0.2.1"}`}}, Resource{}},
		{"a provider's keys that differ from ours by case", Resource{"interfaces": []string{`{"client_id":"n:0","vlan":5,"VLAN":"office","Role":"x","ſlice":"y"}`}}, Resource{"interfaces": []string{`{"client_id":"n:0","vlan":5}`}}, Resource{}},
		{"empty keys are none", Resource{"interfaces": []string{`{"client_id":"n:0","link":"","vlan":0,"addresses":[],"role":null}`}}, Resource{"interfaces": []string{`{"client_id":"n:0"}`}}, Resource{}},
		{"no keys are none", Resource{"users": []string{`{"login":"a","urn":null,"keys":null}`, `{"login":"b"}`}}, Resource{"users": []string{`{"login":"a","keys":[]}`, `{"login":"b","keys":[]}`}}, Resource{}},
		{"an account without its owner", Resource{"users": []string{`{"login":"a","urn":"u","keys":["k"],"shell":"sh"}`}}, Resource{"users": []string{`{"login":"a","keys":["k"]}`}}, Resource{"users": []string{`{"login":"a","keys":["k"]}`}}},
		{"a key that is no longer asked for", Resource{"interfaces": []string{`{"client_id":"n:0","vlan":7}`}}, Resource{"interfaces": []string{`{"client_id":"n:0"}`}}, Resource{"interfaces": []string{`{"client_id":"n:0"}`}}},
		{"another value of a key", Resource{"interfaces": []string{`{"client_id":"n:0","vlan":8,"mac":"02:00:00:00:00:01"}`}}, Resource{"interfaces": []string{`{"client_id":"n:0","vlan":7}`}}, Resource{"interfaces": []string{`{"client_id":"n:0","vlan":7}`}}},
		{"an item too many", Resource{"interfaces": []string{`{"client_id":"n:0"}`, `{"client_id":"n:0"}`}}, Resource{"interfaces": []string{`{"client_id":"n:0"}`}}, Resource{"interfaces": []string{`{"client_id":"n:0"}`}}},
		{"the same item twice is not two", Resource{"interfaces": []string{`{"client_id":"n:0"}`, `{"client_id":"n:0"}`}}, Resource{"interfaces": []string{`{"client_id":"n:0"}`, `{"client_id":"n:1"}`}}, Resource{"interfaces": []string{`{"client_id":"n:0"}`, `{"client_id":"n:1"}`}}},
		{"in other arrays every key counts", Resource{"disks": []string{`{"a":1,"b":2}`}}, Resource{"disks": []string{`{"a":1}`}}, Resource{"disks": []string{`{"a":1}`}}},
		{"plain text is not normalized", Resource{"users": []string{" x"}}, Resource{"users": []string{"x"}}, Resource{"users": []string{"x"}}},
		{"another type", Resource{"cpu": []string{"1"}}, Resource{"cpu": "1"}, Resource{"cpu": "1"}},
	} {
		if diff := cmp.Diff(tt.want, Diff(tt.is, tt.should)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.rule, diff)
		}
	}
}

func TestValues(t *testing.T) {
	for _, tt := range []struct {
		typ, json string
		want      Value
		bad       string
	}{
		{"string", `"x"`, "x", ""},
		{"string", `12`, "12", ""},
		{"string", `null`, nil, ""},
		{"string", `1.5`, nil, "not a string"},
		{"string", `true`, nil, "not a string"},
		{"boolean", `true`, true, ""},
		{"array[string]", `["a","b"]`, []string{"a", "b"}, ""},
		{"array[string]", `[]`, []string{}, ""},
		{"array[string]", `"a"`, nil, "not an array of strings"},
		{"enum[on,off]", `"on"`, "on", ""},
		{"enum[on,off]", `1`, nil, "not a string"},
	} {
		typ, err := ParseType(tt.typ)
		if err != nil {
			t.Fatal(err)
		}
		p := nodeProvider(t)
		p.Attributes["v"] = Attribute{Type: typ, Kind: "rw"}
		var logged []string
		p.Log = slog.New(memory{&logged})
		got, err := p.readGet([]byte(`{"resources":[{"name":"a","v":` + tt.json + `}]}`))
		if err != nil {
			t.Fatal(err)
		}
		if r := got["a"]; tt.bad != "" {
			if r.Err == nil || r.Err.Kind != Failed || !strings.Contains(r.Err.Detail(), tt.bad) {
				t.Errorf("%s %.40s: %v, want a failure that says %q", tt.typ, tt.json, r.Err, tt.bad)
			}
		} else if diff := cmp.Diff(tt.want, r.Resource["v"]); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", tt.typ, tt.json, diff)
		}
		if (len(logged) > 0) != (tt.json == "12" || tt.bad != "") {
			t.Errorf("%s %.40s: logged %q", tt.typ, tt.json, logged)
		}
	}
}

func TestWriteOnlyIsNotRead(t *testing.T) {
	got, err := nodeProvider(t).readGet([]byte(`{"resources":[{"name":"a","setup":7,"Resources":[]}],"Error":{}}`))
	if diff := cmp.Diff(map[string]Result{"a": {Resource: Resource{"name": "a"}}}, got); diff != "" || err != nil {
		t.Errorf("readGet: %v (-want +got):\n%s", err, diff)
	}
}

func TestBoundsOnCounts(t *testing.T) {
	var many strings.Builder
	for i := range maxMembers + 1 {
		fmt.Fprintf(&many, `,"x%d":0`, i)
	}
	var entries strings.Builder
	for i := range maxEntries {
		fmt.Fprintf(&entries, `{"name":"%d"},`, i)
	}
	for rule, text := range map[string]string{
		"members": `{"resources":[{"name":"a"` + many.String() + `}]}`,
		"entries": `{"resources":[` + entries.String() + `{"name":"a"}]}`,
	} {
		if got, err := nodeProvider(t).readGet([]byte(text)); err == nil {
			t.Errorf("%s: %d resources, want a failure", rule, len(got))
		}
	}
}

func FuzzAnswers(f *testing.F) {
	for _, s := range []string{
		`{"resources":[{"name":"a","cpu":1,"users":["x"],"error":null}]}`,
		`{"changes":[{"name":"a","cpu":{"is":"1","was":null}}],"derive":true}`,
		`{"error":{"message":"x","kind":"unknown"}}`,
		`{"resources":[{"name":"a","state":"ready","fast":true}]}`,
		`{"resources":[{"name":"a","users":["{\"login\":\"a\",\"x\":1}"],"interfaces":["{\"client_id\":\"a\",\"mac\":\"02:00:00:00:00:01\"}"]}]}`,
	} {
		f.Add([]byte(s))
	}
	p := nodeProvider(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		if json.Valid(text) {
			checkWalk(t, text)
		}
		got, err := p.readGet(text)
		if _, ok := err.(*Error); err != nil && !ok {
			t.Fatalf("readGet: %T", err)
		}
		for name, r := range got {
			if r.Err == nil {
				checkResource(t, p, r.Resource)
				for id, mac := range ObservedNode(r.Resource).MACs {
					if hw, err := net.ParseMAC(mac); err != nil || len(hw) != 6 || hw.String() != mac || id == "" {
						t.Fatalf("%q: interface %q has the hardware address %q", name, id, mac)
					}
				}
				if d := Diff(r.Resource, r.Resource); len(d) > 0 {
					t.Fatalf("%q differs from itself: %v", name, d)
				}
			} else if r.Resource != nil {
				t.Fatalf("%q has both a resource and an error", name)
			}
		}
		changes, err := p.readSet(text, []setUpdate{{Name: "a", Should: Resource{"cpu": "1"}}})
		if _, ok := err.(*Error); err != nil && (!ok || changes != nil) {
			t.Fatalf("readSet: %T, %v", err, changes)
		}
		for _, c := range changes {
			checkResource(t, p, c.Is)
			checkResource(t, p, c.Was)
		}
	})
}

// checkWalk compares the walker with the decoder on valid JSON.
func checkWalk(t *testing.T, text []byte) {
	var want map[string]any
	if !utf8.Valid(text) || json.Unmarshal(text, &want) != nil || want == nil {
		return
	}
	got := map[string]any{}
	w := walk(text)
	err := w.members(func(key string) error {
		raw := w.value()
		var v any
		if err := json.Unmarshal(raw, &v); err != nil {
			t.Fatalf("value %q: %v", raw, err)
		}
		got[key] = v
		return nil
	})
	if err != nil && !strings.Contains(err.Error(), "twice") && !strings.Contains(err.Error(), "members") {
		t.Fatal(err)
	}
	if err == nil && !cmp.Equal(got, want) {
		t.Fatalf("read %v, want %v", got, want)
	}
}

func checkResource(t *testing.T, p *Provider, r Resource) {
	for name, v := range r {
		a, ok := p.Attributes[name]
		if !ok {
			t.Fatalf("attribute %q was not declared", name)
		}
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := a.Type.decode(raw); err != nil || !equalValues(name, again, v) {
			t.Fatalf("%s: %v is no %v: %v", name, v, a.Type, err)
		}
	}
}

func FuzzMetadata(f *testing.F) {
	f.Add([]byte(nodeMetadata))
	f.Add([]byte("provider: {type: node, invoke: json, suitable: {commands: [sh, not x]}, attributes: {name: {}}}"))
	f.Add([]byte("a: &a [b]\nprovider: {attributes: {name: *a}}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := parseMetadata(text)
		if err != nil {
			return
		}
		p := &Provider{Name: "x"}
		if p.apply(m) != nil {
			return
		}
		if p.Parallel < 1 || p.get <= 0 || p.set <= 0 || !p.Has(AttrName) || !isName(p.Name) {
			t.Fatalf("accepted %+v", p)
		}
		for name, a := range p.Attributes {
			if again, err := ParseType(a.Type.String()); err != nil || !slices.Equal(again.Options, a.Type.Options) {
				t.Fatalf("%s: type %v", name, a.Type)
			}
		}
	})
}
