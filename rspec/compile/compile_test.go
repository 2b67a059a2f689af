package compile_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"patchbay/inventory"
	"patchbay/rspec"
	"patchbay/rspec/compile"
)

const cluster = `network net ()
system node (cpu.count >= @input.CPUs@ and net_interface.0.connection = 'net')
deploy node 2
`

func TestLanguage(t *testing.T) {
	for _, tt := range []struct{ rule, text, want string }{
		{"a sentence", cluster, compile.RADL},
		{"RADL as JSON", `[{"class": "system", "id": "a"}]`, compile.RADL},
		{"R3 empty text", "", compile.RADL},
		{"R3 a comment alone", "# nothing\n", compile.RADL},
		{"an RSpec", `<rspec type="request"/>`, ""},
		{"an RSpec after a byte order mark and a blank line", "\ufeff\n<rspec/>", ""},
		{"another text", "Dear alice,", ""},
		{"a template of Heat", "heat_template_version: 2015-04-30\n", "hot"},
		{"a name in a blueprint", "components: {a: {type: server, note: 'heat_template_version: x'}}", compile.Blueprint},
		{"a request with artifacts of TOSCA", "<rspec><t:Definitions/></rspec>", ""},
	} {
		if got := compile.Language([]byte(tt.text)); got != tt.want {
			t.Errorf("%s: language %q, want %q", tt.rule, got, tt.want)
		}
	}
}

func TestCompile(t *testing.T) {
	site, err := inventory.Parse(inventory.SimulatedText("example.org"), "inventory.yaml", "example.org")
	if err != nil {
		t.Fatal(err)
	}
	two := map[string]string{"CPUs": "2"}
	for _, tt := range []struct {
		rule, text  string
		o           compile.Options
		nodes       string
		has, hasNot string // in the request
	}{
		{"R1 nodes and links", cluster, compile.Options{Parameters: two}, "node-0 node-1 net", `feature="cpu.count" op="ge" value="2"`, "disk_image"},
		{"no site", cluster, compile.Options{Parameters: two}, "node-0 node-1 net", "<!-- no site is known", "compiled for"},
		{"a site", cluster, compile.Options{Parameters: two, Site: site}, "node-0 node-1 net", "<!-- compiled for the site example.org -->", "no site is known"},
		{"the language is given", "", compile.Options{Language: compile.RADL}, "", `language="radl"`, "<node"},
		{"R3 an empty text deploys nothing", "", compile.Options{}, "", "<rspec", "<node"},
		{"R13 an earlier source", "system node\nnetwork net\ndeploy node 1", compile.Options{Parameters: two, Earlier: [][]byte{[]byte(cluster)}, Nodes: []string{"node-0", "node-1"}, Links: []string{"net"}},
			"node-2 net", `net:join="true"`, `client_id="node-1"`},
	} {
		r, err := compile.Compile([]byte(tt.text), tt.o)
		if err != nil {
			t.Errorf("%s: %v", tt.rule, err)
			continue
		}
		if got := strings.Join(append(r.Nodes, r.Links...), " "); got != tt.nodes {
			t.Errorf("%s: nodes and links %q, want %q", tt.rule, got, tt.nodes)
		}
		if !strings.Contains(string(r.Request), tt.has) || strings.Contains(string(r.Request), tt.hasNot) {
			t.Errorf("%s: the request has no %q, or %q:\n%s", tt.rule, tt.has, tt.hasNot, r.Request)
		}
		if string(r.Source) != tt.text {
			t.Errorf("%s: the source without secrets is not the source itself:\n%s", tt.rule, r.Source)
		}
	}
}

func TestCompileRefuses(t *testing.T) {
	two := map[string]string{"CPUs": "2"}
	for _, tt := range []struct {
		rule, text string
		o          compile.Options
		kind       rspec.Kind
		want       string
	}{
		{"R9 a missing parameter", cluster, compile.Options{}, rspec.BadArgs, "line 2: no values are given for CPUs"},
		{"R13 a reference to nothing", "system node\ndeploy node 1", compile.Options{}, rspec.BadArgs, "line 1: "},
		{"an earlier source with mistakes", "system node\ndeploy node 1", compile.Options{Earlier: [][]byte{[]byte("system (")}}, rspec.BadArgs, "earlier source 1, line 1: "},
		{"all mistakes", "system a (cpu.count >= >)\nsystem b (cpu.count >= >)\n", compile.Options{}, rspec.BadArgs, "line 2: "},
		{"a warning does not hide a mistake", "system a (disk.0.os.credentials.password = 'x')\ndeploy b 1\n", compile.Options{}, rspec.BadArgs, "line 2: "},
		{"another text", "Dear alice,", compile.Options{}, rspec.BadArgs, "the text is neither RADL nor"},
		{"a template of Heat", "heat_template_version: 2015-04-30\nresources: {}\n", compile.Options{}, rspec.BadArgs, "line 1: this is a template of OpenStack Heat (HOT), which Patchbay does not read; write its servers as a blueprint or in RADL"},
		{"a template of Heat in JSON, with components inside", "{\n \"heat_template_version\": \"2015-04-30\", \"components\": []}", compile.Options{}, rspec.BadArgs, "line 2: this is a template of OpenStack Heat"},
		{"a service template of TOSCA", "# a comment\ntosca_definitions_version: tosca_simple_yaml_1_0\n", compile.Options{}, rspec.BadArgs, "line 2: this is a TOSCA service template"},
		{"definitions of TOSCA", "<?xml version='1.0'?>\n<!-- x -->\n<t:Definitions xmlns:t='x'/>", compile.Options{}, rspec.BadArgs, "line 3: this is a document of TOSCA definitions, which Patchbay does not read; write each node as <node>"},
		{"a CAMP plan", "camp_version: CAMP 1.1\n", compile.Options{}, rspec.BadArgs, "this is a CAMP plan"},
		{"another language", cluster, compile.Options{Language: "tosca"}, rspec.Unsupported, `the language "tosca" is unknown`},
		{"too long", "#" + strings.Repeat("x", compile.MaxSource), compile.Options{Parameters: two}, rspec.TooBig, "the source has more than 1048576 bytes"},
		{"a result that is too large", "system a (name = '" + strings.Repeat(`"`, 45*40) + "')\ndeploy a 2000", compile.Options{}, rspec.TooBig, "the result is too large: "},
	} {
		r, err := compile.Compile([]byte(tt.text), tt.o)
		refusal, ok := errors.AsType[*rspec.RequestError](err)
		if !ok || refusal.Kind != tt.kind || !strings.Contains(err.Error(), tt.want) || r != nil {
			t.Errorf("%s: %v, want %s", tt.rule, err, tt.want)
		}
	}
	_, err := compile.Compile([]byte("system a (disk.0.os.credentials.password = 'x')\ndeploy b 1\n"), compile.Options{})
	if wrong, ok := errors.AsType[*compile.Error](err); !ok || len(wrong.Problems) != 2 || !wrong.Problems[0].IsRemark() || wrong.Problems[1].IsRemark() {
		t.Errorf("the problems are not the warning and the mistake: %v", err)
	}
}

func TestSecretsAreRemoved(t *testing.T) {
	r, err := compile.Compile([]byte("system a (\ndisk.0.os.credentials.password = '@input.pw@' and cpu.count >= 1)\ndeploy a 1"), compile.Options{Parameters: map[string]string{"pw": "sesame"}})
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(r.Source, []byte("sesame")) || bytes.Contains(r.Request, []byte("sesame")) || !bytes.Contains(r.Source, []byte("cpu.count >= 1")) {
		t.Errorf("request\n%s\nsource\n%s", r.Request, r.Source)
	}
	if len(r.Remarks) != 1 || r.Remarks[0].Line != 2 {
		t.Errorf("R14 remarks %v, want one in line 2", r.Remarks)
	}
}

func TestCheckAndMissing(t *testing.T) {
	if missing := compile.Missing([]byte(cluster), compile.Options{}); len(missing) != 1 || missing[0] != "CPUs" {
		t.Errorf("missing %v", missing)
	}
	o := compile.Options{Parameters: map[string]string{"CPUs": "2"}}
	if missing := compile.Missing([]byte(cluster), o); len(missing) > 0 {
		t.Errorf("missing %v", missing)
	}
	if err := compile.Check([]byte(cluster), o); err != nil {
		t.Error(err)
	}
	if err := compile.Check([]byte("system a ("), o); err == nil {
		t.Error("an open parenthesis is no mistake")
	}
	if missing := compile.Missing([]byte(`<rspec x="@input.a@"/>`), o); len(missing) > 0 {
		t.Errorf("an RSpec has parameters %v", missing)
	}
}
