package setup

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestSteps(t *testing.T) {
	install := func(url, path, kind string) string {
		return fmt.Sprintf(`{"kind":"install","url":%q,"install_path":%q,"file_type":%q}`, url, path, kind)
	}
	execute := func(shell, command string) string {
		return fmt.Sprintf(`{"kind":"execute","shell":%q,"command":%q}`, shell, command)
	}
	for _, tt := range []struct{ rule, text, err string }{
		{"http", install("http://example.org/a.tgz", "/local", ""), ""},
		{"https with a name and a password", install("https://u:p@example.org/a.tgz", "~", "tar.gz"), ""},
		{"data", install("data:,x", "~/a", ""), ""},
		{"another scheme", install("ftp://example.org/a", "/local", ""), "is not an http:, https: or data: URL"},
		{"a file of the node", install("file:///etc/shadow", "/local", ""), "is not an http:, https: or data: URL"},
		{"a line break in the url", install("http://example.org/a\r\nX: y", "/local", ""), "cannot be read"},
		{"a url that is too long", install("data:,"+strings.Repeat("x", MaxURL), "/local", ""), "bytes, at most"},
		{"a path that is not absolute", install("http://example.org/a", "local", ""), "is not absolute"},
		{"another's home", install("http://example.org/a", "~bob/a", ""), "is not absolute"},
		{"no path", install("http://example.org/a", "", ""), "is not absolute"},
		{"a long type", install("http://example.org/a", "/", strings.Repeat("x", maxShort+1)), "file_type"},
		{"install with a command", `{"kind":"install","url":"data:,","install_path":"/","command":"x"}`, "no shell and no command"},
		{"sh", execute("sh", "true"), ""},
		{"bash", execute("bash", "true"), ""},
		{"no command", execute("sh", ""), "is empty"},
		{"a zero byte", execute("sh", "a\x00b"), "cannot be"},
		{"the longest command", execute("sh", strings.Repeat("x", MaxCommand)), ""},
		{"a longer command", execute("sh", strings.Repeat("x", MaxCommand+1)), "install a script"},
		{"another kind", `{"kind":"remove"}`, "neither install nor execute"},
		{"no object", `[]`, "not a valid JSON object"},
		{"two objects", `{"kind":"execute","shell":"sh","command":"x"}{}`, "text after the JSON object"},
		{"an unknown key", `{"kind":"execute","shell":"sh","command":"x","as":"root"}`, "unknown field"},
		{"no UTF-8", "{\"kind\":\"execute\",\"shell\":\"sh\",\"command\":\"\xff\"}", "not UTF-8"},
	} {
		s, err := ParseStep(tt.text)
		if tt.rule == "a zero byte" { // Go quotes it in a way that is not JSON
			b, _ := json.Marshal(Step{Kind: Execute, Shell: "sh", Command: "a\x00b"})
			s, err = ParseStep(string(b))
			tt.err = "zero byte"
		}
		if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%s: %+v, %v; want %q", tt.rule, s, err, tt.err)
		}
	}
}

// An accepted step is parsed the same again, and is within the bounds.
func FuzzParseStep(f *testing.F) {
	f.Add(`{"kind":"install","url":"https://example.org/a.tgz","install_path":"~/x","file_type":"tar.gz"}`)
	f.Add(`{"kind":"execute","shell":"bash","command":"echo \"$HOME\"\n"}`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseStep(text)
		if err != nil {
			return
		}
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := ParseStep(string(b)); err != nil || !reflect.DeepEqual(again, s) {
			t.Errorf("%q becomes %+v, %v", text, again, err)
		}
		if len(s.Command) > MaxCommand || len(s.URL) > MaxURL || strings.ContainsRune(s.Command+s.URL+s.InstallPath, 0) {
			t.Errorf("%q is taken", text)
		}
	})
}
