package dryrun_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/store"
	"patchbay/am/testkit/wait"
	"patchbay/am/urn"
)

// TestCallsDuringADryRunAreReported makes other calls during a dry run. They delete the slivers, shut
// the slice down, or need the slivers. No acknowledged call is undone.
func TestCallsDuringADryRunAreReported(t *testing.T) {
	asked := "is still checking"
	soon := time.Now().Add(40 * time.Minute).UTC().Format(time.RFC3339)
	shutdown := func(s *site) {
		s.serve(s.t.Context(), 3, "Shutdown", s.slice, creds(s.cred), options).want(s.t, am.Success)
	}
	for _, tt := range []struct {
		rule string
		do   func(*site)
		dry  map[string]string // refusals
		code am.Code
		says string
		kept int
	}{
		{"deleted", func(s *site) { s.on("Delete").want(s.t, am.Success) }, nil, am.SearchFailed, "were deleted while their providers checked", 0},
		{"shut down", shutdown, nil, am.Forbidden, "was shut down", 1},
		{"shut down, and refused", shutdown, map[string]string{"pc1": "failed"}, am.ErrorCode, "pc1 is failed", 1},
		{"renewed", func(s *site) { s.on("Renew", soon).want(s.t, am.Busy, asked) }, nil, am.Success, "", 1},
		{"renewed, and refused", func(s *site) { s.on("Renew", soon).want(s.t, am.Busy, asked) }, map[string]string{"pc1": "failed"}, am.ErrorCode, "pc1 is failed", 0},
		// A node that is created now would look as if the dry run had created it.
		{"provisioned", func(s *site) { s.on("Provision").want(s.t, am.Busy, asked) }, nil, am.Success, "", 1},
		{"provisioned, and refused", func(s *site) { s.on("Provision").want(s.t, am.Busy, asked) }, map[string]string{"pc1": "failed"}, am.ErrorCode, "pc1 is failed", 0},
		{"started", func(s *site) { s.on("PerformOperationalAction", "geni_start").want(s.t, am.Busy, asked) }, nil, am.Success, "", 1},
		{"renewed in version 2", func(s *site) {
			s.serve(s.t.Context(), 2, "RenewSliver", s.slice, creds(s.cred), soon, options).want(s.t, am.Busy, asked)
		}, nil, am.Success, "", 1},
		{"looked at", func(s *site) {
			if got := s.states()["a"]; got != [2]string{"geni_pending_allocation", ""} {
				s.t.Errorf("Status reports %v", got)
			}
		}, nil, am.Success, "", 1},
	} {
		for _, method := range []string{"Allocate", "CreateSliver"} {
			if method == "CreateSliver" && tt.rule != "deleted" && tt.rule != "renewed in version 2" {
				continue // both methods reserve by the same code
			}
			t.Run(method+" "+tt.rule, func(t *testing.T) {
				t.Parallel()
				s := newSite(t)
				s.during(behaviour{Refuses: tt.dry}, func() answer {
					if method == "CreateSliver" {
						return s.create("pc1")
					}
					return s.allocate("pc1")
				}, func() { tt.do(s) }).want(t, tt.code, tt.says)
				wait.Until(t, "the rest is settled", func() bool { return len(s.components()) == tt.kept })
				if s.log.has("a dry run has created nodes") {
					t.Error("the provider is reported for changes in a dry run")
				}
				if tt.code == am.Success && method == "Allocate" {
					s.on("Provision").want(t, am.Success)
				}
			})
		}
	}
}

// during runs do while the provider rack, which behaves like b, is asked about a
// call that is on its way.
func (s *site) during(b behaviour, call func() answer, do func()) answer {
	s.t.Helper()
	b.Dry = "wait"
	s.behave("rack", b)
	answered := make(chan answer, 1)
	go func() { answered <- call() }()
	wait.Until(s.t, "it is being asked", func() bool { return len(s.sets("rack")) > 0 })
	do()
	b.Dry = ""
	s.behave("rack", b)
	return <-answered
}

func TestAnEndTimeThatPassesMeanwhileIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	end := time.Now().Add(4 * time.Second).Truncate(time.Second)
	wish := append(xmlrpc.Struct{{Name: "geni_end_time", Value: end.UTC().Format(time.RFC3339)}}, options...)
	a := s.during(behaviour{}, func() answer {
		return s.serve(t.Context(), 3, "Allocate", s.slice, creds(s.cred), request("pc1"), wish)
	}, func() { wait.Until(t, "the end has passed", func() bool { return time.Now().After(end) }) })
	if a.want(t, am.BadArgs, "geni_end_time", "has passed while providers checked"); a.detail != am.OutOfRange {
		t.Errorf("am_code %d, want %d", a.detail, am.OutOfRange)
	}
	s.nothingKept()
}

// TestHangingDryRunsKeepNoSetWaiting provisions a node of a provider whose dry runs do not end.
func TestHangingDryRunsKeepNoSetWaiting(t *testing.T) {
	t.Parallel()
	s := newImpatientSite(t, 2*time.Minute)
	s.allocate("pc8").want(t, am.Success)
	s.behave("rack", behaviour{Dry: "hang"})
	ctx, cancel := context.WithCancel(context.Background())
	var calls sync.WaitGroup
	t.Cleanup(func() { cancel(); calls.Wait() })
	for i := range 7 {
		slice, cred := s.sliceNamed(fmt.Sprint("hangs", i))
		calls.Go(func() {
			s.serve(ctx, 3, "Allocate", slice, creds(cred), request(fmt.Sprint("pc", i+1)), options)
		})
	}
	hanging := func() int { return len(s.sets("rack")) - 1 }
	wait.Until(t, "one hangs", func() bool { return hanging() > 0 })
	s.on("Provision").want(t, am.Success)
	wait.Until(t, "it is made", func() bool { return s.states()["a"][0] == "geni_notready" })
}

// TestComponentsWithoutAnswerArePassedOver has a component whose dry run gets no answer. Nodes that
// name no component get another one. Nodes that name it get an error with the time of the next
// dry run.
func TestComponentsWithoutAnswerArePassedOver(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.behave("rack", behaviour{Kills: "pc2"})
	for i, tt := range []struct {
		nodes []string
		code  am.Code
		says  string
	}{
		{[]string{"pc1", "pc2", "pc3", "pc4", "pc5"}, am.ServerError, "it cannot be reserved now: the provider rack"},
		{[]string{"", "pc2"}, am.ServerError, "it cannot be reserved now: the provider rack"},
		{[]string{"pc1"}, am.ServerError, "try again after"},
		{[]string{""}, am.Success, ""}, // none of the five
		{[]string{"", "pc8"}, am.Success, ""},
	} {
		slice, cred := s.sliceNamed(fmt.Sprint("kills", i))
		s.serve(t.Context(), 3, "Allocate", slice, creds(cred), request(tt.nodes...), options).want(t, tt.code, tt.says)
	}
	held, err := s.store.Slivers()
	if err != nil || len(held) != 3 {
		t.Fatalf("%d slivers, want 3; %v", len(held), err)
	}
	for _, x := range held {
		if x.Component.Name < "pc6" {
			t.Errorf("%s is reserved", x.Component.Name)
		}
	}
}

// TestLargeRequestsAtASlowProviderDoNotBlockOthers has two large requests in dry runs that do not
// end. A third one is still parsed, although few large requests are parsed at one time.
func TestLargeRequestsAtASlowProviderDoNotBlockOthers(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.behave("slow", behaviour{Dry: "hang"})
	large := func(c string) string {
		return strings.Replace(request(c), "</rspec>", "<!--"+strings.Repeat("x", 1<<20)+"--></rspec>", 1)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var calls sync.WaitGroup
	t.Cleanup(func() { cancel(); calls.Wait() })
	for i, c := range []string{"s1", "s2"} {
		slice, cred := s.sliceNamed(fmt.Sprint("large", i))
		calls.Go(func() { s.serve(ctx, 3, "Allocate", slice, creds(cred), large(c), options) })
	}
	wait.Until(t, "both are asked about", func() bool { return len(s.components()) > 0 && s.held() == 2 })
	slice, cred := s.sliceNamed("quick")
	s.serve(t.Context(), 3, "Allocate", slice, creds(cred), large("q1"), options).want(t, am.Success)
	if s.held() != 3 {
		t.Errorf("it had to wait for the slow ones: %d slivers", s.held())
	}
}

// held counts slivers.
func (s *site) held() int {
	all, err := s.store.Slivers()
	if err != nil {
		s.t.Error(err)
	}
	return len(all)
}

func TestSlowProviderDelaysNoOther(t *testing.T) {
	t.Parallel()
	s := newImpatientSite(t, 8*time.Second)
	s.behave("slow", behaviour{Dry: "hang"})
	slice, cred := s.sliceNamed("waits")
	answered := make(chan answer, 1)
	go func() {
		answered <- s.serve(context.Background(), 3, "Allocate", slice, creds(cred), request("s1"), options)
	}()
	wait.Until(t, "it hangs", func() bool { return len(s.sets("slow")) == 1 })
	for i, component := range []string{"pc1", "q1"} {
		other, cred := s.sliceNamed(fmt.Sprint("quick", i))
		s.serve(t.Context(), 3, "Allocate", other, creds(cred), request(component), options).want(t, am.Success)
	}
	select {
	case a := <-answered:
		t.Fatalf("the slow one was answered first: %v", a)
	default:
	}
	// Meanwhile no other slice gets the component, and its lease ends soon.
	_, cred2 := s.sliceNamed("third")
	third, _ := s.sliceNamed("third")
	s.serve(t.Context(), 3, "Allocate", third, creds(cred2), request("s1"), options).want(t, am.TooBig, "s1 is held")
	u, _ := urn.Parse(slice)
	err := s.store.Read(func(v *store.View) error {
		held, err := v.SliversOf(u)
		if err != nil || len(held) != 1 || time.Until(held[0].Expires) > 2*time.Minute {
			t.Errorf("held: %v, %v", held, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	(<-answered).want(t, am.TimedOut, "did not answer in time")
}

// TestDisconnectedCallerReservesNothing breaks the connection during a dry run.
func TestDisconnectedCallerReservesNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.behave("rack", behaviour{Dry: "hang"})
	ctx, cancel := context.WithCancel(context.Background())
	answered := make(chan answer, 1)
	go func() {
		answered <- s.serve(ctx, 3, "Allocate", s.slice, creds(s.cred), request("pc1"), options)
	}()
	wait.Until(t, "it is being asked", func() bool { return len(s.sets("rack")) == 1 })
	cancel()
	if a := <-answered; a.code == am.Success {
		t.Errorf("answered %v", a)
	}
	s.nothingKept()
}
