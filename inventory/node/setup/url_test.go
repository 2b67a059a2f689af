package setup

import (
	"strings"
	"testing"
)

func TestDataURLs(t *testing.T) {
	for _, tt := range []struct{ rule, url, want, err string }{
		{"plain", "data:,hello", "hello", ""},
		{"percent", "data:text/plain,a%20b%0Ac%ff", "a b\nc\xff", ""},
		{"base64", "data:application/gzip;base64,H4sI", "\x1f\x8b\x08", ""},
		{"base64 with percent and blanks", "data:;base64,aGVs%0A bG8%3D", "hello", ""},
		{"base64 without its end", "data:;base64,aGVsbG8", "hello", ""},
		{"base64 for URLs", "data:;base64,_-8", "\xff\xef", ""},
		{"base64 in capitals", "DATA:;BASE64,aGk=", "hi", ""},
		{"a parameter called base64 elsewhere", "data:text/plain;base64;charset=utf-8,aGk", "aGk", ""},
		{"nothing", "data:,", "", ""},
		{"no comma", "data:hello", "", "no comma"},
		{"wrong percent", "data:,%zz", "", "cannot be read"},
		{"wrong base64", "data:;base64,a!", "", "not base64"},
	} {
		got, err := dataContent(tt.url)
		if string(got) != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %q, %v; want %q, %q", tt.rule, got, err, tt.want, tt.err)
		}
	}
}

func TestNamesOfURLs(t *testing.T) {
	for url, want := range map[string]string{
		"http://example.org/a/tool.tgz?x=/y.zip#z":            "tool.tgz",
		"http://example.org/a%20b.txt":                        "a b.txt",
		"http://example.org/x%2F..%2Fetc":                     "etc",
		"http://example.org/":                                 "",
		"http://example.org":                                  "",
		"http://example.org/a/..":                             "",
		"http://example.org/" + strings.Repeat("x", 256):      "",
		"http://example.org/a%00b":                            "",
		"data:,x":                                             "",
		"catalogue:web+1.0.tar.gz#" + strings.Repeat("0", 64): "web+1.0.tar.gz",
		"catalogue:web.tar.gz":                                "",
	} {
		if got, _ := fileName(url); got != want {
			t.Errorf("%.60s: %q, want %q", url, got, want)
		}
	}
	for url, want := range map[string]string{
		"http://example.org/tool.sh":                           "tool.sh",
		"http://example.org/tool.sh?format=raw&from=/a#top":    "tool.sh?format=raw&from=%2Fa",
		"http://example.org/?format=raw":                       "",
		"http://example.org/x?" + strings.Repeat("y", maxName): "x",
		"http://example.org/x?..":                              "x?..",
	} {
		if _, got := fileName(url); got != want {
			t.Errorf("%.60s is kept as %q, want %q", url, got, want)
		}
	}
	if got := displayURL("http://alice:secret@example.org/x"); strings.Contains(got, "secret") || !strings.Contains(got, "alice") {
		t.Errorf("a password is shown: %s", got)
	}
}

func TestDisplayURL(t *testing.T) {
	for url, want := range map[string]string{
		"data:,hello":                      "data:,hello",
		"data:," + strings.Repeat("x", 99): "data:," + strings.Repeat("x", 31) + "...",
		"http://example.org/x":             "http://example.org/x",
	} {
		if got := displayURL(url); got != want {
			t.Errorf("%q is shown as %q", url, got)
		}
	}
}

func FuzzDataURL(f *testing.F) {
	f.Add("data:;base64,aGVsbG8=")
	f.Add("data:,%41%")
	f.Fuzz(func(t *testing.T, text string) {
		if !isData(text) {
			return
		}
		if b, err := dataContent(text); err == nil && len(b) > len(text) {
			t.Errorf("%q holds %d bytes", text, len(b))
		}
	})
}
