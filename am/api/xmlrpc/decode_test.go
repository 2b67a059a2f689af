package xmlrpc

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// callOf is a call of method M with one parameter.
func callOf(value string) string {
	return "<?xml version='1.0'?>\n<methodCall><methodName>M</methodName><params><param>" + value + "</param></params></methodCall>"
}

func TestDecodeValue(t *testing.T) {
	at := func(s string) time.Time {
		v, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			t.Fatal(err)
		}
		return v.UTC()
	}
	for _, tt := range []struct {
		rule, in string
		want     Value
	}{
		{"string", "<value><string>x y</string></value>", "x y"},
		{"a string keeps its blanks", "<value> <string> x\n</string>\n</value>", " x\n"},
		{"no type means string", "<value>plain</value>", "plain"},
		{"no type keeps blanks", "<value> a b </value>", " a b "},
		{"empty value", "<value/>", ""},
		{"empty string", "<value><string/></value>", ""},
		{"CDATA is joined", "<value><string>x<![CDATA[<y>&amp;]]>z</string></value>", "x<y>&amp;z"},
		{"CDATA alone", "<value><![CDATA[<a>]]></value>", "<a>"},
		{"a comment does not cut", "<value><string>a<!-- c -->b</string></value>", "ab"},
		{"a comment does not cut without a type", "<value>a<!-- c -->b</value>", "ab"},
		{"an instruction does not cut", "<value><string>a<?p i?>b</string></value>", "ab"},
		{"entities", "<value><string>&lt;a b=&quot;&apos;&#65;&#x42;&quot;&gt;&amp;amp;</string></value>", `<a b="'AB">&amp;`},
		{"CR LF becomes LF", "<value><string>a\r\nb\rc&#13;d</string></value>", "a\nb\nc\rd"},
		{"no reference to a surrogate", "<value><string>\ufffd&#65533;<![CDATA[&#xD800;]]>&#x1F600;&#55295;</string></value>", "\ufffd\ufffd&#xD800;\U0001F600\ud7ff"},
		{"the neighbours of surrogates", "<value><string>\ufffd&#xD7ff;&#xE000;&#57344;&#0057999;&#x0E000;</string></value>", "\ufffd\ud7ff\ue000\ue000\ue28f\ue000"},
		{"UTF-8", "<value><string>é\U0001F600&#233;</string></value>", "é\U0001F600é"},
		{"int", "<value><int>42</int></value>", 42},
		{"i4", "<value><i4>-2147483648</i4></value>", -2147483648},
		{"int with sign", "<value><int>+7</int></value>", 7},
		{"i8", "<value><i8>9007199254740993</i8></value>", 9007199254740993},
		{"blanks around int", "<value><int>\n 5 </int></value>", 5},
		{"a comment inside of int", "<value><int>1<!-- -->2</int></value>", 12},
		{"boolean 1", "<value><boolean>1</boolean></value>", true},
		{"boolean 0", "<value><boolean> 0 </boolean></value>", false},
		{"boolean in words", "<value><boolean>true</boolean></value>", true},
		{"boolean in words, false", "<value><boolean>false</boolean></value>", false},
		{"double", "<value><double>-1.5</double></value>", -1.5},
		{"double with exponent", "<value><double>1e3</double></value>", 1000.0},
		{"base64", "<value><base64>PGE+\n PC9h\tPg==</base64></value>", []byte("<a></a>")},
		{"empty base64", "<value><base64/></value>", []byte{}},
		{"dateTime", "<value><dateTime.iso8601>20261120T22:41:31</dateTime.iso8601></value>", at("2026-11-20T22:41:31Z")},
		{"dateTime with Z", "<value><dateTime.iso8601>20261120T22:41:31Z</dateTime.iso8601></value>", at("2026-11-20T22:41:31Z")},
		{"dateTime with offset", "<value><dateTime.iso8601>2026-11-20T22:41:31+01:00</dateTime.iso8601></value>", at("2026-11-20T21:41:31Z")},
		{"dateTime with fraction", "<value><dateTime.iso8601>2026-11-20T22:41:31.25</dateTime.iso8601></value>", at("2026-11-20T22:41:31.25Z")},
		{"nil", "<value><nil/></value>", nil},
		{"nil of the extension", "<value><ex:nil/></value>", nil},
		{"empty array", "<value><array><data/></array></value>", []Value{}},
		{"array", "<value><array> <data> <value>a</value> <!-- --> <value><int>1</int></value> </data> </array></value>", []Value{"a", 1}},
		{"empty struct", "<value><struct></struct></value>", Struct{}},
		{"struct keeps order", "<value><struct><member><name>b</name><value>1</value></member> <member> <name>a</name> <value><int>2</int></value> </member></struct></value>",
			Struct{{"b", "1"}, {"a", 2}}},
		{"a name is unescaped", "<value><struct><member><name>a&lt;<![CDATA[&]]></name><value/></member></struct></value>", Struct{{"a<&", ""}}},
		{"attributes are harmless", "<value a='1' a='1'><int b='2'>3</int></value>", 3},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			c, err := DecodeCall([]byte(callOf(tt.in)), Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if len(c.Params) != 1 || !reflect.DeepEqual(c.Params[0], tt.want) {
				t.Errorf("got %#v, want %#v", c.Params, tt.want)
			}
		})
	}
}

func TestDecodeCallDocument(t *testing.T) {
	const body = "<methodCall><methodName>GetVersion</methodName><params></params></methodCall>"
	for rule, in := range map[string]string{
		"no declaration":                  body,
		"byte order mark":                 "\ufeff<?xml version='1.0'?>" + body,
		"white space before":              "\r\n  <?xml version='1.0'?>\n" + body,
		"utf-8 in lower case":             "<?xml version=\"1.0\" encoding=\"utf-8\"?>" + body,
		"UTF-8 in mixed case":             "<?xml version=\"1.0\" encoding='Utf-8'?>" + body,
		"US-ASCII":                        "<?xml version=\"1.0\" encoding=\"US-ASCII\" standalone='yes'?>" + body,
		"us-ascii with blanks at the =":   "<?xml version=\"1.0\" encoding = \"us-ascii\"?>" + body,
		"comment and instruction before":  "<?xml version='1.0'?><!-- a --><?p i?>\n" + body,
		"comment after":                   body + "\n<!-- end -->\n",
		"missing params":                  "<methodCall><methodName>GetVersion</methodName></methodCall>",
		"empty params":                    "<methodCall><methodName>GetVersion</methodName><params/></methodCall>",
		"blanks around the method's name": "<methodCall>\n<methodName> GetVersion\n</methodName>\n</methodCall>",
	} {
		t.Run(rule, func(t *testing.T) {
			c, err := DecodeCall([]byte(in), Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if want := (Call{"GetVersion", []Value{}}); !reflect.DeepEqual(c, want) {
				t.Errorf("got %#v, want %#v", c, want)
			}
		})
	}
}

const latin1Declaration = "<?xml version='1.0' encoding='ISO-8859-1'?>"

// callOfBare is callOf without an XML declaration.
func callOfBare(value string) string {
	_, text, _ := strings.Cut(callOf(value), "<methodCall>")
	return "<methodCall>" + text
}

// TestISO88591IsDecoded checks the encoding that Apache XML-RPC 1.1 declares and PHP libraries may
// use.
func TestISO88591IsDecoded(t *testing.T) {
	for _, tt := range []struct{ rule, in, want string }{
		{"plain ASCII", latin1Declaration + callOfBare("<value>plain</value>"), "plain"},
		{"an umlaut, and what begins a character of two bytes in UTF-8", latin1Declaration + callOfBare("<value>\xe4\xc3\xa9</value>"), "äÃ©"},
		{"the first and the last character", latin1Declaration + callOfBare("<value>\xa0\xff</value>"), "\u00a0ÿ"},
		{"references count as ever", latin1Declaration + callOfBare("<value>&#8220;\xe4&amp;</value>"), "“ä&"},
		{"lower case, double quotes, blanks", "\n <?xml version=\"1.0\" encoding = \"iso-8859-1\" ?>\n<!-- \xe4 -->" + callOfBare("<value><![CDATA[\xe4]]></value>"), "ä"},
		{"without a declaration it is UTF-8", callOfBare("<value>ä</value>"), "ä"},
		{"what is declared inside of a text counts for nothing", callOfBare("<value><![CDATA[" + latin1Declaration + "ä]]></value>"), latin1Declaration + "ä"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			c, err := DecodeCall([]byte(tt.in), Limits{})
			if err != nil || len(c.Params) != 1 || c.Params[0] != tt.want {
				t.Fatalf("got %#v, %v, want %q", c.Params, err, tt.want)
			}
			compareCalls(t, []byte(tt.in))
		})
	}
}

func TestDecodeCallRefuses(t *testing.T) {
	nested := func(n int) string {
		return callOf(strings.Repeat("<value><array><data>", n) + strings.Repeat("</data></array></value>", n))
	}
	member := func(name string) string { return "<member><name>" + name + "</name><value/></member>" }
	var many strings.Builder
	for i := range 30 {
		many.WriteString(member(fmt.Sprint("m", i)))
	}
	for _, tt := range []struct {
		rule, in string
		code     int
		says     string // part of the text
	}{
		{"nothing", "", FaultParse, "no XML document"},
		{"only blanks", " \n ", FaultParse, "no XML document"},
		{"not XML", "hello", FaultParse, "before the root"},
		{"JSON", `{"method":"x"}`, FaultParse, "before the root"},
		{"wrong root", "<methodResponse/>", FaultInvalid, "the root element is <methodResponse>"},
		{"cut short", "<methodCall>\n<methodName>M", FaultParse, "line 2"},
		{"cut after the name", "<methodCall>\n<methodName>M</methodName>", FaultParse, "inside of <methodCall>"},
		{"text after the root", callOf("<value/>") + "x", FaultParse, "follows the root"},
		{"second root", callOf("<value/>") + "<methodCall/>", FaultParse, "follows the root"},
		{"NUL after the root", callOf("<value/>") + "\x00", FaultCharacter, "0x00"},
		{"unmatched end tag", callOf("<value><string>x</int></value>"), FaultParse, "<string> is closed by </int>"},
		{"prefix of an end tag differs", callOf("<value><string>x</p:string></value>"), FaultParse, "closed by </p:string>"},
		{"unmatched end of value", callOf("<value>x</param>"), FaultParse, "closed by </param>"},
		{"document type", "<?xml version='1.0'?><!DOCTYPE methodCall [<!ENTITY a 'b'>]>" + callOf("<value/>"), FaultParse, "document type"},
		{"document type inside", callOf("<value><string><!DOCTYPE x>a</string></value>"), FaultParse, "document type"},
		{"unknown entity", callOf("<value>&nbsp;</value>"), FaultParse, "nbsp"},
		{"bare ampersand", callOf("<value>a & b</value>"), FaultParse, "line 2"},
		{"reference to a surrogate", callOf("<value>a&#xD83D;&#xDE00;</value>"), FaultCharacter, "surrogate"},
		{"the same in decimal", callOf("<value>a&#055357;</value>"), FaultCharacter, "surrogate"},
		{"the first surrogate", callOf("<value>&#55296;</value>"), FaultCharacter, "surrogate"},
		{"the last surrogate, after others", callOf("<value>&#57344;&amp;&#x41;&#x0000dfFF;</value>"), FaultCharacter, "surrogate"},
		{"reference to NUL", callOf("<value>&#0;</value>"), FaultParse, "illegal character"},
		{"control character", callOf("<value>\x01</value>"), FaultParse, "illegal character"},
		{"invalid UTF-8", "\n\n" + callOf("<value>\xff</value>"), FaultCharacter, "line 4: byte 0xFF"},
		{"UTF-16", "\xff\xfe<\x00", FaultCharacter, "0xFF"},
		{"NUL", callOf("<value>a\x00</value>"), FaultCharacter, "0x00"},
		{"windows-1252", "<?xml version='1.0' encoding='windows-1252'?>" + callOfBare("<value/>"), FaultEncoding, "send UTF-8, US-ASCII or ISO-8859-1"},
		{"another name with blanks at the =", "<?xml version='1.0' encoding = 'latin1'?><methodCall/>", FaultEncoding, "latin1"},
		{"ISO-8859-15", "<?xml version='1.0' encoding='ISO-8859-15'?><methodCall/>", FaultEncoding, "ISO-8859-15"},
		{"windows-1252 declared as ISO-8859-1", latin1Declaration + "\n<methodCall>\x93", FaultCharacter, "line 2: byte 0x93 is not ISO-8859-1 text"},
		{"UTF-8 declared as ISO-8859-1", latin1Declaration + "<methodCall>“", FaultCharacter, "byte 0x80 is not ISO-8859-1 text"},
		{"NUL in ISO-8859-1", latin1Declaration + callOfBare("<value>\x00</value>"), FaultCharacter, "0x00"},
		{"ISO-8859-1 after the byte order mark of UTF-8", "\ufeff" + latin1Declaration + callOfBare("<value/>"), FaultEncoding, "ISO-8859-1"},
		{"ISO-8859-1 declared after a comment", "<!-- c -->" + latin1Declaration + callOfBare("<value/>"), FaultParse, "not at the beginning"},
		{"ISO-8859-1 in a declaration that is too long", "<?xml" + strings.Repeat(" ", 5000) + " encoding='ISO-8859-1'?>" + callOfBare("<value/>"), FaultEncoding, "ISO-8859-1"},
		{"a document type in ISO-8859-1", latin1Declaration + "<!DOCTYPE r>" + callOfBare("<value/>"), FaultParse, "document type"},
		{"UTF-8 declared as ASCII", "<?xml version='1.0' encoding='us-ascii'?><methodCall>é</methodCall>", FaultCharacter, "US-ASCII"},
		{"second declaration", "<?xml version='1.0'?>" + callOf("<value/>"), FaultParse, "not at the beginning"},
		{"no method", "<methodCall><params/></methodCall>", FaultInvalid, "<methodName> is expected"},
		{"empty method", "<methodCall><methodName/></methodCall>", FaultInvalid, "is not a name"},
		{"blank in the method", "<methodCall><methodName>a b</methodName></methodCall>", FaultInvalid, `"a b" is not a name`},
		{"two methods", "<methodCall><methodName>a</methodName><methodName>a</methodName></methodCall>", FaultInvalid, "<params> is expected"},
		{"params twice", "<methodCall><methodName>a</methodName><params/><params/></methodCall>", FaultInvalid, "nothing more is expected"},
		{"param without value", callOf(""), FaultInvalid, "<param> has no <value>"},
		{"param with two values", callOf("<value/><value/>"), FaultInvalid, "nothing more is expected"},
		{"text in param", callOf("text<value/>"), FaultInvalid, "directly inside of <param>"},
		{"text in array", callOf("<value><array>x<data/></array></value>"), FaultInvalid, "directly inside of <array>"},
		{"text in data", callOf("<value><array><data>x</data></array></value>"), FaultInvalid, "directly inside of <data>"},
		{"text in struct", callOf("<value><struct>x</struct></value>"), FaultInvalid, "directly inside of <struct>"},
		{"text in member", callOf("<value><struct><member>x<name/><value/></member></struct></value>"), FaultInvalid, "directly inside of <member>"},
		{"text before a type", callOf("<value>x<int>1</int></value>"), FaultInvalid, "beside <int>"},
		{"text after a type", callOf("<value><int>1</int>x</value>"), FaultInvalid, "directly inside of <value>"},
		{"two types", callOf("<value><int>1</int><int>1</int></value>"), FaultInvalid, "nothing more is expected"},
		{"element in a string", callOf("<value><string>a<b/></string></value>"), FaultInvalid, "<b> inside of <string>"},
		{"array without data", callOf("<value><array/></value>"), FaultInvalid, "<array> has no <data>"},
		{"member without name", callOf("<value><struct><member><value/></member></struct></value>"), FaultInvalid, "<name> is expected"},
		{"member without value", callOf("<value><struct><member><name>a</name></member></struct></value>"), FaultInvalid, "<member> has no <value>"},
		{"member twice", callOf("<value><struct>" + member("a") + member("b") + member("a") + "</struct></value>"), FaultInvalid, `member "a" is there twice`},
		{"member twice, spelled differently", callOf("<value><struct>" + member("a") + member("&#97;") + "</struct></value>"), FaultInvalid, `member "a" is there twice`},
		{"member twice in a large struct", callOf("<value><struct>" + many.String() + member("m3") + "</struct></value>"), FaultInvalid, `member "m3" is there twice`},
		{"unknown type", callOf("<value><i16>1</i16></value>"), FaultInvalid, "unknown type <i16>"},
		{"type in upper case", callOf("<value><INT>1</INT></value>"), FaultInvalid, "unknown type <INT>"},
		{"int beyond 32 bits", callOf("<value><int>2147483648</int></value>"), FaultInvalid, `<int> holds "2147483648"`},
		{"i4 beyond 32 bits", callOf("<value><i4>-2147483649</i4></value>"), FaultInvalid, "<i4> holds"},
		{"i8 beyond 64 bits", callOf("<value><i8>9223372036854775808</i8></value>"), FaultInvalid, "<i8> holds"},
		{"empty int", callOf("<value><int/></value>"), FaultInvalid, `<int> holds ""`},
		{"int with a fraction", callOf("<value><int>1.0</int></value>"), FaultInvalid, "<int> holds"},
		{"boolean 2", callOf("<value><boolean>2</boolean></value>"), FaultInvalid, "<boolean> holds"},
		{"double NaN", callOf("<value><double>nan</double></value>"), FaultInvalid, "<double> holds"},
		{"double infinite", callOf("<value><double>1e999</double></value>"), FaultInvalid, "<double> holds"},
		{"double hexadecimal", callOf("<value><double>0x1p4</double></value>"), FaultInvalid, "<double> holds"},
		{"base64 cut", callOf("<value><base64>QQ=</base64></value>"), FaultInvalid, "<base64> holds"},
		{"dateTime without time", callOf("<value><dateTime.iso8601>2026-11-20</dateTime.iso8601></value>"), FaultInvalid, "<dateTime.iso8601> holds"},
		{"nil with content", callOf("<value><nil>x</nil></value>"), FaultInvalid, "<nil> holds"},
		{"too deep", nested(33), FaultInvalid, "deeper than 32"},
		{"far too deep", nested(100_000), FaultInvalid, "deeper than 32"},
		{"endless tag", "<methodCall" + strings.Repeat(" a=''", 1000) + "/>", FaultParse, "longer than 4096 bytes"},
		{"endless tag inside", callOf("<value" + strings.Repeat(" a=''", 1000) + "/>"), FaultParse, "longer than 4096 bytes"},
		{"endless end tag", callOf("<value></value" + strings.Repeat(" ", 5000) + ">"), FaultParse, "longer than 4096 bytes"},
		{"the way to the value is told", callOf("<value><struct><member><name>o</name><value><array><data><value/>\n<value><int>x</int></value></data></array></value></member></struct></value>"),
			FaultInvalid, `line 3: parameter 1: "o": item 2: <int> holds "x"`},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			c, err := DecodeCall([]byte(tt.in), Limits{})
			f, ok := errors.AsType[*Fault](err)
			if !ok {
				t.Fatalf("got %#v, %v, want a *Fault", c, err)
			}
			if f.Code != tt.code || !strings.Contains(f.Text, tt.says) || !strings.HasPrefix(f.Text, "line ") {
				t.Errorf("got %v, want code %d and %q", f, tt.code, tt.says)
			}
			for i := 0; i < len(f.Text); i++ {
				if f.Text[i] < ' ' || f.Text[i] >= 0x7f {
					t.Fatalf("byte %#x in the text %q", f.Text[i], f.Text)
				}
			}
			if len(f.Text) > 600 {
				t.Errorf("the text has %d bytes", len(f.Text))
			}
		})
	}
}

func TestLimits(t *testing.T) {
	three := []byte(callOf("<value><array><data><value/><value/></data></array></value>"))
	for _, tt := range []struct {
		lim Limits
		ok  bool
	}{
		{Limits{Depth: 2, Values: 3}, true},
		{Limits{Depth: 1, Values: 3}, false},
		{Limits{Depth: 2, Values: 2}, false},
	} {
		if _, err := DecodeCall(three, tt.lim); (err == nil) != tt.ok {
			t.Errorf("%+v: %v", tt.lim, err)
		}
	}
	long := callOf("<value><string><!--" + strings.Repeat("x", 2*maxTag) + "-->" + strings.Repeat("y", 2*maxTag) + "<![CDATA[" + strings.Repeat("z", 2*maxTag) + "]]></string></value>")
	c, err := DecodeCall([]byte(long), Limits{})
	if err != nil || len(c.Params[0].(string)) != 4*maxTag {
		t.Errorf("the limit for tags also holds for text: %v", err)
	}
}

func TestReferencesCostNoMemory(t *testing.T) {
	raw := []byte("\ufffd" + strings.Repeat("&#57999;", 10_000))
	if n := testing.AllocsPerRun(3, func() {
		if refersToSurrogate(raw) {
			t.Error("57999 is no surrogate")
		}
	}); n > 10 {
		t.Errorf("looking through 10,000 references allocates %.0f times", n)
	}
}

func TestDecodeResponse(t *testing.T) {
	fault := func(members string) string {
		return "<methodResponse><fault><value><struct>" + members + "</struct></value></fault></methodResponse>"
	}
	v, err := DecodeResponse([]byte("<methodResponse><params><param><value><int>1</int></value></param></params></methodResponse>"), Limits{})
	if v != 1 || err != nil {
		t.Errorf("got %v, %v, want 1", v, err)
	}
	_, err = DecodeResponse([]byte(fault("<member><name>faultCode</name><value><int>4</int></value></member><member><name>faultString</name><value>Too many.</value></member>")), Limits{})
	if f, ok := errors.AsType[*Fault](err); !ok || *f != (Fault{4, "Too many."}) {
		t.Errorf("got %v, want the fault", err)
	}
	for rule, in := range map[string]string{
		"a call":                "<methodCall><methodName>M</methodName></methodCall>",
		"empty":                 "<methodResponse/>",
		"no value":              "<methodResponse><params/></methodResponse>",
		"two values":            "<methodResponse><params><param><value/></param><param><value/></param></params></methodResponse>",
		"a fault without text":  fault("<member><name>faultCode</name><value><int>4</int></value></member>"),
		"a fault without code":  fault("<member><name>faultString</name><value>x</value></member>"),
		"a fault of other kind": "<methodResponse><fault><value>x</value></fault></methodResponse>",
		"both":                  "<methodResponse><params><param><value/></param></params><fault/></methodResponse>",
		"an HTML page":          "<!DOCTYPE html><html></html>",
		"not UTF-8":             "<methodResponse>\xff",
	} {
		v, err := DecodeResponse([]byte(in), Limits{})
		if _, ok := errors.AsType[*SyntaxError](err); !ok {
			t.Errorf("%s: got %v, %v, want a *SyntaxError", rule, v, err)
		}
	}
}
