package experimenter

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/client"
	"patchbay/am/client/experiment"
	"patchbay/am/client/session"
	"patchbay/am/client/userfolder"
	"patchbay/am/site"
	"patchbay/am/testkit/program"
	"patchbay/cmd/patchbay/command"
)

// failingAggregate has two nodes of a slice, keep and change, and answers one method with
// an error. After a Delete change is gone. With inPlace, it carries out changes: after an Allocate with
// a node add, that one exists, even if the answer is an error.
type failingAggregate struct {
	t                       *testing.T
	fails                   string
	inPlace, deleted, added bool
	down                    bool // each call fails
	allocated               int
}

func (a *failingAggregate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		a.t.Error(err)
	}
	call, err := xmlrpc.DecodeCall(body, xmlrpc.Limits{})
	if err != nil {
		a.t.Error(err)
	}
	code, value := am.Success, xmlrpc.Value(xmlrpc.Struct{})
	var slivers []xmlrpc.Value
	manifest := `<rspec type="manifest" xmlns="http://www.geni.net/resources/rspec/3">`
	if call.Method == "Allocate" {
		a.allocated++
		a.added = a.added || a.inPlace && strings.Contains(call.Params[2].(string), `"add"`)
		a.down = a.fails == "answer"
	}
	for _, name := range []string{"keep", "change", "add"} {
		if name == "keep" || name == "change" && !a.deleted || name == "add" && a.added {
			manifest += `<node client_id="` + name + `" sliver_id="urn:publicid:IDN+example.org+sliver+` + name + `"/>`
			slivers = append(slivers, xmlrpc.Struct{
				{Name: "geni_sliver_urn", Value: "urn:publicid:IDN+example.org+sliver+" + name}, {Name: "geni_client_id", Value: name},
				{Name: "geni_allocation_status", Value: "geni_provisioned"}, {Name: "geni_operational_status", Value: "geni_ready"}, {Name: "geni_expires", Value: "2030-01-01T00:00:00Z"},
			})
		}
	}
	switch {
	case call.Method == a.fails || a.down:
		code = am.Refused
	case call.Method == "GetVersion":
		change := map[bool]int{true: 2}[a.inPlace]
		value = xmlrpc.Struct{{Name: "geni_api", Value: 3}, {Name: "urn", Value: "urn:publicid:IDN+example.org+authority+cm"}, {Name: "patchbay_change", Value: change}}
	case call.Method == "Status" && a.deleted:
		code = am.SearchFailed
	case call.Method == "Describe", call.Method == "Status":
		value = xmlrpc.Struct{{Name: "geni_urn", Value: "urn:publicid:IDN+example.org+slice+s"}, {Name: "geni_rspec", Value: manifest + "</rspec>"}, {Name: "geni_slivers", Value: slivers}}
	case call.Method == "Delete":
		a.deleted, value = true, []xmlrpc.Value{}
	case call.Method == "Allocate":
		value = xmlrpc.Struct{{Name: "geni_rspec", Value: ""}, {Name: "geni_slivers", Value: []xmlrpc.Value{}}}
	}
	text, err := xmlrpc.AppendResponse(nil, xmlrpc.Struct{
		{Name: "code", Value: xmlrpc.Struct{{Name: "geni_code", Value: int(code)}}}, {Name: "value", Value: value}, {Name: "output", Value: ""},
	})
	if err != nil {
		a.t.Error(err)
	}
	w.Write(text)
}

const keptRequest = `<rspec type="request" xmlns="http://www.geni.net/resources/rspec/3"><node client_id="keep"/><node client_id="change"/></rspec>`

// TestUpStoresTheRequestOfExistingNodes proves that a failed up stores the request of the
// existing nodes: the old one until changed nodes are deleted, then the new one.
// Otherwise the next up would compare nodes with the wrong request.
func TestUpStoresTheRequestOfExistingNodes(t *testing.T) {
	changed := strings.Replace(keptRequest, `"change"/>`, `"change"><!-- another --></node>`, 1)
	for _, tt := range []struct{ fails, kept string }{{"Delete", keptRequest}, {"Allocate", changed}, {"Status", keptRequest}} {
		x, file := sliceAt(t, &failingAggregate{t: t, fails: tt.fails})
		if err := (&upOptions{Yes: true}).apply(t.Context(), &opened{x.Session, command.Console{Out: io.Discard, Err: io.Discard}}, x, []byte(changed)); err == nil {
			t.Errorf("%s fails, and up succeeds", tt.fails)
		}
		if got := program.ReadFile(t, file); got != tt.kept {
			t.Errorf("when %s fails, the request that is kept is\n%s\nwant\n%s", tt.fails, got, tt.kept)
		}
	}
}

// sliceAt returns a slice whose stored request is keptRequest, and the file of that request.
func sliceAt(t *testing.T, a *failingAggregate) (*session.Slice, string) {
	s := httptest.NewTLSServer(a)
	t.Cleanup(s.Close)
	c, err := client.New(client.Config{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	in := &session.Session{Choice: session.Selection{Site: new(session.ChosenSite)}, Messages: io.Discard, Dir: t.TempDir()}
	x := &session.Slice{Experiment: &experiment.Experiment{Client: c, Slice: "urn:publicid:IDN+example.org+slice+s", Progress: func(experiment.Phase, []client.Sliver) {}}, Session: in, Name: "s"}
	file := x.Session.SliceFile("s", ".request.xml")
	if err := site.ReplaceFile(file, []byte(keptRequest), 0o600); err != nil {
		t.Fatal(err)
	}
	return x, file
}

// TestUpContinuesAfterALostAnswer interrupts up, or its connection, after the aggregate has carried
// out Allocate and before up gets the answer. The next up deletes nothing.
func TestUpContinuesAfterALostAnswer(t *testing.T) {
	add := strings.Replace(keptRequest, `</rspec>`, `<node client_id="add"/></rspec>`, 1)
	inPlace := strings.Replace(keptRequest, `"keep"/>`, `"keep"><interface client_id="i"/></node><link client_id="l"><interface_ref client_id="i"/></link>`, 1)
	for _, tt := range []struct {
		name, request, fails string
		adopted              bool // before the second up changes anything
		calls                int  // of Allocate
	}{
		{"carried out", add, "answer", true, 1},
		{"not carried out", add, "Describe", false, 1},
		{"changed in place", inPlace, "answer", false, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := &failingAggregate{t: t, inPlace: true, fails: tt.fails}
			x, file := sliceAt(t, a)
			up := func() error {
				return (&upOptions{Yes: true}).apply(t.Context(), &opened{x.Session, command.Console{Out: io.Discard, Err: io.Discard}}, x, []byte(tt.request))
			}
			if err := up(); err == nil {
				t.Fatal("up succeeds without an answer")
			}
			if got := program.ReadFile(t, file); got != keptRequest {
				t.Errorf("before the answer, the stored request is\n%s", got)
			}
			a.fails, a.down = "", false
			if _, err := x.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := program.ReadFile(t, file); (got == tt.request) != tt.adopted {
				t.Errorf("the request is adopted: %v; want %v", !tt.adopted, tt.adopted)
			}
			if err := up(); err != nil {
				t.Error(err)
			}
			if a.deleted || a.allocated != tt.calls {
				t.Errorf("up deletes nodes: %v; Allocate was called %d times, want %d", a.deleted, a.allocated, tt.calls)
			}
			if got := program.ReadFile(t, file); got != tt.request || userfolder.FileExists(x.Session.SliceFile("s", session.NewRequest)) {
				t.Errorf("in the end, the stored request is\n%s", got)
			}
			if err := site.ReplaceFile(x.Session.SliceFile("s", session.NewRequest), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := x.Forget(); err != nil || userfolder.FileExists(x.Session.SliceFile("s", session.NewRequest)) || userfolder.FileExists(file) {
				t.Errorf("forget leaves a request: %v", err)
			}
		})
	}
}
