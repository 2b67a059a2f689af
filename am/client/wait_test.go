package client

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"patchbay/am"
)

func sliverIn(name string, state am.OperationalState) Sliver {
	return Sliver{ClientID: name, Operational: string(state)}
}

// TestWait checks when and how waiting ends for a sequence of answers to Status. The last
// answer is repeated.
func TestWait(t *testing.T) {
	gone := errors.New("connection refused")
	busy := am.Errorf(am.Busy, "busy")
	for _, tt := range []struct {
		name    string
		wanted  Wanted
		answers []any
		polls   int
		fails   string
	}{
		{"all are ready", Running, []any{[]Sliver{sliverIn("a", am.Ready), sliverIn("b", am.Ready)}}, 1, ""},
		{"one is being created", Running, []any{[]Sliver{sliverIn("a", am.Ready), sliverIn("b", am.Configuring)}, []Sliver{sliverIn("a", am.Ready), sliverIn("b", am.Ready)}}, 2, ""},
		{"provisioned is notready or ready", Made, []any{[]Sliver{sliverIn("a", am.NotReady), sliverIn("b", am.Ready)}}, 1, ""},
		{"a failed one waits for the others", Running, []any{[]Sliver{sliverIn("a", am.Failed), sliverIn("b", am.Configuring)}, []Sliver{sliverIn("a", am.Failed), sliverIn("b", am.Ready)}}, 2, "a failed: the aggregate gives no reason"},
		{"the error contains the reason of a failure", Running, []any{[]Sliver{{ClientID: "a", Operational: "geni_failed", Error: "disk full"}, {URN: "urn:b", Operational: "geni_failed", Error: "no memory"}}}, 1, "a failed: disk full\nurn:b failed: no memory"},
		{"slivers vanish", Running, []any{[]Sliver{sliverIn("a", am.Configuring)}, []Sliver{}}, 2, "no slivers any more"},
		{"deleted", Gone, []any{[]Sliver{sliverIn("a", am.Failed)}, []Sliver{}}, 2, ""},
		{"a busy aggregate is asked again", Running, []any{busy, []Sliver{sliverIn("a", am.Ready)}}, 2, ""},
		{"a refusal ends it", Running, []any{am.Errorf(am.Forbidden, "not you")}, 1, "not you"},
		{"an aggregate that does not answer is given up", Running, []any{gone}, pollErrors, "connection refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				polls := 0
				_, err := Wait(t.Context(), func(context.Context) ([]Sliver, error) {
					answer := tt.answers[min(polls, len(tt.answers)-1)]
					polls++
					if err, ok := answer.(error); ok {
						return nil, err
					}
					return answer.([]Sliver), nil
				}, tt.wanted, nil)
				if got := ""; err != nil {
					got = err.Error()
					if tt.fails == "" || !strings.Contains(got, tt.fails) {
						t.Errorf("fails with %q, want %q", got, tt.fails)
					}
				} else if tt.fails != "" {
					t.Errorf("succeeds, want %q", tt.fails)
				}
				if polls != tt.polls {
					t.Errorf("polled %d times, want %d", polls, tt.polls)
				}
			})
		})
	}
}

// TestWaitEndsWithItsContext checks that Wait ends with the cause of its context.
func TestWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		enough := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		reports := 0
		_, err := Wait(ctx, func(context.Context) ([]Sliver, error) { return []Sliver{sliverIn("a", am.Configuring)}, nil }, Running, func([]Sliver) {
			if reports++; reports == 3 {
				cancel(enough)
			}
		})
		if !errors.Is(err, enough) || reports != 3 {
			t.Errorf("after %d reports: %v", reports, err)
		}
	})
}
