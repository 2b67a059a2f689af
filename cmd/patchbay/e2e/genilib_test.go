package e2e

import (
	"encoding/base64"
	"html"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/testkit/wait"
)

// geniLibForms makes calls as geni-lib does: credentials as base64 with an int as
// version. It checks that geni-lib can convert the advertisement and manifests. call
// checks that every answer is HTTP 200 with an envelope.
func geniLibForms(t *testing.T, s *clientTestSite) {
	old, v := s.newClient(t, "genilib", 2), s.newClient(t, "genilib", 3)
	slice, cred, _ := v.slice("genilib", 3)
	packed := func(documents ...string) (list []xmlrpc.Value) {
		for _, d := range documents {
			list = append(list, xmlrpc.Struct{option("geni_type", "geni_sfa"), option("geni_version", 3), option("geni_value", asBase64(d))})
		}
		return list
	}
	mine, grant := packed(string(v.Credential)), packed(cred)
	call := func(v *wireClient, want am.Code, method string, params ...xmlrpc.Value) xmlrpc.Value {
		t.Helper()
		a := v.post(encodeWithBase64(t, method, params...))
		if a.code != want {
			t.Fatalf("%s of version %d: code %d %.300q, want %d", method, v.version, a.code, a.output, want)
		}
		return a.value
	}

	// The advertisement, with credentials as strings, structs and base64.
	for _, list := range [][]xmlrpc.Value{mine, {asBase64(v.Credential)}, v.creds(string(v.Credential)), {string(v.Credential)}} {
		for _, x := range []*wireClient{old, v} {
			ad := x.rspec(call(x, am.Success, "ListResources", list, rspec3("GENI")), "advertisement")
			for _, n := range ad.Nodes {
				if n.Available == nil || !slices.Contains([]string{"true", "false"}, n.Available.Now) {
					t.Errorf("%s is available: %v", n.Component, n.Available)
				}
				for _, l := range n.Location {
					_, err1 := strconv.ParseFloat(l.Latitude, 64)
					_, err2 := strconv.ParseFloat(l.Longitude, 64)
					if err1 != nil || err2 != nil {
						t.Errorf("%s lies at %q, %q", n.Component, l.Latitude, l.Longitude)
					}
				}
			}
		}
	}
	// Errors are envelopes with output, which geni-lib reads.
	call(v, am.BadArgs, "ListResources", []xmlrpc.Value{}, rspec3("GENI"))
	call(v, am.BadVersion, "ListResources", mine, xmlrpc.Struct{option("geni_rspec_version", xmlrpc.Struct{option("type", "GENI"), option("version", 99)})})
	call(v, am.SearchFailed, "Status", urns(slice), grant, xmlrpc.Struct{})
	call(v, am.Forbidden, "Status", urns(slice), mine, xmlrpc.Struct{})

	request := requestOf(`<node client_id="n"><sliver_type name="raw-pc"/><interface client_id="n:0"/></node>`, `<node client_id="m"><sliver_type name="raw-pc"/><interface client_id="m:0"/></node>`,
		`<link client_id="l"><interface_ref client_id="n:0"/><interface_ref client_id="m:0"/></link>`)
	whole := func(manifest xmlrpc.Value, withLogin bool) {
		t.Helper()
		d := v.rspec(manifest, "manifest")
		if len(d.Nodes) != 2 {
			t.Fatalf("%d nodes", len(d.Nodes))
		}
		for _, n := range d.Nodes {
			if n.Client == "" || n.Component == "" || n.Sliver == "" || withLogin && len(n.Logins) == 0 {
				t.Errorf("node %+v", n)
			}
			for _, l := range n.Logins {
				if _, err := strconv.Atoi(l.Port); err != nil {
					t.Errorf("port %q", l.Port)
				}
			}
		}
		if withLogin {
			text := manifest.(string)
			for _, want := range []string{"<host ", `ipv4="`, ` mac_address="`, "<ip "} {
				if !strings.Contains(text, want) {
					t.Errorf("the manifest lacks %s", want)
				}
			}
		}
		if _, err := time.Parse(time.RFC3339, d.Expires); err != nil {
			t.Errorf("the manifest expires %q", d.Expires)
		}
	}
	// Its tables of aggregates mostly have URLs of version 2.
	whole(call(old, am.Success, "CreateSliver", slice, packed(cred), request, userAccounts(v.User), xmlrpc.Struct{}), false)
	wait.Until(t, "ready", func() bool {
		return member(call(old, am.Success, "SliverStatus", slice, packed(cred), xmlrpc.Struct{}), "geni_status") == "ready"
	})
	whole(call(old, am.Success, "ListResources", packed(cred), rspec3("GENI", option("geni_slice_urn", slice))), true)
	whole(member(call(v, am.Success, "Describe", urns(slice), grant, rspec3("GENI")), "geni_rspec"), true)
	later := time.Now().Add(30 * time.Hour).UTC().Format("2006-01-02T15:04:05.000000+00:00")
	call(old, am.Success, "RenewSliver", slice, packed(cred), later, xmlrpc.Struct{})
	call(v, am.Success, "Renew", urns(slice), grant, later, xmlrpc.Struct{})
	call(old, am.Success, "DeleteSliver", slice, packed(cred), xmlrpc.Struct{})
	call(old, am.SearchFailed, "DeleteSliver", slice, packed(cred), xmlrpc.Struct{})
}

// base64Mark is the prefix of text that is sent as base64.
const base64Mark = "base64:"

// asBase64 returns a document that encodeWithBase64 sends as base64.
func asBase64[T string | []byte](document T) xmlrpc.Value { return base64Mark + string(document) }

// encodeWithBase64 encodes a call whose marked strings are base64, which our own encoder
// never writes.
func encodeWithBase64(t testing.TB, method string, params ...xmlrpc.Value) string {
	t.Helper()
	b, err := xmlrpc.AppendCall(nil, xmlrpc.Call{Method: method, Params: params})
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`(?s)<string>`+base64Mark+`(.*?)</string>`).ReplaceAllStringFunc(string(b), func(s string) string {
		s = strings.TrimSuffix(strings.TrimPrefix(s, "<string>"+base64Mark), "</string>")
		return "<base64>" + base64.StdEncoding.EncodeToString([]byte(html.UnescapeString(s))) + "</base64>"
	})
}
