package api

import (
	"encoding/base64"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
)

// xmlOf is a value on the wire.
func xmlOf(t *testing.T, v xmlrpc.Value) string {
	t.Helper()
	body, err := xmlrpc.AppendResponse(nil, v)
	if err != nil {
		t.Fatal(err)
	}
	s := string(body)
	return s[strings.Index(s, "<value>"):strings.LastIndex(s, "</param>")]
}

// hostile are unusual values in their XML form.
var hostile = map[string]string{
	"nil":       "<value><nil/></value>",
	"int":       "<value><int>7</int></value>",
	"negative":  "<value><int>-2147483648</int></value>",
	"zero":      "<value><int>0</int></value>",
	"bool":      "<value><boolean>1</boolean></value>",
	"double":    "<value><double>1.5</double></value>",
	"time":      "<value><dateTime.iso8601>20300101T00:00:00</dateTime.iso8601></value>",
	"base64":    "<value><base64>" + base64.StdEncoding.EncodeToString([]byte("\xff\xfe\x00x\n\r\u0000")) + "</base64></value>",
	"empty":     "<value></value>",
	"blank":     "<value><string> \n\t </string></value>",
	"text":      "<value>x</value>",
	"lines":     "<value><string>a&#10;b&#13;c&#9;\u00e4\U0001F600 &lt;/value&gt;</string></value>",
	"struct":    "<value><struct></struct></value>",
	"struct2":   "<value><struct><member><name>urn</name><value>x</value></member><member><name>keys</name><value>k</value></member></struct></value>",
	"array":     "<value><array><data></data></array></value>",
	"array1":    "<value><array><data><value><int>1</int></value></data></array></value>",
	"arraynil":  "<value><array><data><value><nil/></value></data></array></value>",
	"arraytext": "<value><array><data><value>\u00e4\u2028x</value></data></array></value>",
	"arrays":    "<value>" + strings.Repeat("<array><data><value>", 20) + strings.Repeat("</value></data></array>", 20) + "</value>",
	"arrayuser": "<value><array><data><value><struct><member><name>urn</name><value>urn:publicid:IDN+example.org+user+a</value></member><member><name>keys</name><value><struct></struct></value></member></struct></value></data></array></value>",
	"versions":  "<value><struct><member><name>type</name><value><struct></struct></value></member><member><name>version</name><value><array><data></data></array></value></member></struct></value>",
	"sliceURN":  "<value>urn:publicid:IDN+example.org+slice+nobody</value>",
	"long":      "<value>" + strings.Repeat("\u00e4", 100000) + "</value>",
	"nodeURN":   "<value>urn:publicid:IDN+example.org+node+pc1</value>",
}

// innards are texts that no answer may contain.
var innards = regexp.MustCompile(`/(tmp|home|root|etc|usr)/|\.go:\d|goroutine|panic|0x[0-9a-f]{6}`)

// TestHostileValues calls every method with each hostile value for each argument and option, and
// with every number of arguments. Each answer is an envelope or a fault: one short line of ASCII,
// and no internal error.
func TestHostileValues(t *testing.T) {
	s := newSite(t)
	alice := s.user("alice")
	slice, cred := alice.slice("shapes", time.Hour)
	ask := func(version int, what, method string, params []string) {
		body := "<methodCall><methodName>" + method + "</methodName><params>"
		for _, p := range params {
			body += "<param>" + p + "</param>"
		}
		body += "</params></methodCall>"
		resp := s.api.Serve(t.Context(), version, Request{ID: "r1", Chain: alice.chain, Body: []byte(body)})
		what = fmt.Sprintf("v%d %s %s", version, method, what)
		if slices.ContainsFunc(resp.Body, func(c byte) bool { return c > '~' || c < ' ' && c != '\n' && c != '\t' }) {
			t.Errorf("%s: the answer is no plain ASCII", what)
		}
		output := resp.Event.Output
		if !resp.Event.Fault {
			v, err := xmlrpc.DecodeResponse(resp.Body, xmlrpc.Limits{})
			if err != nil {
				t.Errorf("%s: %v", what, err)
				return
			}
			a := openEnvelope(t, v, resp)
			if output = a.output; a.code == am.ServerError || a.code == am.DBError {
				t.Errorf("%s: code %d %v", what, a.code, resp.Event.Err)
			}
		}
		if innards.MatchString(output) || strings.ContainsAny(output, "\n\r") || len(output) > 2000 {
			t.Errorf("%s: output of %d bytes %.200q", what, len(output), output)
		}
	}
	good := map[string]xmlrpc.Value{
		"slice_urn": slice, "urns": strs(slice), "rspec": request(node("a")), "users": []xmlrpc.Value{}, "options": opts(),
		"expiration_time": FormatTime(s.clock().Add(30 * time.Minute)), "action": "geni_start",
	}
	extra := xmlOf(t, opts())
	for version, rows := range tables {
		good["credentials"] = creds(cred)
		if version == Version2 {
			good["credentials"] = strs(cred)
		}
		for _, m := range rows {
			var params []string
			for _, a := range m.args {
				params = append(params, xmlOf(t, good[a.name]))
			}
			with := func(i int, what, value string) {
				p := slices.Clone(params)
				p[i] = value
				ask(version, what, m.name, p)
			}
			for _, kind := range slices.Sorted(maps.Keys(hostile)) {
				for i, a := range m.args {
					with(i, a.name+" "+kind, hostile[kind])
				}
				for _, o := range m.options {
					if len(m.args) == 0 {
						break
					}
					options := "<value><struct><member><name>" + o.name + "</name>" + hostile[kind] + "</member>"
					if o.name != optRSpecVersion.name {
						options += "<member><name>geni_rspec_version</name>" + xmlOf(t, opts()[0].Value) + "</member>"
					}
					with(len(params)-1, "option "+o.name+" "+kind, options+"</struct></value>")
				}
			}
			for n := range len(params) + 2 {
				ask(version, fmt.Sprint(n, " arguments"), m.name, append(slices.Clone(params), extra, extra)[:n])
			}
		}
	}
}

// TestManySliversAreNamed names as many slivers as a call may name, of which one exists.
func TestManySliversAreNamed(t *testing.T) {
	b := newBench(t)
	b.put(in(b.x, "allocated"))
	urns := []string{b.x.URN.String()}
	for i := range maxTargets - 1 {
		urns = append(urns, fmt.Sprintf("urn:publicid:IDN+example.org+sliver+00000000-0000-4000-8000-%012d", i))
	}
	for _, method := range []string{"Status", "Describe", "Provision", "Delete"} {
		a := b.do(method, true, urns...).want(t, method, am.Success)
		if n := len(a.slivers(t)); n != maxTargets {
			t.Errorf("%s: %d slivers in the answer, want %d", method, n, maxTargets)
		}
	}
	b.do("Status", true, append(urns, urns[0]+"x")...).want(t, "one more", am.BadArgs)
}
