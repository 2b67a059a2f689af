package radl_test

import (
	"fmt"
	"strings"
	"testing"

	"patchbay/rspec"
	"patchbay/rspec/radl"
)

const hostileSize = 64 << 10

// hostile are documents of 64 KiB that may be slow to read: a beginning, a part that is repeated
// with its number, and an end.
var hostile = []struct{ name, begin, part, end string }{
	{"open text", "system s (x='", "a", ""},
	{"quotes", "system s (a ", "='x' ", ""},
	{"parentheses", "system s ", "(", ""},
	{"contains", "system s (", "a contains (", ""},
	{"soft groups", "system s (", "soft 1 (", ""},
	{"misspelled features", "system s (", "cpu.cuont%d = 1 and ", "x=1)"},
	{"bounds of one feature", "system s (", "cpu.count >= %d and ", "x=1)"},
	{"bounds of many features", "system s (", "f%[1]d>=1 and f%[1]d<=9 and ", "x=1)"},
	{"applications of one name", "system s (", "disk.0.applications contains (name='a') and ", "x=1)"},
	{"unknown networks", "network net ()\n", "network m%[1]d ()\nsystem s%[1]d (net_interface.0.connection = 'n%[1]d')\n", ""},
	{"interfaces", "system s (", "net_interface.%d.connection='n' and ", "x=1)"},
	{"digits", "system s (cpu.count = ", "9", ")"},
	{"units", "system s (cpu.count = 9", " G", ")"},
	{"parameters", "system s (", "a%[1]d=@input.a%[1]d@ and ", "x=1)"},
	{"aliases in a recipe", "configure c (\n@begin\na: &a [x,x]\n", "a%[1]d: &b%[1]d [*a,*a,*a,*a,*a]\n", "@end\n)"},
	{"brackets in a recipe", "configure c (\n@begin\n", "[", "\n@end\n)"},
	{"braces in a recipe", "configure c (\n@begin\n", "{a: ", "\n@end\n)"},
	{"wrong recipes", "", "configure c%d (\n@begin\na: b: c\n@end\n)\n", ""},
	{"recipe without end", "", "configure c (\n@begin\n", ""},
	{"lines of a plan", "contextualize (", "system s configure c%d step 1\n", ")"},
	{"JSON members", "[{", `"a%d":1,`, `"class":"system","id":"s"}]`},
	{"JSON arrays", "", "[", ""},
	{"JSON applications", `[{"class":"system","id":"s","disk.0.applications":[`, `{"name":"a%d"},`, `{"name":"b"}]}]`},
}

func hostileText(begin, part, end string) []byte {
	b := strings.Builder{}
	b.WriteString(begin)
	for i := 0; b.Len()+len(end) < hostileSize; i++ {
		if strings.Contains(part, "%") {
			fmt.Fprintf(&b, part, i)
		} else {
			b.WriteString(part)
		}
	}
	return []byte(b.String() + end)
}

// BenchmarkParseHostile parses hostile documents. None should take 100 ms.
func BenchmarkParseHostile(b *testing.B) {
	for _, x := range hostile {
		text := hostileText(x.begin, x.part, x.end)
		b.Run(x.name, func(b *testing.B) {
			for b.Loop() {
				radl.Parse(text, nil)
			}
		})
	}
}

// TestParseHostile requires few and short problems, each in one line.
func TestParseHostile(t *testing.T) {
	for _, x := range hostile {
		_, problems := radl.Parse(hostileText(x.begin, x.part, x.end), nil)
		if len(problems) > 2*20+2 {
			t.Errorf("%s: %d problems", x.name, len(problems))
		}
		for _, p := range problems {
			if text := p.String(); len(text) > 1000 || strings.ContainsAny(text, "\n\r\x00") {
				t.Errorf("%s: the problem %.200q has %d bytes", x.name, text, len(text))
			}
		}
	}
}

// TestParseLimits compares how many problems are listed, and what is refused as a whole.
func TestParseLimits(t *testing.T) {
	for _, tt := range []struct {
		rule, text string
		kind       rspec.Kind
		want       string
	}{
		{"a megabyte", strings.Repeat("#", 1<<20+1), rspec.TooBig, "the document has more than 1048576 bytes"},
		{"20 mistakes", strings.Repeat("deploy\n", 25), rspec.BadArgs, "and 5 more problems"},
		{"warnings do not hide mistakes", "network n (" + strings.Repeat("outbond = 'x' and ", 50) + "outbound = 'maybe')", rspec.BadArgs, "use yes, no"},
		{"long values", "system s (a=@input.v@ and b='@input.v@@input.v@')", rspec.TooBig, "add more than 1048576 bytes"},
	} {
		d, problems := radl.Parse([]byte(tt.text), map[string]string{"v": strings.Repeat("x", 400<<10)})
		hasKind := false
		for _, p := range problems {
			hasKind = hasKind || p.Kind == tt.kind
		}
		if all := strings.Join(rspec.Lines(problems), "; "); d != nil || !hasKind || !strings.Contains(all, tt.want) {
			t.Errorf("%s: %.300s", tt.rule, all)
		}
	}
}
