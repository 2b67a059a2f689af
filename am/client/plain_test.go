package client

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	kolo "github.com/kolo/xmlrpc"

	"patchbay/am/api/xmlrpc"
)

// answerXML returns an answer with the XML of one value.
func answerXML(value string) []byte {
	return []byte("<?xml version='1.0'?>\n<methodResponse>\n<params><param>" + value + "</param></params></methodResponse>\n")
}

// TestBothCodecs states what each codec makes of a value. Where they differ, the answer must not be
// plain, so that typed calls use ours. err is the beginning of an error of kolo/xmlrpc.
func TestBothCodecs(t *testing.T) {
	deep := strings.Repeat("<value><array><data>", 40) + strings.Repeat("</data></array></value>", 40)
	for _, tt := range []struct {
		rule, value string
		ours, kolos any
		isPlain     bool
	}{
		{"typed text with blanks", "<value>\n<string> a\n</string></value>", " a\n", " a\n", true},
		{"non-ASCII, and escapes", "<value><string>é&#233;&lt;&amp;&#13;</string></value>", "éé<&\r", "éé<&\r", true},
		{"empty text", "<value><string></string></value>", "", nil, true},
		{"int", "<value><i4>-7</i4></value>", -7, int64(-7), true},
		{"boolean", "<value><boolean>1</boolean></value>", true, true, true},
		{"double", "<value><double>0.5</double></value>", 0.5, 0.5, true},
		{"array", "<value><array><data><value><int>1</int></value></data></array></value>", values{1}, []any{int64(1)}, true},
		{"escaped text of a member", "<value><struct><member><name>a</name><value><string>&lt;</string></value></member></struct></value>",
			xmlrpc.Struct{{Name: "a", Value: "<"}}, map[string]any{"a": "<"}, true},
		{"escaped name of a member", "<value><struct><member><name>a&amp;b</name><value><int>1</int></value></member></struct></value>",
			xmlrpc.Struct{{Name: "a&b", Value: 1}}, map[string]any{"a&b": int64(1)}, false},
		{"nil", "<value><nil/></value>", nil, nil, false},
		{"base64", "<value><base64>PGE+</base64></value>", []byte("<a>"), "PGE+", false},
		{"untyped text with blanks", "<value> <![CDATA[]]>a </value>", " a ", "a", false},
		{"untyped text", "<value> a</value>", " a", "a", false},
		{"untyped and empty, before another member", "<value><struct><member><name>a</name><value/></member><member><name>b</name><value><int>1</int></value></member></struct></value>",
			xmlrpc.Struct{{Name: "a", Value: ""}, {Name: "b", Value: 1}}, map[string]any{"a": nil}, false},
		{"CDATA", "<value><string>a<![CDATA[<b>]]>c</string></value>", "a<b>c", "a", false},
		{"comment", "<value><string>a<!-- x -->b</string></value>", "ab", "a", false},
		{"processing instruction", "<value><string>a<?x?>b</string></value>", "ab", "a", false},
		{"i8", "<value><i8>99999999999</i8></value>", 99999999999, int64(99999999999), false},
		{"dateTime", "<value><dateTime.iso8601>20260102T03:04:05</dateTime.iso8601></value>",
			time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), false},
		{"int between blanks", "<value><int> 7 </int></value>", 7, "strconv.ParseInt", true},
		{"two members with one name", "<value><struct><member><name>a</name><value><int>1</int></value></member><member><name>a</name><value><int>2</int></value></member></struct></value>",
			`member "a" is there twice`, map[string]any{"a": int64(2)}, false},
		{"text beside a member", "<value><struct>x<member><name>a</name><value><int>1</int></value></member></struct></value>",
			`text "x" directly inside of <struct>`, map[string]any{"a": int64(1)}, false},
		{"two values of a member", "<value><struct><member><name>a</name><value><int>1</int></value><value><int>2</int></value></member></struct></value>",
			"where nothing more is expected", map[string]any{"a": int64(1)}, false},
		{"half of a surrogate pair", "<value><string>&#xD800;</string></value>", "half of a surrogate pair", "\ufffd", false},
		{"attribute", "<value><string a='1'>b</string></value>", "b", "b", false},
		{"40 arrays", deep, "values nest deeper than 32", nil, false},
		{"two values", "<value><int>1</int></value></param><param><value><int>2</int></value>", "an answer has one value, not 2", int64(1), false},
		{"the end is missing", "<value><string>a</string></value></param></params></methodResponse", "", "a", false},
	} {
		body := answerXML(tt.value)
		if got := isPlain(body); got != tt.isPlain {
			t.Errorf("%s: plain is %v", tt.rule, got)
		}
		ours, err := xmlrpc.DecodeResponse(body, xmlrpc.Limits{})
		if !isResult(ours, err, tt.ours) {
			t.Errorf("%s: ours is %#v, %v", tt.rule, ours, err)
		}
		var theirs any
		err = kolo.Response(body).Unmarshal(&theirs)
		if tt.rule != "40 arrays" && tt.rule != "the end is missing" && !isResult(theirs, err, tt.kolos) {
			t.Errorf("%s: kolo's is %#v, %v", tt.rule, theirs, err)
		}
	}
	if isPlain(xmlrpc.AppendFault(nil, &xmlrpc.Fault{Code: 1, Text: "x"})) || isPlain(nil) || isPlain([]byte("\ufeff"+string(answerXML("<value><int>1</int></value>")))) {
		t.Error("a fault, nothing, or a byte order mark is plain")
	}
}

// isResult compares a value, or a part of an error if there is one.
func isResult(v any, err error, want any) bool {
	if err != nil {
		text, ok := want.(string)
		return ok && strings.Contains(err.Error(), text)
	}
	return reflect.DeepEqual(v, want)
}

// TestTypedCallsLoseNothing sends RSpecs and credentials in forms of which kolo/xmlrpc loses a part.
func TestTypedCallsLoseNothing(t *testing.T) {
	for _, tt := range []struct{ rule, value, want string }{
		{"typed", "<string> &lt;rspec/> \n</string>", " <rspec/> \n"},
		{"untyped", " &lt;rspec/> \n", " <rspec/> \n"},
		{"CDATA", "<string>&lt;rspec><![CDATA[<a/>]]>&lt;/rspec></string>", "<rspec><a/></rspec>"},
		{"comment", "<string>&lt;rspec><!-- x -->&lt;/rspec></string>", "<rspec></rspec>"},
		{"untyped beside an empty value", "&lt;rspec/></value></member><member><name>other</name><value/></member><member><name>last</name><value>", "<rspec/>"},
	} {
		body := answerXML("<value><struct><member><name>code</name><value><struct><member><name>geni_code</name><value><int>0</int></value></member></struct></value></member>" +
			"<member><name>value</name><value><struct><member><name>geni_rspec</name><value>" + tt.value + "</value></member>" +
			"<member><name>geni_slivers</name><value><array><data></data></array></value></member></struct></value></member>" +
			"<member><name>output</name><value><string></string></value></member></struct></value>")
		c := newClient(t, Config{URL: aggregate(t, func(w http.ResponseWriter, _ *http.Request) { w.Write(body) }).URL})
		a, _, err := c.Allocate(t.Context(), slice, creds, "<request/>", Options{})
		if err != nil || a.RSpec != tt.want {
			t.Errorf("%s: %q, %v; want %q", tt.rule, a.RSpec, err, tt.want)
		}
		if got := isPlain(body); got != (tt.rule == "typed") {
			t.Errorf("%s: plain is %v", tt.rule, got)
		}
	}
}

// TestCallsAreReadAsTheyWereMeant encodes random values, and reads them with am/api/xmlrpc.
func TestCallsAreReadAsTheyWereMeant(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		v := randomValue(rnd, 4)
		text, err := encodeCall("M", values{v})
		if err != nil {
			t.Fatal(err)
		}
		got, err := xmlrpc.DecodeCall(text, xmlrpc.Limits{})
		if err != nil || got.Method != "M" || !reflect.DeepEqual(unordered(got.Params), unordered(values{v})) {
			t.Fatalf("got %#v, %v, want %#v", got, err, v)
		}
	}
}

func randomValue(rnd *rand.Rand, depth int) xmlrpc.Value {
	kinds := 5
	if depth > 1 {
		kinds = 7
	}
	switch rnd.IntN(kinds) {
	case 0:
		return int(int32(rnd.Uint32()))
	case 1:
		return rnd.IntN(2) == 0
	case 2:
		return rnd.NormFloat64()
	case 3:
		return []byte(randomText(rnd))
	case 4:
		return randomText(rnd)
	case 5:
		a := values{}
		for range rnd.IntN(4) {
			a = append(a, randomValue(rnd, depth-1))
		}
		return a
	default:
		s := xmlrpc.Struct{}
		for i := range rnd.IntN(4) {
			s = append(s, xmlrpc.Member{Name: fmt.Sprint(i, randomText(rnd)), Value: randomValue(rnd, depth-1)})
		}
		return s
	}
}

func randomText(rnd *rand.Rand) string {
	letters := []rune("aZ0 <>&'\"\n\t\ré\U0001F600]]>")
	var s strings.Builder
	for range rnd.IntN(12) {
		s.WriteRune(letters[rnd.IntN(len(letters))])
	}
	return s.String()
}

// TestOddAnswers has members that no typed call reads, and texts where the API specifies other types.
func TestOddAnswers(t *testing.T) {
	const api = "<member><name>geni_api</name><value><int>3</int></value></member>"
	for rule, member := range map[string]string{
		"i8":                  "<member><name>build</name><value><i8>1700000000000</i8></value></member>",
		"nil in a list":       "<member><name>x</name><value><array><data><value><nil/></value></data></array></value></member>",
		"member without name": "<member><name></name><value><string>x</string></value></member>",
		"a list of versions":  "<member><name>geni_api_versions</name><value><array><data/></array></value></member>",
	} {
		s := aggregate(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Write(answerOf("<value><struct>" + api + member + "</struct></value>"))
		})
		if v, _, err := newClient(t, Config{URL: s.URL}).GetVersion(t.Context()); err != nil || v.API != 3 {
			t.Errorf("%s: %+v, %v", rule, v, err)
		}
	}
	s := aggregate(t, func(w http.ResponseWriter, _ *http.Request) { w.Write(answerOf("<value><string></string></value>")) })
	c := newClient(t, Config{URL: s.URL})
	if list, _, err := c.Delete(t.Context(), []string{slice}, nil, Options{}); err == nil {
		t.Errorf("an empty text is the slivers %+v", list)
	}
	if done, _, err := c.Shutdown(t.Context(), slice, nil, Options{}); err == nil {
		t.Errorf("an empty text is %t", done)
	}
	if v, _, err := c.GetVersion(t.Context()); err == nil {
		t.Errorf("an empty text is %+v", v)
	}
	s = aggregate(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Write(answerOf("<value><struct><member><name>geni_api</name><value><string></string></value></member><member><name>geni_urn</name><value><string>" + slice +
			"</string></value></member><member><name>geni_rspec</name><value><string>&lt;rspec/&gt;</string></value></member><member><name>geni_slivers</name><value><string></string></value></member></struct></value>"))
	})
	c = newClient(t, Config{URL: s.URL})
	if a, _, err := c.Describe(t.Context(), []string{slice}, nil, Options{}); err == nil {
		t.Errorf("an empty text is the slivers %+v", a.Slivers)
	}
	if v, _, err := c.GetVersion(t.Context()); err == nil {
		t.Errorf("an empty text is geni_api %d", v.API)
	}
}

// answerOf returns a successful answer with a value.
func answerOf(value string) []byte {
	return answerXML("<value><struct><member><name>code</name><value><struct><member><name>geni_code</name><value><int>0</int></value></member></struct></value></member>" +
		"<member><name>value</name>" + value + "</member><member><name>output</name><value><string></string></value></member></struct></value>")
}
