package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"patchbay/am"
	"patchbay/am/client"
	"patchbay/am/experiment"
	"patchbay/am/site"
	"patchbay/am/xmlrpc"
)

// failingAggregate has two nodes of a slice, keep and change, and answers one method with
// an error. After a Delete change is gone.
type failingAggregate struct {
	t       *testing.T
	fails   string
	deleted bool
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
	for _, name := range []string{"keep", "change"} {
		if name == "keep" || !a.deleted {
			slivers = append(slivers, xmlrpc.Struct{
				{Name: "geni_sliver_urn", Value: "urn:publicid:IDN+example.org+sliver+" + name}, {Name: "geni_client_id", Value: name},
				{Name: "geni_allocation_status", Value: "geni_provisioned"}, {Name: "geni_operational_status", Value: "geni_ready"}, {Name: "geni_expires", Value: "2030-01-01T00:00:00Z"},
			})
		}
	}
	switch {
	case call.Method == a.fails:
		code = am.Refused
	case call.Method == "GetVersion":
		value = xmlrpc.Struct{{Name: "geni_api", Value: 3}, {Name: "urn", Value: "urn:publicid:IDN+example.org+authority+cm"}}
	case call.Method == "Status" && a.deleted:
		code = am.SearchFailed
	case call.Method == "Describe", call.Method == "Status":
		value = xmlrpc.Struct{{Name: "geni_urn", Value: "urn:publicid:IDN+example.org+slice+s"}, {Name: "geni_rspec", Value: keptRequest}, {Name: "geni_slivers", Value: slivers}}
	case call.Method == "Delete":
		a.deleted, value = true, []xmlrpc.Value{}
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
		s := httptest.NewTLSServer(&failingAggregate{t: t, fails: tt.fails})
		defer s.Close()
		c, err := client.New(client.Config{URL: s.URL})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		dir := t.TempDir()
		x := &slice{&experiment.Experiment{Client: c, Slice: "urn:publicid:IDN+example.org+slice+s"}, &session{console: console{io.Discard, io.Discard}, flags: &experimenterFlags{}, dir: dir}, "s", ""}
		x.session.flags.site.flags = pflag.NewFlagSet("up", pflag.ContinueOnError)
		file := filepath.Join(dir, "slices", "s.request.xml")
		if err := site.ReplaceFile(file, []byte(keptRequest), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := (&upOptions{Yes: true}).apply(t.Context(), x, []byte(changed)); err == nil {
			t.Errorf("%s fails, and up succeeds", tt.fails)
		}
		if got := readFile(t, file); got != tt.kept {
			t.Errorf("when %s fails, the request that is kept is\n%s\nwant\n%s", tt.fails, got, tt.kept)
		}
	}
}
