package api

import (
	"context"
	"slices"
	"strings"
	"testing"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/service/binder"
	"patchbay/am/store"
	"patchbay/rspec"
	"patchbay/rspec/compile"
)

// causes are the codes with which an aggregate without slivers refuses a request.
var causes = []am.Code{am.BadArgs, am.BadVersion, am.SearchFailed, am.Unsupported, am.TooBig, am.Refused}

// previewed compares a refusal of Allocate or CreateSliver with Preview, by which patchbay check
// explains a request: the code and the text must be the same. So every refusal in the tests of this
// package is a row of the comparison, if the site has neither slivers nor a policy.
func (s *site) previewed(body []byte, code am.Code, output string) {
	s.t.Helper()
	call, err := xmlrpc.DecodeCall(body, xmlrpc.Limits{})
	if err != nil || call.Method != "Allocate" && call.Method != "CreateSliver" || len(call.Params) < 4 || !slices.Contains(causes, code) || s.previewer == nil {
		return
	}
	text, isText := call.Params[2].(string)
	empty := true
	err = s.store.Read(func(v *store.View) error {
		v.Slices(func(am.Slice) bool { empty = false; return false })
		return nil
	})
	if err != nil || !isText || !empty && !s.previewsAlways || compile.Language([]byte(text)) != "" { // check compiles sources
		return
	}
	req, err := rspec.ParseRequest([]byte(text), s.reading)
	if err == nil {
		p, refusal := s.previewer.Preview(context.Background(), req, s.inventory.Manager)
		if err = refusal; len(p.Refused) > 0 {
			err = binder.Unsatisfied(p.Refused)
		}
	}
	if err == nil {
		for _, other := range []string{"geni_", "credential", "users", "keys", "slice ", "option", "the lease"} { // of the call, and its time
			if strings.Contains(output, other) {
				return
			}
		}
		s.t.Errorf("%s refuses with %d %q, and Preview finds nothing", call.Method, code, output)
		return
	}
	if previewed, _, text := codeOf(err, ""); previewed != code || !strings.Contains(output, oneLine(strings.Split(text, "\n")...)) {
		s.t.Errorf("%s refuses with %d %q, and Preview with %d %q", call.Method, code, output, previewed, text)
	}
}

// noSetup is a provider that refuses nodes with steps in a dry run.
type noSetup struct{ meanwhile }

func (noSetup) Probe(_ context.Context, slivers, _ []am.Sliver, _ func(am.Sliver) bool) []*am.Error {
	out := make([]*am.Error, len(slivers))
	for i := range slivers {
		if n := len(slivers[i].Setup); n > 0 {
			out[i] = am.Errorf(am.Unsupported, "no room for %d steps", n)
		}
	}
	return out
}

// TestDryRunsCarryTheSetup proves, for Allocate and for Preview (see previewed), that providers see the
// steps of a node, also of a compiled one, before anything is reserved.
func TestDryRunsCarryTheSetup(t *testing.T) {
	set := compiling
	set.prober = noSetup{meanwhile{func() {}}}
	set.world(t, "plain", request(node("a")), "steps", request(`<node client_id="a"><services><execute shell="sh" command="true"/></services></node>`), "radl", radlRequest(cloudInit)).play(`
		alice owns s1 1h
		alice owns s2 1h
		alice Allocate s1 $steps -> UNSUPPORTED 'it cannot be made: no room for 1 steps'
		alice Allocate s1 $radl -> UNSUPPORTED 'it cannot be made: no room for 1 steps'
		alice Allocate s2 $plain
	`)
}
