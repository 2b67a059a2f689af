package dryrun_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"patchbay/am"
	"patchbay/am/testkit/wait"
	"patchbay/am/xmlrpc"
)

// The rules L4 to L6, L10 and L13 as an experimenter meets them: the whole
// aggregate, with executables for providers.

func TestL10TheDryRunIsTheRealRun(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.allocate("pc1", "pc2").want(t, am.Success)
	s.on("Provision").want(t, am.Success)
	wait.Until(t, "made", func() bool { return s.states()["b"][0] == "geni_notready" })
	sets := s.sets("rack")
	for i := range sets { // the order of a batch says nothing
		slices.Sort(sets[i].Components)
	}
	if len(sets) != 2 || !sets[0].Noop || sets[1].Noop || !gocmp.Equal(sets[0].Components, sets[1].Components) || sets[0].Answer != sets[1].Answer {
		t.Errorf("asked %+v, want a dry run and the same for real", sets)
	}
}

// TestRefusalsHaveTheirCodes is the table of the convention: what a refusal is
// for a node that asks for its component, and for one that takes any.
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
		{"bound, unsupported", behaviour{Refuses: all("unsupported", "pc1")}, []string{"pc1"}, am.Unsupported, 0, "on pc1 it cannot be made: pc1 is unsupported", 1},
		{"bound, full", behaviour{Refuses: all("full", "pc1")}, []string{"pc1"}, am.TooBig, am.InsufficientNodes, "pc1 is not available: pc1 is full", 1},
		{"any, full", behaviour{Refuses: all("full", every...)}, []string{""}, am.TooBig, am.InsufficientNodes, "the provider of pc4 reports: pc4 is full", 4},
		{"any, unknown", behaviour{Refuses: all("unknown", every...)}, []string{""}, am.TooBig, am.InsufficientNodes, "no free component is available; the provider of pc4 reports: pc4 is unknown", 4},
		{"any, forbidden", behaviour{Refuses: all("forbidden", every...)}, []string{""}, am.Refused, 0, "pc4 is forbidden", 4},
		{"any, unsupported", behaviour{Refuses: all("unsupported", every...)}, []string{""}, am.Unsupported, 0, "on pc4 it cannot be made: pc4 is unsupported", 4},
		{"any, failed", behaviour{Refuses: all("failed", every...)}, []string{""}, am.ErrorCode, 0, "pc4 is failed", 4},
		{"one bound, one any", behaviour{Refuses: all("forbidden", "pc1", "pc2")}, []string{"pc1", ""}, am.Refused, 0, "pc1 is forbidden", 1},
		{"one of three", behaviour{Refuses: all("unknown", "pc2")}, []string{"pc1", "pc2", "pc3"}, am.SearchFailed, 0, `line 1: node "b": pc2 is not available: pc2 is unknown`, 1},
		{"what lasts counts", behaviour{Refuses: map[string]string{"pc1": "failed", "pc2": "unknown"}}, []string{"pc1", "pc2"}, am.SearchFailed, 0, "pc1 is failed", 1},
		{"bound, top-level error", behaviour{Dry: "top"}, []string{"pc1"}, am.Refused, 0, "pc1 is not available: the rack is locked", 1},
		{"bound, bad exit", behaviour{Dry: "exit"}, []string{"pc1"}, am.ServerError, 0, "not working properly", 1},
		{"any, top-level error", behaviour{Dry: "top"}, []string{""}, am.Refused, 0, "the rack is locked", 4},
		{"time limit", behaviour{Dry: "hang"}, []string{"pc1"}, am.TimedOut, 0, "did not answer in time; try again later", 1},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			limit := time.Duration(0) // the usual one
			if tt.b.Dry == "hang" {
				limit = 4 * time.Second
			}
			// Each has its own, for no answer is remembered for a while.
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
			if tt.b.Dry == "hang" {
				return // once is long enough
			}
			s = newImpatientSite(t, limit)
			s.behave("rack", tt.b)
			s.create(tt.nodes...).want(t, tt.code, tt.says)
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

// TestNamesOfSliversBeingRemovedAreFree: a request may use the names of slivers that are
// deleted at once, although their provider has not removed them yet and would refuse
// two nodes of one name.
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
					t.Errorf("%s is %q while what was deleted is there", id, x)
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

// TestWhatAProviderSaysIsOneLineOfASCII, wherever it is told.
func TestWhatAProviderSaysIsOneLineOfASCII(t *testing.T) {
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

// TestRandomCallsWhileProvidersAreAsked lets both versions work on the same
// slices, with callers that go away, and a provider that refuses and dies. In
// the end no component is promised twice, and nothing is half done.
func TestRandomCallsWhileProvidersAreAsked(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.behave("rack", behaviour{Kills: "pc3", Refuses: map[string]string{"pc1": "failed", "pc2": "unknown"}})
	type share struct{ slice, cred string }
	var shares []share
	for i := range 4 {
		u, c := s.sliceNamed(fmt.Sprint("random", i))
		shares = append(shares, share{u, c})
	}
	names := make(chan string)
	done := make(chan struct{})
	defer close(done)
	go func() {
		for n := 0; ; n++ {
			select {
			case names <- fmt.Sprint("n", n):
			case <-done:
				return
			}
		}
	}()
	var callers sync.WaitGroup
	for range 6 {
		callers.Go(func() {
			for range 15 {
				x := shares[rand.IntN(len(shares))]
				cr, all := creds(x.cred), []xmlrpc.Value{x.slice}
				node := strings.Replace(request([]string{"", "", "pc4", "pc1", "q1"}[rand.IntN(5)]), `client_id="a"`, `client_id="`+<-names+`"`, 1)
				ctx, cancel := context.WithCancel(t.Context())
				if rand.IntN(6) == 0 {
					time.AfterFunc(rand.N(50*time.Millisecond), cancel)
				}
				method, a := "", answer{}
				switch rand.IntN(7) {
				case 0, 1:
					method, a = "Allocate", s.serve(ctx, 3, "Allocate", x.slice, cr, node, options)
				case 2, 3:
					method, a = "CreateSliver", s.serve(ctx, 2, "CreateSliver", x.slice, cr, node, []xmlrpc.Value{}, options)
				case 4:
					method, a = "Provision", s.serve(ctx, 3, "Provision", all, cr, options)
				case 5:
					method, a = "Renew", s.serve(ctx, 3, "Renew", all, cr, time.Now().Add(30*time.Minute).UTC().Format(time.RFC3339), options)
				case 6:
					method, a = "DeleteSliver", s.serve(ctx, 2, "DeleteSliver", x.slice, cr, options)
				}
				// Who finds nothing free but pc3 hears that its provider breaks on it.
				broken := a.code == am.ServerError && !strings.Contains(a.output, "was killed before it answered")
				if cancel(); a.code == am.DBError || broken {
					t.Errorf("%s: %d %s", method, a.code, a.output)
				}
			}
		})
	}
	callers.Wait()
	all, err := s.store.Slivers()
	if err != nil {
		t.Fatal(err)
	}
	owners := map[string]bool{}
	for _, x := range all {
		if owners[x.Component.Name] {
			t.Errorf("%s is promised twice", x.Component.Name)
		}
		if owners[x.Component.Name] = true; !x.ProbedUntil.IsZero() {
			t.Errorf("%s is still asked about, and nobody asks", x.Component.Name)
		}
	}
	if s.log.has("a dry run has created nodes") {
		t.Error("a provider that obeys is taken for one that does not")
	}
}
