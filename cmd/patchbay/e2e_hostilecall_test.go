package main

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"testing"

	"patchbay/am"
	"patchbay/am/xmlrpc"
)

// postAttack returns a case that posts one body, and requires one of the outcomes in want
// with a short message.
func postAttack(name, want string, body func(t *testing.T, s *hostileTest) string) attack {
	return attack{name, func(t *testing.T, s *hostileTest) {
		got, output := s.outcome(s.bad.http, strings.NewReader(body(t, s)))
		if !strings.Contains(", "+want+", ", ", "+got+", ") {
			t.Errorf("%s: %.300s; want %s", got, output, want)
		}
		if len(output) > 16<<10 {
			t.Errorf("%d bytes to tell of %s: %.300s …", len(output), got, output)
		}
	}}
}

// getVersionWith returns a call of GetVersion with one parameter.
func getVersionWith(value string) string {
	return "<methodCall><methodName>GetVersion</methodName><params><param>" + value + "</param></params></methodCall>"
}

// expandingEntities declares nine entities, each of which is ten times the one before.
func expandingEntities(root, inside string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<?xml version=\"1.0\"?>\n<!DOCTYPE %s [<!ENTITY l0 \"lol\">", root)
	for i := range 9 {
		fmt.Fprintf(&b, "<!ENTITY l%d \"%s\">", i+1, strings.Repeat(fmt.Sprintf("&l%d;", i), 10))
	}
	return b.String() + "]>\n" + inside
}

// base64Text encodes a text in base64.
func base64Text(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// deflatedZeros returns compressed data that inflates to n zeros.
func deflatedZeros(n int) string {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	zeros := make([]byte, 1<<20)
	for range n >> 20 {
		z.Write(zeros)
	}
	z.Close()
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

// callAttacks returns the cases in XML-RPC, with a valid certificate.
func callAttacks() []attack {
	const empty = "<value><struct></struct></value>"
	var all []attack
	for _, x := range []struct{ name, want, body string }{
		{"no body", "fault", ""},
		{"blanks only", "fault", strings.Repeat(" \n", largeSize)},
		{"a byte order mark only", "fault", "\ufeff"},
		{"16 MB of <", "fault", strings.Repeat("<", 16*largeSize)},
		{"16 MB of &", "fault", strings.Repeat("&", 16*largeSize)},
		{"5 million start tags", "fault", strings.Repeat("<a>", 5*largeSize)},
		{"an answer instead of a call", "fault", "<methodResponse><params><param>" + empty + "</param></params></methodResponse>"},
		{"two calls", "fault", getVersionWith(empty) + getVersionWith(empty)},
		{"UTF-16", "fault", "\xff\xfe<\x00m\x00"},
		{"UTF-7 declared", "fault", `<?xml version="1.0" encoding="UTF-7"?>` + getVersionWith(empty)},
		{"bytes that are not UTF-8", "fault", getVersionWith("<value>\xc3\x28</value>")},
		{"UTF-8 that is longer than it must be", "fault", getVersionWith("<value>\xc0\xae\xc0\xae</value>")},
		{"NUL", "fault", getVersionWith("<value>a\x00b</value>")},
		{"a reference to NUL", "fault", getVersionWith("<value>&#0;</value>")},
		{"a reference to a surrogate", "fault", getVersionWith("<value>&#xD800;</value>")},
		{"a reference beyond Unicode", "fault", getVersionWith("<value>&#x110000;</value>")},
		{"a reference of 1 MB", "fault, code 1", getVersionWith("<value>&#x" + strings.Repeat("0", largeSize) + "41;</value>")},
		{"DOCTYPE", "fault", `<!DOCTYPE methodCall>` + getVersionWith(empty)},
		{"an external entity", "fault", `<!DOCTYPE methodCall [<!ENTITY x SYSTEM "file:///etc/passwd">]>` + getVersionWith("<value>&x;</value>")},
		{"a parameter entity", "fault", `<!DOCTYPE methodCall [<!ENTITY % x SYSTEM "http://127.0.0.1:1/x.dtd"> %x;]>` + getVersionWith(empty)},
		{"a billion laughs", "fault", expandingEntities("methodCall", getVersionWith("<value>&l9;</value>"))},
		{"arrays in each other, 100,000 deep", "fault", getVersionWith(strings.Repeat("<value><array><data>", 100000) + strings.Repeat("</data></array></value>", 100000))},
		{"arrays in each other, 33 deep", "fault", getVersionWith(strings.Repeat("<value><array><data>", 33) + strings.Repeat("</data></array></value>", 33))},
		{"structs in each other, 100,000 deep and not ended", "fault", getVersionWith(strings.Repeat("<value><struct><member><name>a</name>", 100000))},
		{"300,000 values", "fault", getVersionWith("<value><array><data>" + strings.Repeat("<value/>", 300000) + "</data></array></value>")},
		{"150,000 members", "code 0", getVersionWith("<value><struct>" + repeated(150000, "<member><name>%d</name><value/></member>") + "</struct></value>")},
		{"a member named twice", "fault", getVersionWith("<value><struct>" + strings.Repeat("<member><name>a</name><value/></member>", 2) + "</struct></value>")},
		{"100,000 parameters", "fault", "<methodCall><methodName>GetVersion</methodName><params>" + strings.Repeat("<param>"+empty+"</param>", 100000) + "</params></methodCall>"},
		{"an integer of 1 MB", "fault", getVersionWith("<value><int>" + strings.Repeat("9", largeSize) + "</int></value>")},
		{"a double of 1 MB", "fault, code 1", getVersionWith("<value><double>" + strings.Repeat("9", largeSize) + "</double></value>")},
		{"a double with an exponent of 1 MB", "fault, code 1", getVersionWith("<value><double>1e" + strings.Repeat("9", largeSize) + "</double></value>")},
		{"a time of 1 MB", "fault", getVersionWith("<value><dateTime.iso8601>" + strings.Repeat("2", largeSize) + "</dateTime.iso8601></value>")},
		{"base64 that is none", "fault", getVersionWith("<value><base64>" + strings.Repeat("*", largeSize) + "</base64></value>")},
		{"10 MB of base64", "code 1, fault", getVersionWith("<value><base64>" + strings.Repeat("AAAA", 10*largeSize/4) + "</base64></value>")},
		{"a comment of 10 MB that does not end", "fault", "<!--" + strings.Repeat("- ", 5*largeSize)},
		{"10 MB of ]", "code 1, fault", getVersionWith("<value><string><![CDATA[" + strings.Repeat("]", 10*largeSize) + "]]></string></value>")},
		{"a million comments", "code 0", strings.Repeat("<!---->", largeSize) + getVersionWith(empty)},
		{"a million processing instructions", "code 0", strings.Repeat("<?a?>", largeSize) + getVersionWith(empty)},
		{"100,000 attributes", "fault", "<methodCall" + repeated(100000, ` a%d=""`) + ">" + strings.TrimPrefix(getVersionWith(empty), "<methodCall>")},
		{"an attribute of 10 MB", "fault", `<methodCall a="` + strings.Repeat("x", 10*largeSize) + `">` + strings.TrimPrefix(getVersionWith(empty), "<methodCall>")},
		{"a tag of 10 MB", "fault", "<" + strings.Repeat("x", 10*largeSize) + ">"},
		{"a method of 1 MB", "fault", "<methodCall><methodName>" + strings.Repeat("x", largeSize) + "</methodName></methodCall>"},
		{"a method with lines for the log", "fault", "<methodCall><methodName>GetVersion\n" + injectionMark + " time=2030-01-01\n</methodName></methodCall>"},
		{"a method for a shell", "fault", "<methodCall><methodName>$(reboot)`reboot`;reboot</methodName></methodCall>"},
		{"a method with formats", "fault", "<methodCall><methodName>%s%n%x%!d(string=hi)</methodName></methodCall>"},
		{"a method of the library", "fault", "<methodCall><methodName>system.multicall</methodName></methodCall>"},
		{"nil", "code 0, code 1, fault", getVersionWith("<value><nil/></value>")},
	} {
		all = append(all, postAttack(x.name, x.want, func(*testing.T, *hostileTest) string { return x.body }))
	}
	list := func(name, want string, options xmlrpc.Struct) attack {
		return postAttack(name, want, func(t *testing.T, s *hostileTest) string {
			return encoded(t, "ListResources", s.bad.creds(string(s.bad.Credential)), append(rspec3("GENI"), options...))
		})
	}
	named := func(name, want, method string, urns func() []xmlrpc.Value) attack {
		return postAttack(name, want, func(t *testing.T, s *hostileTest) string {
			return encoded(t, method, urns(), s.bad.creds(s.bad.cred), rspec3("GENI"))
		})
	}
	times := func(n int, u string) func() []xmlrpc.Value {
		return func() (all []xmlrpc.Value) {
			for i := range n {
				all = append(all, fmt.Sprintf("%s%d", u, i))
			}
			return all
		}
	}
	const sliver = "urn:publicid:IDN+testbed.example.org+sliver+"
	return append(all,
		list("10,000 options that do not exist", "code 0", func() (o xmlrpc.Struct) {
			for i := range 10000 {
				o = append(o, option(fmt.Sprint("x", i), strings.Repeat("y", 100)))
			}
			return o
		}()),
		list("compressed, in a word", "code 1", xmlrpc.Struct{option("geni_compressed", "perhaps")}),
		list("compressed, in 1 MB", "code 1", xmlrpc.Struct{option("geni_compressed", strings.Repeat("1", largeSize))}),
		list("compressed, in a struct", "code 1", xmlrpc.Struct{option("geni_compressed", xmlrpc.Struct{option("a", 1)})}),
		list("compressed, 2", "code 1", xmlrpc.Struct{option("geni_compressed", 2)}),
		list("compressed, and asked for as it should be", "code 0", xmlrpc.Struct{option("geni_compressed", true)}),
		postAttack("an RSpec of an unknown kind, with lines for the log", "code 4", func(t *testing.T, s *hostileTest) string {
			return encoded(t, "ListResources", s.bad.creds(string(s.bad.Credential)), rspec3("x\n"+injectionMark))
		}),
		named("10,001 slivers", "code 1, code 6", "Status", times(10001, sliver)),
		named("100,000 slivers", "code 1, code 6", "Describe", times(100000, sliver)),
		named("a sliver of 1 MB", "code 1, code 3, code 12", "Status", func() []xmlrpc.Value { return urns(sliver + strings.Repeat("x", largeSize)) }),
		named("a sliver whose name is a path", "code 1, code 3, code 12", "Delete", func() []xmlrpc.Value { return urns(sliver + "../../state.db") }),
		named("a sliver with NUL", "code 1, code 3, code 12", "Delete", func() []xmlrpc.Value { return urns(sliver + "a%00b") }),
		named("a sliver with lines for the log", "code 1, code 3, code 12", "Delete", func() []xmlrpc.Value { return urns(sliver + "a\n" + injectionMark + "\r\n" + injectionMark) }),
		named("a slice of another authority", "code 3", "Status", func() []xmlrpc.Value { return urns("urn:publicid:IDN+other.example.org+slice+x") }),
		named("no slivers at all", "code 1", "Status", func() []xmlrpc.Value { return nil }),
		attack{"times beyond all calendars", checkExtremeTimes},
		attack{"somebody else's slice", checkForeignSlices},
	)
}

// repeated returns a text for each number below n.
func repeated(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// checkExtremeTimes requests leases beyond any credential and any clock.
func checkExtremeTimes(t *testing.T, s *hostileTest) {
	for _, end := range []xmlrpc.Value{
		"99999999999999-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "0000-00-00T00:00:00Z", "1969-01-01T00:00:00Z", "2030-02-30T00:00:00Z",
		"2030-01-01T25:00:00Z", strings.Repeat("2", 1<<20), -1, "now", "", "2030-01-01T00:00:00." + strings.Repeat("9", 1<<20) + "Z", xmlrpc.Struct{},
	} {
		got, output := s.outcome(s.bad.http, strings.NewReader(encoded(t, "Renew", urns(s.bad.slice), s.bad.creds(s.bad.cred), end, xmlrpc.Struct{})))
		if got != "code 1" && got != "code 7" && got != "code 12" {
			t.Errorf("Renew to %.50v: %s %.300s", end, got, output)
		}
	}
}

// checkForeignSlices calls every method about the working user's slice with the hostile
// user's credentials.
func checkForeignSlices(t *testing.T, s *hostileTest) {
	v := *s.good.wireClient
	v.t = t
	made := v.want("Allocate", am.Success, s.good.slice, v.creds(s.good.cred), soakRequest, xmlrpc.Struct{})
	sliver := sliverNames(v.slivers(made))[0]
	for _, name := range []string{s.good.slice, sliver} {
		for _, creds := range [][]xmlrpc.Value{
			s.bad.creds(s.bad.cred), s.bad.creds(string(s.bad.Credential)), s.bad.creds(s.good.cred), s.bad.creds(s.bad.cred, s.good.cred), {},
		} {
			for method, params := range map[string][]xmlrpc.Value{
				"Status": {urns(name), creds, xmlrpc.Struct{}}, "Describe": {urns(name), creds, rspec3("GENI")},
				"Provision": {urns(name), creds, rspec3("GENI")}, "Renew": {urns(name), creds, "2030-01-01T00:00:00Z", xmlrpc.Struct{}},
				"PerformOperationalAction": {urns(name), creds, "geni_start", xmlrpc.Struct{}},
				"Delete":                   {urns(name), creds, xmlrpc.Struct{}}, "Shutdown": {name, creds, xmlrpc.Struct{}},
			} {
				got, output := s.outcome(s.bad.http, strings.NewReader(encoded(t, method, params...)))
				if got != "code 3" && got != "code 1" && (got != "code 12" || name != sliver) {
					t.Errorf("%s of %s: %s %.300s", method, name, got, output)
				}
			}
		}
	}
	v.want("Delete", am.Success, urns(s.good.slice), v.creds(s.good.cred), xmlrpc.Struct{})
}

// crowdAttacks returns the cases with many concurrent connections.
func crowdAttacks(connections int) []attack {
	return []attack{
		{"100 calls of one caller at once", func(t *testing.T, s *hostileTest) {
			list := encoded(t, "ListResources", s.bad.creds(string(s.bad.Credential)), rspec3("GENI"))
			s.postConcurrently(t, 100, list, "code 0, code -32001")
		}},
		{"100 reservations of one slice at once", func(t *testing.T, s *hostileTest) {
			s.postConcurrently(t, 100, encoded(t, "Allocate", s.bad.slice, s.bad.creds(s.bad.cred), soakRequest, xmlrpc.Struct{}), "code 0, code 14, code 17, code -32001")
			s.outcome(s.bad.http, strings.NewReader(encoded(t, "Delete", urns(s.bad.slice), s.bad.creds(s.bad.cred), xmlrpc.Struct{})))
		}},
		{"24 calls of 8 MB at once", func(t *testing.T, s *hostileTest) {
			s.postConcurrently(t, 24, getVersionWith("<value><string>"+strings.Repeat("x", 8<<20)+"</string></value>"), "code 1, code -32001, cut")
		}},
		{"50 certificates of one person", func(t *testing.T, s *hostileTest) {
			list := encoded(t, "ListResources", s.bad.creds(string(s.bad.Credential)), rspec3("GENI"))
			var wg sync.WaitGroup
			for range 50 {
				id := s.forged.issuedByAuthority(s.forged.newECKey(), nil)
				wg.Go(func() {
					if got, output := s.outcome(s.httpClientOf(t, id), strings.NewReader(list)); got != "code 0" && got != "code -32001" {
						t.Errorf("%s %.300s", got, output)
					}
				})
			}
			s.wantWorking(t)
			wg.Wait()
		}},
		{fmt.Sprintf("%d connections", connections), func(t *testing.T, s *hostileTest) { s.flood(t, connections) }},
	}
}
