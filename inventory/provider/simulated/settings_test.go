package simulated

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSettings(t *testing.T) {
	got, err := parseSettings(SettingsFor("sim.lab.example.org"), "x.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := defaults()
	want.Domain = "sim.lab.example.org"
	got.Chance = nil // written as empty
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the written settings are not the defaults (-default +written):\n%s", diff)
	}
	for _, text := range []string{"", "# nothing yet\n", "chance:\ncomponents:\n"} {
		if s, err := parseSettings([]byte(text), "x.yaml"); err != nil || s.Domain != DefaultDomain {
			t.Errorf("%q: %v, %v", text, s, err)
		}
	}
	full, err := parseSettings([]byte("components:\n- &a {name: pc1, behaviour: fail, on: [make, start], times: 3}\n- *a\nchance: {fail: 0.5, slow: 1e-1}\nseed: 18446744073709551615\n"), "x.yaml")
	one := component{Name: "pc1", Behaviour: fail, On: []operation{opMake, opStart}, Times: 3}
	if diff := cmp.Diff([]component{one, one}, full.Components); err != nil || diff != "" || full.Chance[slow] != 0.1 || full.Seed != 1<<64-1 {
		t.Errorf("%+v, %v\n%s", full, err, diff)
	}
}

func TestMistakesInSettings(t *testing.T) {
	behaviours, operations := "slow, fail, refuse, hang, die, lose", "make, start, stop, restart, users, remove, install, execute"
	for _, tt := range []struct{ rule, text, want string }{
		{"key of a component", "components:\n- {nmae: pc1, behaviour: fail}", `x.yaml:2: a component has no key "nmae"; did you mean "name"?`},
		{"unknown key", "\nslowfactor: 3", `x.yaml:2: the file has no key "slowfactor"; did you mean "slow_factor"?`},
		{"key twice", "jitter: 0\njitter: 1", `x.yaml:2: the file has the key "jitter" twice; drop one`},
		{"unknown operation", "timing: {boot: 1s}", `x.yaml:1: timing has no key "boot"; there are ` + operations},
		{"no time", "timing: {make: two}", `x.yaml:1: make is "two" and must be a duration of at most 24h, such as 2s or 200ms`},
		{"time without a unit", "timing: {make: 2}", `x.yaml:1: make is "2" and must be a duration of at most 24h, such as 2s or 200ms`},
		{"negative time", "lose_after: -1s", `x.yaml:1: lose_after is "-1s" and must be a duration of at most 24h, such as 2s or 200ms`},
		{"times in a list", "timing: [1s]", "x.yaml:1: timing must be a list of keys and values: " + operations},
		{"near behaviour", "components: [{name: pc1, behaviour: sloww}]", `x.yaml:1: there is no behaviour "sloww"; did you mean "slow"?`},
		{"unknown behaviour", "components: [{name: pc1, behaviour: odd}]", `x.yaml:1: there is no behaviour "odd"; there are ` + behaviours},
		{"behaviour of nobody", "components: [{behaviour: fail}]", "x.yaml:1: a component has no name; add one, such as name: pc3"},
		{"no behaviour", "components: [{name: pc1}]", "x.yaml:1: component pc1 has no behaviour; add one of " + behaviours},
		{"component of one word", "components: [pc1]", "x.yaml:1: a component must be a list of keys and values: name, behaviour, on, times, kind"},
		{"components are no list", "components: {name: pc1}", "x.yaml:1: components must be a list; each entry begins with a dash"},
		{"misbehaves in what", "components: [{name: pc1, behaviour: fail, on: [strat]}]", `x.yaml:1: there is no operation "strat"; did you mean "start"?`},
		{"kind of a refusal", "components: [{name: pc1, behaviour: refuse, kind: secret}]", `x.yaml:1: there is no kind "secret"; there are unknown, forbidden, unsupported, failed`},
		{"times of dry runs", "components: [{name: pc1, behaviour: fail, times: 2, on: [make, probe]}]", "x.yaml:1: component pc1 has times and probe, but times does not count dry runs, because they change nothing; drop times, or write a separate entry for probe"},
		{"kind of what is no refusal", "components: [{name: pc1, behaviour: fail, kind: unknown}]", "x.yaml:1: component pc1 has a kind, but its behaviour is fail, and only refuse has a kind; drop the kind or change the behaviour"},
		{"services have no other misbehaviour", "components: [{name: pc1, behaviour: hang, on: [make, install]}]", "x.yaml:1: component pc1 has the behaviour hang, but install and execute allow only fail and slow; drop these operations, or write a separate entry for them"},
		{"times", "components: [{name: pc1, behaviour: fail, times: -1}]", `x.yaml:1: times is "-1" and must be a whole number; 0 means always`},
		{"unknown chance", "chance: {odd: 0.1}", `x.yaml:1: chance has no key "odd"; there are ` + behaviours},
		{"chance above one", "chance: {fail: 1.5}", `x.yaml:1: the chance of fail is "1.5" and must be a number from 0 to 1`},
		{"chances above one", "chance: {fail: 0.6, slow: 0.6}", "x.yaml:1: the sum of the chances is 1.2, which is more than 1; lower them"},
		{"chance not a number", "chance: {fail: .nan}", `x.yaml:1: the chance of fail is ".nan" and must be a number from 0 to 1`},
		{"jitter", "jitter: 2", `x.yaml:1: jitter is "2" and must be a number from 0 to 1`},
		{"slow factor", "slow_factor: 0.5", `x.yaml:1: slow_factor is "0.5" and must be a number from 1 to 1000000`},
		{"seed", "seed: -1", `x.yaml:1: seed is "-1" and must be a whole number of at least 0`},
		{"empty domain", "domain: ''", "x.yaml:1: domain must be a text"},
		{"not YAML", "timing:\n  make: 1s\n stop: 1s\n", "x.yaml:3: at or after line 3 this is not YAML: "},
		{"all at once, in order of lines", "components: [{name: pc1, behaviour: odd}]\njitter: 2\ndomain: ''",
			`x.yaml:1: there is no behaviour "odd"; there are ` + behaviours + `; x.yaml:2: jitter is "2" and must be a number from 0 to 1; x.yaml:3: domain must be a text`},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			s, err := parseSettings([]byte(tt.text), "x.yaml")
			if err == nil {
				t.Fatalf("%q was accepted: %+v", tt.text, s)
			}
			if got := err.Error(); got != tt.want && (tt.rule != "not YAML" || !strings.HasPrefix(got, tt.want)) || strings.ContainsRune(got, '\n') {
				t.Errorf("the error is\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

func FuzzSettings(f *testing.F) {
	f.Add(SettingsFor(DefaultDomain))
	f.Add([]byte("components: &a [*a]\n"))
	f.Add([]byte("chance: {fail: 1, fail: .inf}\ntiming: x\n---\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := parseSettings(text, "x.yaml")
		if err != nil {
			if strings.ContainsRune(err.Error(), '\n') || !strings.HasPrefix(err.Error(), "x.yaml:") {
				t.Fatalf("%q is no line about a file", err)
			}
			return
		}
		if s.Domain == "" || !(s.Jitter >= 0 && s.Jitter <= 1) || s.SlowFactor < 1 {
			t.Fatalf("accepted %+v", s)
		}
	})
}
