package xmlrpc

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestAppendText(t *testing.T) {
	for _, tt := range []struct{ rule, in, want string }{
		{"ASCII stays", "a b\n\tc\"'~\x7f", "a b\n\tc\"'~\x7f"},
		{"markup is escaped", "<a>&amp;]]>", "&lt;a&gt;&amp;amp;]]&gt;"},
		{"CR is a reference", "a\r\nb", "a&#13;\nb"},
		{"non-ASCII is a reference", "é\u2028\U0001F600", "&#233;&#8232;&#128512;"},
		{"control characters are replaced", "a\x00\x1bb", "a&#65533;&#65533;b"},
		{"bytes that are no text are replaced", "\xff\xc3(", "&#65533;&#65533;("},
		{"non-characters are replaced", "\ufffe\uffff", "&#65533;&#65533;"},
		{"surrogates are replaced", "\xed\xa0\x80", "&#65533;&#65533;&#65533;"},
	} {
		if got := string(AppendText([]byte("x"), tt.in)); got != "x"+tt.want {
			t.Errorf("%s: got %q, want %q", tt.rule, got, tt.want)
		}
	}
}

func TestAppendResponse(t *testing.T) {
	got, err := AppendResponse(nil, Struct{{"code", Struct{{"geni_code", 0}}}, {"value", []Value{"a<b", true, false, -0.25}}, {"o<>", ""}})
	if err != nil {
		t.Fatal(err)
	}
	const want = `<?xml version="1.0" encoding="UTF-8"?>
<methodResponse><params><param><value><struct>` +
		`<member><name>code</name><value><struct><member><name>geni_code</name><value><int>0</int></value></member></struct></value></member>` +
		`<member><name>value</name><value><array><data><value><string>a&lt;b</string></value><value><boolean>1</boolean></value>` +
		`<value><boolean>0</boolean></value><value><double>-0.25</double></value></data></array></value></member>` +
		`<member><name>o&lt;&gt;</name><value><string></string></value></member></struct></value></param></params></methodResponse>
`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestAppendRefuses(t *testing.T) {
	loop := []Value{nil}
	loop[0] = loop
	large := Struct{}
	for _, c := range "abcdefghijklmnopqrstuvwxyza" {
		large = append(large, Member{string(c), 1})
	}
	for rule, v := range map[string]Value{
		"nil":                       nil,
		"time":                      time.Now(),
		"map":                       map[string]any{},
		"int64":                     int64(1),
		"int beyond 32 bits":        math.MaxInt32 + 1,
		"int below 32 bits":         math.MinInt32 - 1,
		"NaN":                       math.NaN(),
		"infinity":                  math.Inf(-1),
		"nil inside":                []Value{Struct{{"a", nil}}},
		"a member twice":            Struct{{"a", 1}, {"a", 1}},
		"a member twice among many": large,
		"an array inside of itself": loop,
	} {
		t.Run(rule, func(t *testing.T) {
			if b, err := AppendResponse([]byte("before"), v); err == nil || string(b) != "before" {
				t.Errorf("got %q, %v, want the earlier content and an error", b, err)
			}
			if b, err := AppendCall([]byte("before"), Call{"M", []Value{v}}); err == nil || string(b) != "before" {
				t.Errorf("got %q, %v, want the earlier content and an error", b, err)
			}
		})
	}
	var deep Value = "x"
	for range defaultDepth - 1 {
		deep = []Value{deep}
	}
	if _, err := AppendResponse(nil, deep); err != nil {
		t.Errorf("as deep as the limit: %v", err)
	}
	if _, err := AppendResponse(nil, []Value{deep}); err == nil {
		t.Error("deeper than the limit was encoded")
	}
	for _, m := range []string{"", "a b", "<x>", "é", strings.Repeat("x", 256)} {
		if _, err := AppendCall(nil, Call{Method: m}); err == nil {
			t.Errorf("method %q was encoded", m)
		}
	}
}

func TestAppendFault(t *testing.T) {
	for _, tt := range []struct{ in, want Fault }{
		{Fault{FaultMethod, "no method <x>\r\n\u00e9"}, Fault{FaultMethod, "no method <x>\r\n\u00e9"}},
		{Fault{1 << 40, "\x00"}, Fault{FaultInternal, "\ufffd"}},
	} {
		b := AppendFault(nil, &tt.in)
		_, err := DecodeResponse(b, Limits{})
		if f, ok := err.(*Fault); !ok || *f != tt.want {
			t.Errorf("%+v came back as %v", tt.in, err)
		}
		ascii(t, b)
	}
}

func ascii(t *testing.T, b []byte) {
	t.Helper()
	for i, c := range b {
		if c >= 0x80 || c < ' ' && c != '\n' && c != '\t' {
			t.Fatalf("byte %#x at %d is not ASCII text", c, i)
		}
	}
}

func TestAccessors(t *testing.T) {
	for _, tt := range []struct {
		in   Value
		want string
		ok   bool
	}{{"x", "x", true}, {[]byte("x"), "x", true}, {1, "", false}, {nil, "", false}, {Struct{}, "", false}} {
		if got, ok := AsString(tt.in); got != tt.want || ok != tt.ok {
			t.Errorf("AsString(%#v) = %q, %v", tt.in, got, ok)
		}
	}
	for _, tt := range []struct {
		in   Value
		want bool
		ok   bool
	}{
		{true, true, true}, {false, false, true}, {1, true, true}, {0, false, true}, {2, false, false}, {"TRUE", true, true},
		{"False", false, true}, {"1", true, true}, {" 0 ", false, true}, {"yes", false, false}, {"", false, false}, {1.0, false, false}, {nil, false, false},
	} {
		if got, ok := AsBool(tt.in); got != tt.want || ok != tt.ok {
			t.Errorf("AsBool(%#v) = %v, %v", tt.in, got, ok)
		}
	}
	for _, tt := range []struct {
		in   Value
		want int
		ok   bool
	}{{3, 3, true}, {"3", 3, true}, {" -4 ", -4, true}, {"3.0", 0, false}, {"", 0, false}, {true, 0, false}, {nil, 0, false}} {
		if got, ok := AsInt(tt.in); ok != tt.ok || ok && got != tt.want {
			t.Errorf("AsInt(%#v) = %v, %v", tt.in, got, ok)
		}
	}
	s := Struct{{"a", 1}, {"b", nil}}
	if v, ok := s.Get("b"); v != nil || !ok {
		t.Error("a member that is nil is not found")
	}
	if _, ok := s.Get("c"); ok {
		t.Error("a member that is not there is found")
	}
}

// FuzzDecodeCall checks that no input causes a panic, and that an accepted call is the same after
// encoding and decoding.
func FuzzDecodeCall(f *testing.F) {
	f.Add([]byte("<methodCall><methodName>GetVersion</methodName></methodCall>"))
	f.Add([]byte(callOf("<value>a<![CDATA[<]]>&#233;&#13;</value>")))
	f.Add([]byte(callOf("<value><struct><member><name>a</name><value><double>-0.5</double></value></member></struct></value>")))
	f.Add([]byte(callOf("<value><array><data><value><i8>1</i8></value><value><boolean>true</boolean></value><value><nil/></value></data></array></value>")))
	f.Add([]byte(callOf("<value><base64>QQ==</base64></value>")))
	f.Fuzz(func(t *testing.T, in []byte) {
		c, err := DecodeCall(in, Limits{})
		if err != nil {
			if _, ok := err.(*Fault); !ok {
				t.Fatalf("%v is no *Fault", err)
			}
			AppendFault(nil, err.(*Fault))
			return
		}
		b, err := AppendCall(nil, c)
		if err != nil {
			return // holds what is read, but never written
		}
		ascii(t, b)
		again, err := DecodeCall(b, Limits{})
		if err != nil || !reflect.DeepEqual(c, again) {
			t.Fatalf("%q\nread as  %#v\nthen as  %#v, %v", in, c, again, err)
		}
	})
}

// FuzzAppendText checks that the document with any text is well-formed and ASCII, and keeps every
// character that XML permits.
func FuzzAppendText(f *testing.F) {
	f.Add("a<b>&\r\n\x00\xffé")
	f.Fuzz(func(t *testing.T, s string) {
		b, err := AppendResponse(nil, s)
		if err != nil {
			t.Fatal(err)
		}
		ascii(t, b)
		v, err := DecodeResponse(b, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		want := strings.Map(func(r rune) rune {
			if r < ' ' && r != '\n' && r != '\t' && r != '\r' || r == 0xFFFE || r == 0xFFFF {
				return '\ufffd'
			}
			return r // Map itself replaces bytes that are not UTF-8
		}, s)
		if v != want {
			t.Fatalf("%q came back as %q, want %q", s, v, want)
		}
	})
}
