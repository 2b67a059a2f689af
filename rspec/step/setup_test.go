package step

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// requested returns a step: its name is the text, and kind may be followed by its operation.
func requested(name, kind string, stage int, change ...func(*Requested)) Requested {
	kind, operation, _ := strings.Cut(kind, " ")
	q := Requested{Step: Step{Kind: kind, Name: name, Operation: operation, Stage: stage}}
	for _, f := range change {
		f(&q)
	}
	return q
}

func relation(to string, onTarget bool) func(*Requested) {
	return func(q *Requested) { q.Relation = &Relation{to, onTarget} }
}

func TestPlanOrdersSteps(t *testing.T) {
	list := func(steps ...Requested) []Requested { return steps }
	for _, tt := range []struct {
		rule    string
		db, web []Requested
		want    string // the names of the steps of db, then of web
	}{
		{"nothing", nil, nil, " | "},
		{"installs before executes, in document order", list(requested("x1", Execute, 0), requested("i1", Install, 0), requested("x2", Execute, 0), requested("i2", Install, 0)), nil, "i1 i2 x1 x2 | "},
		{"stages", list(requested("c", Execute, 2), requested("b", Install, 1), requested("a", Execute, 0)), nil, "a b c | "},
		{"kinds in a stage", list(requested("start", "execute start", 0), requested("run", "execute configure", 0), requested("make", "execute install", 0), requested("get", Install, 0), requested("data", UserData, 0), requested("disk", Disk, 0)),
			nil, "disk data get make run start | "},
		{"other operations last, without stages", list(requested("off", "execute uninstall", 0), requested("stop2", "execute stop", 5), requested("stop1", "execute stop", 1), requested("b", Execute, 7), requested("a", "execute start", 3)),
			nil, "a b stop1 stop2 off | "},
		{"T13 relation on the source", list(requested("d", Execute, 0)), list(requested("w", Execute, 1, relation("db", false))), "d | w"},
		{"T13 relation on the target", list(requested("d", Execute, 2)), list(requested("w", Execute, 1, relation("db", true)), requested("own", Execute, 0)), "w d | own"},
	} {
		plan := Plan("s", []Node{{ClientID: "db", Services: &Services{Steps: tt.db}}, {ClientID: "web", Services: &Services{Steps: tt.web}}}, nil)
		var names [2][]string
		for i, steps := range plan {
			for _, x := range steps {
				names[i] = append(names[i], x.Name)
				if x.Operation == Install || x.Operation == Configure {
					t.Errorf("%s: %s has the operation %q", tt.rule, x.Name, x.Operation)
				}
			}
		}
		if got := strings.Join(names[0], " ") + " | " + strings.Join(names[1], " "); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.rule, got, tt.want)
		}
	}
}

func TestPlanFillsTheEnvironment(t *testing.T) {
	db := Node{"db", "h-db", "urn:db", &Services{Properties: []Parameter{{"db.name", "x"}}}}
	properties := []Parameter{{"port", "80"}}
	command := func(q *Requested) { q.Shell, q.Command = "sh", "a" }
	own := func(q *Requested) { q.Parameters = []Parameter{{"extra-1", "a\nb"}} }
	base := map[string]string{"NODE_CLIENT_ID": "web", "NODE_HOSTNAME": "h-web", "SLIVER_URN": "urn:web", "SLICE_URN": "s"}
	pair := map[string]string{
		"SLICE_URN":   "s",
		"SOURCE_port": "80", "SOURCE_NODE_CLIENT_ID": "web", "SOURCE_NODE_HOSTNAME": "h-web", "SOURCE_SLIVER_URN": "urn:web",
		"TARGET_db_name": "x", "TARGET_NODE_CLIENT_ID": "db", "TARGET_NODE_HOSTNAME": "h-db", "TARGET_SLIVER_URN": "urn:db",
	}
	with := func(m map[string]string, pairs ...string) map[string]string {
		all := map[string]string{}
		for k, v := range m {
			all[k] = v
		}
		for i := 0; i < len(pairs); i += 2 {
			all[pairs[i]] = pairs[i+1]
		}
		return all
	}
	for _, tt := range []struct {
		rule       string
		step       Requested
		properties []Parameter
		on         int // index of the node that gets it
		want       map[string]string
	}{
		{"plain", requested("", Execute, 0, command), nil, 1, nil},
		{"install", requested("", Install, 1), properties, 1, nil},
		{"stage", requested("", Execute, 1, command), nil, 1, base},
		{"T12 property", requested("", Execute, 0, command), properties, 1, with(base, "port", "80")},
		{"T12 parameter", requested("", Execute, 0, command, own), properties, 1, with(base, "port", "80", "extra_1", "a\nb")},
		{"T13 on the source", requested("", Execute, 1, command, own, relation("db", false)), properties, 1,
			with(pair, "extra_1", "a\nb", "NODE_CLIENT_ID", "web", "NODE_HOSTNAME", "h-web", "SLIVER_URN", "urn:web")},
		{"T13 on the target", requested("", Execute, 1, command, relation("db", true)), properties, 0,
			with(pair, "NODE_CLIENT_ID", "db", "NODE_HOSTNAME", "h-db", "SLIVER_URN", "urn:db")},
	} {
		plan := Plan("s", []Node{db, {"web", "h-web", "urn:web", &Services{Properties: tt.properties, Steps: []Requested{tt.step}}}}, nil)
		if len(plan[tt.on]) != 1 || len(plan[1-tt.on]) != 0 {
			t.Errorf("%s: %v", tt.rule, plan)
			continue
		}
		if d := cmp.Diff(tt.want, plan[tt.on][0].Environment); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.rule, d)
		}
	}
}

func TestVariable(t *testing.T) {
	for name, want := range map[string]string{"port": "port", "db.name": "db_name", "1st": "_1st", "é-x": "__x", "": ""} {
		if got := Variable(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestCheckNames(t *testing.T) {
	list := func(names ...string) (all []Parameter) {
		for _, n := range names {
			all = append(all, Parameter{Name: n})
		}
		return all
	}
	for _, tt := range []struct {
		rule                string
		own, source, target []Parameter
		related             bool
		at                  int
		want                string
	}{
		{"different names", list("a", "b", "A"), list("c"), nil, false, 0, ""},
		{"no name", list("a", ""), nil, nil, false, 1, "no name"},
		{"T12 one variable", list("a.b", "c", "a_b"), nil, nil, false, 2, `"a.b" and "a_b" both become the variable a_b`},
		{"property of the node", list("a.b"), list("a_b"), nil, false, 0, `"a_b" and "a.b" both`},
		{"reserved", list("x", "SLICE.URN"), nil, nil, false, 1, "would replace the variable SLICE_URN"},
		{"reserved in a relation", list("HOME"), nil, nil, true, 0, "would replace the variable HOME"},
		{"prefix without a relation", list("SOURCE_a", "TARGET_SLIVER_URN"), list("a"), nil, false, 0, ""},
		{"the node's names with a relation", list("a", "b"), list("a"), list("b"), true, 0, ""},
		{"of the source", list("SOURCE.a"), list("a"), nil, true, 0, `"SOURCE_a" and "SOURCE.a" both`},
		{"of the target", list("b", "TARGET_a"), nil, list("a"), true, 1, `both become the variable TARGET_a`},
		{"name of the source", list("SOURCE_NODE_CLIENT_ID"), nil, nil, true, 0, "would replace the variable SOURCE_NODE_CLIENT_ID"},
	} {
		q := Requested{Parameters: tt.own}
		if tt.related {
			q.Relation = &Relation{}
		}
		at, err := q.CheckNames(tt.source, tt.target)
		if at != tt.at || (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %d, %v", tt.rule, at, err)
		}
	}
}

func TestIsPlainMustEndAndInPlan(t *testing.T) {
	yes, no := true, false
	for _, tt := range []struct {
		rule                   string
		step                   Step
		plain, mustEnd, inPlan bool
	}{
		{"install", Step{Kind: Install, URL: "u", InstallPath: "/", FileType: "tar"}, true, true, true},
		{"execute", Step{Kind: Execute, Shell: "sh", Command: "a", Name: "n"}, true, false, true},
		{"stage 1", Step{Kind: Execute, Stage: 1}, false, true, true},
		{"background", Step{Kind: Execute, Stage: 1, Background: &yes}, false, false, true},
		{"foreground", Step{Kind: Execute, Background: &no}, false, true, true},
		{"archive", Step{Kind: Install, Archive: &Archive{}}, false, true, true},
		{"script", Step{Kind: Execute, Script: "s"}, false, false, true},
		{"as user", Step{Kind: Execute, AsUser: true}, false, false, true},
		{"environment", Step{Kind: Execute, Environment: map[string]string{"a": ""}}, false, false, true},
		{"user data", Step{Kind: UserData}, false, true, true},
		{"disk", Step{Kind: Disk}, false, true, true},
		{"start", Step{Kind: Execute, Operation: Start}, false, false, true},
		{"configure", Step{Kind: Execute, Operation: Configure}, false, false, true},
		{"stop", Step{Kind: Execute, Operation: Stop}, false, false, false},
		{"uninstall", Step{Kind: Execute, Operation: Uninstall}, false, false, false},
	} {
		if got := [3]bool{tt.step.IsPlain(), tt.step.MustEnd(), tt.step.InPlan()}; got != [3]bool{tt.plain, tt.mustEnd, tt.inPlan} {
			t.Errorf("%s: %v", tt.rule, got)
		}
	}
}

func TestSummary(t *testing.T) {
	for _, tt := range []struct {
		step Step
		want string
	}{
		{Step{Kind: Install, URL: "http://h/a"}, "http://h/a"},
		{Step{Kind: Install, URL: "http://h/a", Name: "data"}, "data"},
		{Step{Kind: Execute, Command: "\n a \nb"}, "a…"},
		{Step{Kind: Execute, Script: "x/run.sh"}, "x/run.sh"},
		{Step{Kind: UserData, URL: "data:,"}, "user data for cloud-init"},
		{Step{Kind: Disk, InstallPath: "/data"}, "/data"},
		{Step{Kind: Execute, Command: strings.Repeat("é", 60)}, strings.Repeat("é", 40) + "…"},
	} {
		if got := tt.step.Summary(); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.step, got, tt.want)
		}
	}
}
