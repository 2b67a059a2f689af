package client

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/testkit/require"
)

type (
	field struct {
		name  string
		value any
	}
	fields []field
	values = []xmlrpc.Value
)

// wire converts fields to structs; fields are shorter to write.
func wire(v any) xmlrpc.Value {
	switch v := v.(type) {
	case fields:
		s := xmlrpc.Struct{}
		for _, f := range v {
			s = append(s, xmlrpc.Member{Name: f.name, Value: wire(f.value)})
		}
		return s
	case values:
		a := values{}
		for _, e := range v {
			a = append(a, wire(e))
		}
		return a
	}
	return v
}

const slice = "urn:publicid:IDN+example.org+slice+s"

var (
	creds     = []Credential{{Text: "<signed-credential/>"}, {Type: "geni_abac", Version: "1", Text: "<a/>"}}
	wireCreds = values{
		fields{{"geni_type", "geni_sfa"}, {"geni_version", "3"}, {"geni_value", "<signed-credential/>"}},
		fields{{"geni_type", "geni_abac"}, {"geni_version", "1"}, {"geni_value", "<a/>"}},
	}
	format = field{"geni_rspec_version", fields{{"type", "GENI"}, {"version", "3"}}}
	end    = time.Date(2030, 1, 2, 3, 4, 5, 678, time.FixedZone("", 3600))
)

func wireSliver(more ...field) fields {
	return append(fields{{"geni_sliver_urn", "urn:publicid:IDN+example.org+sliver+1"}, {"geni_expires", "2030-01-02T03:04:05Z"},
		{"geni_allocation_status", "geni_allocated"}}, more...)
}

// TestMethods checks for each method its parameters, their order, and how it reads an
// answer.
func TestMethods(t *testing.T) {
	sliver := Sliver{URN: "urn:publicid:IDN+example.org+sliver+1", Allocation: "geni_allocated", Expires: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)}
	full := sliver
	full.ClientID, full.Operational, full.Error = "n0", "geni_ready", "e"
	full.Begins, full.Ends, full.RenewableUntil = sliver.Expires, sliver.Expires.Add(time.Hour), sliver.Expires.Add(2*time.Hour)
	bare := values{wireSliver(field{"geni_start_time", "2030-01-02T03:04:05Z"}, field{"geni_end_time", "2030-01-02T04:04:05Z"}, field{"patchbay_renewable_until", "2030-01-02T05:04:05Z"}, field{"geni_operational_status", "geni_ready"},
		field{"geni_error", "e"}, field{"geni_client_id", "n0"})}
	urns := []string{slice}
	for _, tt := range []struct {
		method string
		call   func(context.Context, *Client) (any, Reply, error)
		sends  values
		answer xmlrpc.Value
		want   any
	}{
		{"ListResources", func(ctx context.Context, c *Client) (any, Reply, error) {
			return c.ListResources(ctx, creds, Options{Compressed: true})
		}, values{wireCreds, fields{format, {"geni_compressed", true}}}, packed("<rspec/>"), "<rspec/>"},
		{"Describe", func(ctx context.Context, c *Client) (any, Reply, error) {
			return c.Describe(ctx, urns, creds, Options{})
		}, values{values{slice}, wireCreds, fields{format}},
			fields{{"geni_urn", slice}, {"geni_rspec", packed("<rspec/>")}, {"geni_slivers", bare}}, Answer{slice, "<rspec/>", []Sliver{full}}},
		{"Allocate", func(ctx context.Context, c *Client) (any, Reply, error) {
			return c.Allocate(ctx, slice, creds, "<request/>", Options{Start: end.Add(-time.Hour), End: end, AtStart: true})
		}, values{slice, wireCreds, "<request/>", fields{{"geni_start_time", "2030-01-02T01:04:05Z"}, {"geni_end_time", "2030-01-02T02:04:05Z"}, {"patchbay_provision_at_start", true}}},
			fields{{"geni_rspec", "<rspec/>"}, {"geni_slivers", values{wireSliver()}}}, Answer{"", "<rspec/>", []Sliver{sliver}}},
		{"Provision", func(ctx context.Context, c *Client) (any, Reply, error) {
			return c.Provision(ctx, urns, creds, Options{Users: []User{{"urn:publicid:IDN+example.org+user+alice", []string{"ssh-ed25519 A a"}}}})
		}, values{values{slice}, wireCreds, fields{format,
			{"geni_users", values{fields{{"urn", "urn:publicid:IDN+example.org+user+alice"}, {"keys", values{"ssh-ed25519 A a"}}}}}}},
			fields{{"geni_rspec", "<rspec/>"}, {"geni_slivers", values{}}}, Answer{"", "<rspec/>", []Sliver{}}},
		{"Status", func(ctx context.Context, c *Client) (any, Reply, error) { return c.Status(ctx, urns, creds, Options{}) },
			values{values{slice}, wireCreds, fields{}}, fields{{"geni_urn", slice}, {"geni_slivers", bare}}, Answer{slice, "", []Sliver{full}}},
		{"Renew", func(ctx context.Context, c *Client) (any, Reply, error) {
			return c.Renew(ctx, urns, creds, end, Options{})
		}, values{values{slice}, wireCreds, "2030-01-02T02:04:05Z", fields{}}, bare, []Sliver{full}},
		{"PerformOperationalAction", func(ctx context.Context, c *Client) (any, Reply, error) {
			return c.PerformOperationalAction(ctx, urns, creds, "geni_start", Options{})
		}, values{values{slice}, wireCreds, "geni_start", fields{}}, bare, []Sliver{full}},
		{"Delete", func(ctx context.Context, c *Client) (any, Reply, error) {
			return c.Delete(ctx, urns, creds, Options{})
		}, values{values{slice}, wireCreds, fields{}}, bare, []Sliver{full}},
		{"Shutdown", func(ctx context.Context, c *Client) (any, Reply, error) {
			return c.Shutdown(ctx, slice, creds, Options{})
		}, values{slice, wireCreds, fields{}}, true, true},
	} {
		t.Run(tt.method, func(t *testing.T) {
			var got xmlrpc.Call
			s := aggregate(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				got, _ = xmlrpc.DecodeCall(body, xmlrpc.Limits{})
				w.Write(triple(tt.answer))
			})
			v, r, err := tt.call(t.Context(), newClient(t, Config{URL: s.URL}))
			if err != nil {
				t.Fatal(err)
			}
			if got.Method != tt.method || !reflect.DeepEqual(unordered(got.Params), unordered(tt.sends)) {
				t.Errorf("sent %s %v\nwant %s %v", got.Method, got.Params, tt.method, tt.sends)
			}
			if !reflect.DeepEqual(v, tt.want) {
				t.Errorf("got %#v\nwant %#v", v, tt.want)
			}
			if r.Code != am.Success || r.Took == 0 {
				t.Errorf("the reply is %+v", r)
			}
			// The same method, with an answer of the wrong type.
			_, _, err = tt.call(t.Context(), newClient(t, Config{URL: aggregate(t, answerValue(1.5)).URL}))
			if err == nil || !strings.Contains(err.Error(), tt.method+": the answer is not as the API specifies") {
				t.Errorf("got %v for a double", err)
			}
		})
	}
}

// unordered converts structs to maps, since members may have any order.
func unordered(v xmlrpc.Value) any {
	switch v := wire(v).(type) {
	case xmlrpc.Struct:
		m := map[string]any{}
		for _, e := range v {
			m[e.Name] = unordered(e.Value)
		}
		return m
	case values:
		a := []any{}
		for _, e := range v {
			a = append(a, unordered(e))
		}
		return a
	}
	return v
}

// packed compresses text like geni_compressed.
func packed(text string) string {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	io.WriteString(z, text)
	z.Close()
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

func TestMalformedSlivers(t *testing.T) {
	without := func(name string) fields {
		var s fields
		for _, m := range wireSliver() {
			if m.name != name {
				s = append(s, m)
			}
		}
		return s
	}
	for rule, tt := range map[string]struct {
		in   any
		says string
	}{
		"a struct in place of the array": {fields{}, "the slivers are a struct, not an array"},
		"nothing":                        {nil, "are nothing"},
		"a string in the array":          {values{"x"}, "sliver 1 is a string"},
		"no URN":                         {values{wireSliver(), without("geni_sliver_urn")}, "sliver 2: geni_sliver_urn is missing"},
		"no state":                       {values{without("geni_allocation_status")}, "geni_allocation_status is missing"},
		"no end":                         {values{without("geni_expires")}, "geni_expires is missing"},
		"end is no time":                 {values{append(without("geni_expires"), field{"geni_expires", "soon"})}, `not a time: "soon"`},
		"error is nil":                   {values{wireSliver(field{"geni_error", nil})}, "geni_error is nothing, not a string"},
		"error is an int":                {values{wireSliver(field{"geni_error", 0})}, "geni_error is an int, not a string"},
		"services are no array":          {values{wireSliver(field{"patchbay_services", "x"})}, "patchbay_services is a string, not an array"},
		"a service is no struct":         {values{wireSliver(field{"patchbay_services", values{1}})}, "patchbay_services: item 1 is an int, not a struct"},
		"a state is no string":           {values{wireSliver(field{"patchbay_services", values{fields{{"state", 1}}}})}, "state is an int, not a string"},
		"a link is no string":            {values{wireSliver(field{"patchbay_interfaces", values{fields{{"link", 1}}}})}, "link is an int, not a string"},
	} {
		if s, err := parseSlivers(wire(tt.in)); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: got %v, %v, want %q", rule, s, err, tt.says)
		}
	}
}

func TestParseServicesAndInterfaces(t *testing.T) {
	services := values{
		fields{{"step", 2}, {"kind", "execute"}, {"what", "true"}, {"state", "failed"}, {"exit", 7}, {"message", "m"}, {"output", "a\nb"}},
		fields{{"step", 3}, {"stage", 4}, {"operation", "start"}, {"state", "done"}, {"began", "2030-01-02T03:04:05Z"}, {"ended", "2030-01-02T03:04:07Z"}},
		fields{{"began", ""}, {"ended", "soon"}},
	}
	answer := func() values {
		return values{wireSliver(field{"geni_resource_status", "stage 2 of 3, 4 of 6 nodes; x"}, field{"patchbay_services", services},
			field{"patchbay_interfaces", values{fields{{"client_id", "n0:0"}, {"link", "lan"}, {"mac", "02:00:00:00:00:01"}, {"emulator", "tbf+vswitch"}}, fields{}}})}
	}
	x, ok := decodePlain[[]replySliver](triple(answer()))
	if !ok {
		t.Fatal("the answer is not plain")
	}
	theirs, err := sliversOf(*x.Value)
	if err != nil {
		t.Fatal(err)
	}
	services[2] = append(services[2].(fields), field{"stage", "4"}) // kolo/xmlrpc refuses it
	list, err := parseSlivers(wire(answer()))
	if err != nil || !reflect.DeepEqual(theirs, list) {
		t.Fatalf("%+v, %v\nkolo/xmlrpc reads %+v", list, err, theirs)
	}
	began := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	if got, want := list[0].Services, []Service{
		{Step: 2, Exit: 7, Kind: "execute", What: "true", State: "failed", Message: "m", Output: "a\nb"},
		{Step: 3, Stage: 4, Operation: "start", State: "done", Began: began, Ended: began.Add(2 * time.Second)},
		{},
	}; !reflect.DeepEqual(got, want) {
		t.Errorf("services %+v, want %+v", got, want)
	}
	if got, want := list[0].Interfaces, []Interface{{"n0:0", "lan", "02:00:00:00:00:01", "tbf+vswitch"}, {}}; !reflect.DeepEqual(got, want) {
		t.Errorf("interfaces %+v, want %+v", got, want)
	}
}

// TestPlanIn checks which part of a status is about a stage.
func TestPlanIn(t *testing.T) {
	for status, want := range map[string]string{
		"stage 2 of 3, 4 of 6 nodes": "stage 2 of 3, 4 of 6 nodes",
		"stage 2 of 3, 4 of 6 nodes; waits for a, b, not started; of 2, not started": "stage 2 of 3, 4 of 6 nodes; waits for a, b, not started",
		"stage 2 of 3, 4 of 6 nodes; of 2 services 1 done":                           "stage 2 of 3, 4 of 6 nodes",
		"of 2 services 1 done; stage 2 of 3, 4 of 6 nodes":                           "",
		"stage 2 has begun": "",
		"":                  "",
	} {
		list, err := parseSlivers(wire(values{wireSliver(field{"geni_resource_status", status})}))
		if err != nil {
			t.Fatal(err)
		}
		if got := list[0].Plan; got != want {
			t.Errorf("%q: %q, want %q", status, got, want)
		}
	}
	if list, err := parseSlivers(wire(values{wireSliver(field{"geni_resource_status", 5})})); err != nil || list[0].Plan != "" {
		t.Errorf("a status that is a number: %+v, %v", list, err)
	}
}

func TestMalformedAnswers(t *testing.T) {
	for rule, tt := range map[string]struct {
		in   fields
		says string
	}{
		"no URN":           {fields{{"geni_rspec", "<rspec/>"}, {"geni_slivers", values{}}}, "geni_urn is missing"},
		"no RSpec":         {fields{{"geni_urn", slice}, {"geni_slivers", values{}}}, "geni_rspec is missing"},
		"RSpec is no text": {fields{{"geni_urn", slice}, {"geni_rspec", "hello"}, {"geni_slivers", values{}}}, "neither XML nor"},
		"no slivers":       {fields{{"geni_urn", slice}, {"geni_rspec", "<rspec/>"}}, "slivers are nothing"},
	} {
		if a, err := parseAnswer(wire(tt.in), true, true); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: got %+v, %v, want %q", rule, a, err, tt.says)
		}
	}
}

func TestTimesOfAggregates(t *testing.T) {
	want := time.Date(2026, 11, 20, 22, 41, 25, 0, time.UTC)
	for _, in := range []string{"2026-11-20T22:41:25Z", "2026-11-20T22:41:25+00:00", "2026-11-20t23:41:25+01:00", "2026-11-20 22:41:25", " 2026-11-20T22:41:25z "} {
		if got, err := parseTime(in); err != nil || !got.Equal(want) {
			t.Errorf("%q: got %v, %v", in, got, err)
		}
	}
	if got, err := parseTime("2026-11-20T22:41:25.5+00:00"); err != nil || !got.Equal(want.Add(time.Second/2)) {
		t.Errorf("with a fraction: got %v, %v", got, err)
	}
}

func TestUnpack(t *testing.T) {
	for _, tt := range []struct{ rule, in, want string }{
		{"compressed", packed("<rspec/>"), "<rspec/>"},
		{"compressed, with line ends", "\n" + packed("<rspec/>")[:8] + "\r\n" + packed("<rspec/>")[8:] + "\n", "<rspec/>"},
		{"plain", " \n<rspec/>", " \n<rspec/>"},
		{"plain with a byte order mark", "\ufeff<rspec/>", "\ufeff<rspec/>"},
		{"nothing", "", ""},
	} {
		if got, err := Unpack(tt.in); err != nil || got != tt.want {
			t.Errorf("%s: got %q, %v", tt.rule, got, err)
		}
	}
	for rule, in := range map[string]string{
		"neither":   "hello world",
		"no zlib":   base64.StdEncoding.EncodeToString([]byte("<rspec/>")),
		"cut short": packed(strings.Repeat("<rspec/>", 100))[:20],
	} {
		if got, err := Unpack(in); err == nil {
			t.Errorf("%s: got %q", rule, got)
		}
	}
	bomb := packed("<" + strings.Repeat(" ", 1<<20))
	if got, err := unpack(bomb, 1<<20); err == nil || !strings.Contains(err.Error(), "larger than 1 MiB") {
		t.Errorf("more than the limit: %d bytes, %v", len(got), err)
	}
	if got, err := unpack(bomb, 1<<20+1); err != nil || len(got) != 1<<20+1 {
		t.Errorf("as much as the limit: %d bytes, %v", len(got), err)
	}
}

func TestGetVersion(t *testing.T) {
	good := fields{{"geni_api", 3}, {"geni_urn", "urn:publicid:IDN+example.org+authority+am"}, {"patchbay_change", 1}, {"patchbay_ahead", fields{{"max_seconds", 3600}, {"step_seconds", 0}}}, {"geni_api_versions", fields{{"3", "https://am.example.org/"}}}}
	v, _, err := newClient(t, Config{URL: aggregate(t, answerValue(good)).URL}).GetVersion(t.Context())
	want := Version{API: 3, URN: "urn:publicid:IDN+example.org+authority+am", AddsNodes: true, Ahead: time.Hour, Addresses: map[string]string{"3": "https://am.example.org/"}}
	if err != nil || !reflect.DeepEqual(v, want) {
		t.Errorf("got %+v, %v\nwant %+v", v, err, want)
	}
	if _, ok := decodePlain[replyVersion](triple(good)); !ok {
		t.Error("the answer is not plain")
	}
	if v, err := parseVersion(wire(good)); err != nil || !reflect.DeepEqual(v, want) {
		t.Errorf("parsed %+v, %v\nwant %+v", v, err, want)
	}
	for _, tt := range []struct {
		member string
		value  xmlrpc.Value
	}{
		{"geni_api", "3"},
		{"geni_urn", 1},
	} {
		bad := append(fields{}, good...)
		for i := range bad {
			if bad[i].name == tt.member {
				bad[i].value = tt.value
			}
		}
		if v, err := parseVersion(wire(bad)); err == nil || !strings.Contains(err.Error(), tt.member) {
			t.Errorf("%s = %v: got %+v, %v", tt.member, tt.value, v, err)
		}
	}
}

// TestCapturedAnswers reads recorded answers of another aggregate to a real client.
func TestCapturedAnswers(t *testing.T) {
	dir := require.Shared(t, "captures", "v3")
	server := func(t *testing.T, file string) *Client {
		b, err := os.ReadFile(filepath.Join(dir, file+".response.xml"))
		if err != nil {
			t.Fatal(err)
		}
		return newClient(t, Config{URL: aggregate(t, func(w http.ResponseWriter, _ *http.Request) { w.Write(b) }).URL})
	}
	urns, ctx := []string{slice}, t.Context()
	two := func(s []Sliver) bool {
		for _, s := range s {
			if s.URN == "" || s.Allocation == "" || s.Expires.IsZero() {
				return false
			}
		}
		return len(s) == 2
	}
	if v, r, err := server(t, "01-GetVersion").GetVersion(ctx); err != nil || v.API != 3 || r.AMType != "gcf" {
		t.Errorf("GetVersion: %+v, %v", v, err)
	}
	if ad, _, err := server(t, "04-ListResources").ListResources(ctx, creds, Options{Compressed: true}); err != nil || !strings.Contains(ad, `type="advertisement"`) {
		t.Errorf("ListResources: %s, %v", ad, err)
	}
	if a, _, err := server(t, "18-Describe").Describe(ctx, urns, creds, Options{}); err != nil || !two(a.Slivers) || !strings.Contains(a.RSpec, `type="manifest"`) || a.URN == "" {
		t.Errorf("Describe: %+v, %v", a, err)
	}
	if a, _, err := server(t, "08-Allocate").Allocate(ctx, slice, creds, "", Options{}); err != nil || !two(a.Slivers) || !strings.Contains(a.RSpec, "client_id") {
		t.Errorf("Allocate: %+v, %v", a, err)
	}
	if a, _, err := server(t, "12-Provision").Provision(ctx, urns, creds, Options{}); err != nil || !two(a.Slivers) || a.Slivers[0].Allocation != "geni_provisioned" {
		t.Errorf("Provision: %+v, %v", a, err)
	}
	if a, _, err := server(t, "16-Status").Status(ctx, urns, creds, Options{}); err != nil || !two(a.Slivers) || a.Slivers[0].Operational == "" {
		t.Errorf("Status: %+v, %v", a, err)
	}
	if s, _, err := server(t, "20-Renew").Renew(ctx, urns, creds, end, Options{}); err != nil || !two(s) {
		t.Errorf("Renew: %+v, %v", s, err)
	}
	if s, _, err := server(t, "14-PerformOperationalAction").PerformOperationalAction(ctx, urns, creds, "geni_start", Options{}); err != nil || !two(s) {
		t.Errorf("PerformOperationalAction: %+v, %v", s, err)
	}
	if s, _, err := server(t, "26-Delete").Delete(ctx, urns, creds, Options{}); err != nil || !two(s) || s[0].Allocation != "geni_unallocated" {
		t.Errorf("Delete: %+v, %v", s, err)
	}
	if done, _, err := server(t, "32-Shutdown").Shutdown(ctx, slice, creds, Options{}); err != nil || !done {
		t.Errorf("Shutdown: %v, %v", done, err)
	}
	if _, r, err := server(t, "28-Status").Status(ctx, urns, creds, Options{}); am.CodeOf(err) != am.SearchFailed || r.Output == "" {
		t.Errorf("Status of deleted slivers: %+v, %v", r, err)
	}
}

// FuzzAnswer checks that no answer of an aggregate makes the client panic, and that both codecs
// read the same slivers in a plain answer.
func FuzzAnswer(f *testing.F) {
	f.Add(triple(fields{{"geni_urn", slice}, {"geni_rspec", packed("<rspec/>")}, {"geni_slivers", values{wireSliver()}}}))
	f.Add(triple(fields{{"geni_api", 3}, {"geni_api_versions", fields{{"3", "u"}}}, {"geni_request_rspec_versions", values{}}}))
	f.Add(xmlrpc.AppendFault(nil, &xmlrpc.Fault{Code: 1, Text: "x"}))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := xmlrpc.DecodeResponse(b, xmlrpc.Limits{})
		if err != nil {
			return
		}
		r, err := parseReply(v)
		if err != nil {
			return
		}
		if (r.Code == am.Success) != (r.Err() == nil) {
			t.Errorf("code %v, error %v", r.Code, r.Err())
		}
		ours, err := parseAnswer(r.Value, true, true)
		if x, ok := decodePlain[replyAnswer](b); ok && err == nil {
			if theirs, err := x.Value.answer(true, true); err == nil && !reflect.DeepEqual(theirs, ours) {
				t.Errorf("%+v\nours: %+v", theirs, ours)
			}
		}
		parseSlivers(r.Value)
		parseVersion(r.Value)
	})
}
