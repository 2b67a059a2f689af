package dryrun_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"patchbay/am"
	"patchbay/am/testkit/wait"
)

func TestL10TheDryRunIsTheRealRun(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.allocate("pc1", "pc2").want(t, am.Success)
	s.on("Provision").want(t, am.Success)
	wait.Until(t, "made", func() bool { return s.states()["b"][0] == "geni_notready" })
	sets := s.sets("rack")
	for i := range sets { // the order of a batch does not matter
		slices.Sort(sets[i].Components)
	}
	if len(sets) != 2 || !sets[0].Noop || sets[1].Noop || !gocmp.Equal(sets[0].Components, sets[1].Components) || sets[0].Answer != sets[1].Answer {
		t.Errorf("asked %+v, want a dry run and the same for real", sets)
	}
}

// TestRefusalsHaveTheirCodes has refusals for nodes that name a component and for nodes that
// name none. TestEachKindHasItsCode has all kinds of refusals.
func TestRefusalsHaveTheirCodes(t *testing.T) {
	t.Parallel()
	all := func(kind string, components ...string) map[string]string {
		m := map[string]string{}
		for _, c := range components {
			m[c] = kind
		}
		return m
	}
	every := []string{"pc1", "pc2", "pc3", "pc4", "pc5", "pc6", "pc7", "pc8"}
	for _, tt := range []struct {
		rule   string
		b      behaviour
		nodes  []string
		code   am.Code
		detail am.Detail
		says   string
		dry    int // dry runs made
	}{
		{"bound, unknown", behaviour{Refuses: all("unknown", "pc1")}, []string{"pc1"}, am.SearchFailed, 0, "pc1 is not available: pc1 is unknown", 1},
		{"any, full", behaviour{Refuses: all("full", every...)}, []string{""}, am.TooBig, am.InsufficientNodes, "the provider of pc4 reports: pc4 is full", 4},
		{"any, forbidden", behaviour{Refuses: all("forbidden", every...)}, []string{""}, am.Refused, 0, "pc4 is forbidden", 4},
		{"one of three", behaviour{Refuses: all("unknown", "pc2")}, []string{"pc1", "pc2", "pc3"}, am.SearchFailed, 0, `line 1: node "b": pc2 is not available: pc2 is unknown`, 1},
		{"what lasts counts", behaviour{Refuses: map[string]string{"pc1": "failed", "pc2": "unknown"}}, []string{"pc1", "pc2"}, am.SearchFailed, 0, "pc1 is failed", 1},
		{"bound, top-level error", behaviour{Dry: "top"}, []string{"pc1"}, am.Refused, 0, "pc1 is not available: the rack is locked", 1},
		{"any, top-level error", behaviour{Dry: "top"}, []string{""}, am.Refused, 0, "the rack is locked", 4},
		{"time limit", behaviour{Dry: "hang"}, []string{"pc1"}, am.TimedOut, 0, "did not answer in time; try again later", 1},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			limit := time.Duration(0) // the usual one
			if tt.b.Dry == "hang" {
				limit = 4 * time.Second
			}
			// Each row has its own site, because a missing answer is remembered for a minute.
			s := newImpatientSite(t, limit)
			s.behave("rack", tt.b)
			a := s.allocate(tt.nodes...).want(t, tt.code, tt.says)
			if want := cmp.Or(tt.detail, am.Detail(tt.code)); a.detail != want {
				t.Errorf("am_code %d, want %d", a.detail, want)
			}
			if n := len(s.sets("rack")); n != tt.dry {
				t.Errorf("%d dry runs, want %d", n, tt.dry)
			}
			s.nothingKept()
		})
	}
}

func TestAnotherComponentIsTaken(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.behave("rack", behaviour{Refuses: map[string]string{"pc1": "unknown", "pc3": "failed"}})
	a := s.allocate("", "", "", "", "", "pc8").want(t, am.Success)
	got := s.components()
	want := map[string]string{"a": "pc2", "b": "pc4", "c": "pc5", "d": "pc6", "e": "pc7", "f": "pc8"}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := len(s.sets("rack")); n != 2 {
		t.Errorf("%d dry runs, want one that is refused and one that is not", n)
	}
	manifest, _ := get(a.value, "geni_rspec").(string)
	for _, c := range got {
		if !strings.Contains(manifest, "+node+"+c+`"`) {
			t.Errorf("the manifest does not name %s:\n%s", c, manifest)
		}
	}
}

// TestNamesOfSliversBeingRemovedAreFree requests nodes with the names of deleted slivers, which
// the provider has not removed yet. The provider refuses two nodes of one name.
func TestNamesOfSliversBeingRemovedAreFree(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rule string
		make func(s *site)
		end  string // the state in which the nodes are in the end
	}{
		{"Allocate and Provision", func(s *site) {
			s.allocate("", "").want(s.t, am.Success)
			s.on("Provision").want(s.t, am.Success)
		}, "geni_notready"},
		{"CreateSliver", func(s *site) { s.create("", "").want(s.t, am.Success) }, "geni_ready"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			s := newSite(t)
			s.behave("rack", behaviour{Names: true, Stays: true})
			made := func() bool { x := s.states(); return x["a"][0] == tt.end && x["b"][0] == tt.end }
			tt.make(s)
			wait.Until(t, "made", made)
			s.on("Delete").want(t, am.Success)
			tt.make(s)
			manifest, _ := get(s.on("Describe").want(t, am.Success).value, "geni_rspec").(string)
			if strings.Count(manifest, "sliver_id=") != 2 {
				t.Errorf("the manifest has not two slivers:\n%s", manifest)
			}
			for id, x := range s.states() {
				if x != [2]string{"geni_pending_allocation", ""} {
					t.Errorf("%s is %q while the deleted node exists", id, x)
				}
			}
			s.behave("rack", behaviour{Names: true})
			wait.Until(t, "made again", made)
			for _, x := range s.sets("rack") {
				if strings.Contains(x.Answer, "two nodes") {
					t.Errorf("the provider was asked for two nodes of one name: %+v", x)
				}
			}
		})
	}
}

// TestProviderMessagesAreOneLineOfASCII checks the output of Allocate and geni_error of Status.
func TestProviderMessagesAreOneLineOfASCII(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	odd := "\u00e4\n\r\t]]></string><evil/>\x01\u2028\U0001F600\u202e" + strings.Repeat("long ", 2000)
	check := func(what, text string) {
		if text == "" || len(text) > 6000 || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("%s: %d bytes, %.100q", what, len(text), text)
		}
	}
	s.behave("rack", behaviour{Refuses: map[string]string{"pc1": odd}})
	check("output", s.allocate("pc1").want(t, am.ErrorCode).output)
	s.behave("quiet", behaviour{Refuses: map[string]string{"q1": odd}})
	s.allocate("q1").want(t, am.Success)
	s.on("Provision").want(t, am.Success)
	wait.Until(t, "it is refused", func() bool { return s.states()["a"][0] == "geni_failed" })
	check("geni_error", s.states()["a"][1])
}
