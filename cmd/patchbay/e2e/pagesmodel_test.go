package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/am/client"
	"patchbay/am/testkit/require"
	"patchbay/am/testkit/wait"
)

// pagesModel is what pages and API must say about one experiment: the states of its nodes, in the words of pages, and its end.
type pagesModel struct {
	nodes map[string]string
	end   time.Time
}

var (
	nodeRow = regexp.MustCompile(`<td data-label="Node"[^>]*><b>([^<]*)</b></td>\s*<td data-label="State"><span class="state [^"]*">([^<]*)</span>`)
	endTime = regexp.MustCompile(`It ends <time datetime="([^"]*)"`)
)

// readPage returns what a page says.
func (v *visitor) readPage(path string) (m pagesModel) {
	v.t.Helper()
	a := v.get(path)
	if a.status != http.StatusOK {
		v.t.Fatalf("%s: %d %s", path, a.status, a.text)
	}
	m.nodes = map[string]string{}
	for _, row := range nodeRow.FindAllStringSubmatch(a.text, -1) {
		m.nodes[row[1]] = row[2]
	}
	if found := endTime.FindStringSubmatch(a.text); found != nil {
		m.end, _ = time.Parse(time.RFC3339, found[1])
	}
	return m
}

// readStatus returns what the API says.
func (in *auditUser) readStatus(t testing.TB) (m pagesModel, urns map[string]string) {
	t.Helper()
	m.nodes, urns = map[string]string{}, map[string]string{}
	a, _, err := in.Status(t.Context(), []string{in.SliceURN}, in.ForSlice(), client.Options{})
	if err != nil && !strings.Contains(err.Error(), "SEARCHFAILED") {
		t.Fatal(err)
	}
	for _, x := range a.Slivers {
		word := map[string]string{"geni_ready": "ready", "geni_notready": "stopped"}[x.Operational]
		if word == "" {
			word = x.Allocation + " " + x.Operational
		}
		m.nodes[x.ClientID], urns[x.ClientID] = word, x.URN
		if m.end.IsZero() || x.Expires.Before(m.end) {
			m.end = x.Expires
		}
	}
	return m, urns
}

// TestPagesAgreeWithCalls changes an experiment by random pages and calls. After each change, a model, the API and the page must
// say the same.
func TestPagesAgreeWithCalls(t *testing.T) {
	t.Parallel()
	s := newServedSite(t, "testbed.example.org", nil, nil)
	s.appendSettings(instantNodes)
	s.createUser("alice")
	s.start()
	api, web := s.newAuditUser("alice"), s.signIn("user", "alice", "--link")
	rnd := rand.New(rand.NewPCG(require.Seed(t), 3))
	const page = "/ui/experiment/-/alice"
	model := pagesModel{nodes: map[string]string{}}
	all := []string{api.SliceURN}
	ok := func(what string, a webAnswer) {
		t.Helper()
		if a.status != http.StatusSeeOther {
			t.Fatalf("%s: %d %s", what, a.status, a.text)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for step := range 40 {
		byPage, what := rnd.IntN(2) == 0, ""
		_, urns := api.readStatus(t)
		names := slices.Sorted(maps.Keys(model.nodes))
		switch n := rnd.IntN(4); {
		case len(names) == 0:
			what = "start"
			for i := range 1 + rnd.IntN(3) {
				model.nodes[fmt.Sprintf("n%d", i)] = "ready"
			}
			if byPage {
				model.end = time.Now().Add(time.Hour)
				ok(what, web.post("/ui/start", "name", "alice", "project", "-", "text", vmRequest(len(model.nodes)), "life", "1h", "do", "start"))
				break
			}
			model.end = time.Now().Add(2 * time.Hour)
			_, _, err := api.Allocate(t.Context(), api.SliceURN, api.ForSlice(), vmRequest(len(model.nodes)), client.Options{})
			must(err)
			_, _, err = api.Provision(t.Context(), all, api.ForSlice(), client.Options{End: model.end})
			must(err)
			_, err = api.act(t, all, "geni_start")
			must(err)
		case n == 0:
			what = "end"
			model = pagesModel{nodes: map[string]string{}}
			if byPage {
				ok(what, web.post(page+"/end"))
			} else {
				api.remove(t)
			}
		case n == 1:
			what = "extend"
			if byPage {
				model.end = model.end.Add(time.Hour)
				ok(what, web.post(page+"/extend", "for", "1h"))
				break
			}
			model.end = model.end.Add(30 * time.Minute)
			_, _, err := api.Renew(t.Context(), all, api.ForSlice(), model.end, client.Options{})
			must(err)
		default:
			name := names[rnd.IntN(len(names))]
			what = "start " + name
			action := "start"
			if model.nodes[name] == "ready" {
				what, action, model.nodes[name] = "stop "+name, "stop", "stopped"
			} else {
				model.nodes[name] = "ready"
			}
			if byPage {
				ok(what, web.post(page+"/act", "node", name, "do", action))
			} else {
				_, err := api.act(t, []string{urns[name]}, "geni_"+action)
				must(err)
			}
		}
		var calls, shown pagesModel
		wait.Clear(t, func() string {
			calls, _ = api.readStatus(t)
			shown = web.readPage(page)
			for source, got := range map[string]pagesModel{"the API": calls, "the page": shown} {
				if !maps.Equal(got.nodes, model.nodes) {
					return fmt.Sprintf("step %d, %s (by page: %v): %s says %v, not %v", step, what, byPage, source, got.nodes, model.nodes)
				}
			}
			return ""
		})
		if !calls.end.Equal(shown.end) || calls.end.Sub(model.end).Abs() > time.Minute && len(model.nodes) > 0 {
			t.Fatalf("step %d, %s (by page: %v): the end is %s by the API, %s by the page, and %s by the model", step, what, byPage, calls.end, shown.end, model.end)
		}
		model.end = calls.end
	}
}

// vmRequest returns a request of n virtual machines.
func vmRequest(n int) string {
	var nodes strings.Builder
	for i := range n {
		fmt.Fprintf(&nodes, `<node client_id="n%d" exclusive="false"><sliver_type name="vm"/></node>`, i)
	}
	return `<rspec type="request" xmlns="http://www.geni.net/resources/rspec/3">` + nodes.String() + `</rspec>`
}

func (in *auditUser) act(t testing.TB, urns []string, action string) ([]client.Sliver, error) {
	t.Helper()
	list, _, err := in.PerformOperationalAction(t.Context(), urns, in.ForSlice(), action, client.Options{})
	return list, err
}
