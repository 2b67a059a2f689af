package step

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func unpacked(t *testing.T, p *Playbooks) (tree map[string]map[string]map[string]any) {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(p.inventory))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestInventoryOfPlaybooks(t *testing.T) {
	v := func(n int) map[string]any { return map[string]any{"n": fmt.Sprint(n), "same": "x"} }
	for _, tt := range []struct {
		rule         string
		hosts        []Host
		names        string // of the hosts, sorted
		groups, vars string
	}{
		{"groups, and what all have", []Host{{"a", "a", "web", v(1)}, {"b", "b", "web", v(2)}}, "a=1 b=2", "map[web:map[hosts:map[a:map[] b:map[]]]]", "map[same:x]"},
		{"a name that is not the client_id", []Host{{"a", "a", "", v(1)}, {"b:*", "b-2", "", v(2)}}, "a=1 b-2=2", "map[]", "map[same:x]"},
		{"a group of the name of its only host", []Host{{"a", "a", "a", v(1)}, {"b", "b", "", v(2)}}, "a=1 b=2", "map[a:map[hosts:map[a:map[]]]]", "map[same:x]"},
		{"a group of the name of a host", []Host{{"a", "a", "a", v(1)}, {"b", "b", "a", v(2)}}, "a=1 b=2", "map[]", "map[same:x]"},
		{"a group of reserved name", []Host{{"a", "a", "all", v(1)}, {"b", "b", "big-one", v(2)}}, "a=1 b=2", "map[big_one:map[hosts:map[b:map[]]]]", "map[same:x]"},
	} {
		all := unpacked(t, NewPlaybooks(tt.hosts, ""))["all"]
		var names []string
		for _, name := range []string{"a", "b", "b-2"} {
			if h, ok := all["hosts"][name].(map[string]any); ok {
				names = append(names, name+"="+fmt.Sprint(h["n"]))
			}
		}
		if got := strings.Join(names, " "); got != tt.names || len(all["hosts"]) != len(tt.hosts) || fmt.Sprint(all["children"]) != tt.groups || fmt.Sprint(all["vars"]) != tt.vars {
			t.Errorf("%s: %v", tt.rule, all)
		}
	}
}

func TestPlanPreparesPlaybooks(t *testing.T) {
	p := NewPlaybooks([]Host{{"web", "web", "", nil}}, "2.14")
	q := requested("", Execute, 1, func(q *Requested) {
		q.Shell, q.Script, q.Files, q.IsPlaybook = "sh", "playbook", []File{{"data:,a", "playbook"}}, true
		q.Parameters = []Parameter{{"port", "80"}}
	})
	s := Plan("s", []Node{{"web", "h-web", "urn:web", &Services{Steps: []Requested{q}}}}, p)[0][0]
	files := map[string]string{}
	for _, f := range s.Files {
		_, text, _ := strings.Cut(f.URL, ",")
		body, _ := base64.StdEncoding.DecodeString(text)
		files[f.Path] = string(body)
	}
	if s.Script != playScript || s.Shell != "sh" || len(files) != 5 || s.Summary() != "playbook" || !strings.HasPrefix(files[playScript], "host='web' version='2.14'\n") {
		t.Errorf("%+v", s)
	}
	want := `{"all":{"hosts":{"web":{"NODE_CLIENT_ID":"web","NODE_HOSTNAME":"h-web","SLICE_URN":"s","SLIVER_URN":"urn:web","port":"80"}}}}`
	if d := cmp.Diff(want, files[playNode]); d != "" {
		t.Errorf("the variables of the step (-want +got):\n%s", d)
	}
}
