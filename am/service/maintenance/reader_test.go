package maintenance

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"patchbay/schemas/yamlfile"
)

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t
}

func TestParse(t *testing.T) {
	p, err := Parse([]byte(`
# new racks
lockdown: {text: "power cut at noon", since: 2030-01-31T09:00:00+01:00}
planned:
  - {components: [pc1..pc3, h08..h10], from: 2030-02-01T08:00:00Z, until: "2030-02-01T12:00:00Z", text: new disks}
  - components: big1
    from: 2030-02-01T08:00:00.9Z
    until: 2030-02-02T08:00:00Z
    text: "100%"
  - {from: 2031-01-01T00:00:00Z, until: 2031-01-02T00:00:00Z, text: move}
`), "m.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if l := p.Lockdown; l == nil || l.Text != "power cut at noon" || !l.Since.Equal(at("2030-01-31T08:00:00Z")) {
		t.Errorf("lockdown: %+v", l)
	}
	var got []string
	for _, w := range p.Planned {
		got = append(got, fmt.Sprint(w.Line, " ", w.names, " ", w.From.Format(time.RFC3339), " ", w.Text))
	}
	want := []string{
		"5 [pc1 pc2 pc3 h08 h09 h10] 2030-02-01T08:00:00Z new disks",
		"6 [big1] 2030-02-01T08:00:00Z 100%",
		"10 [] 2031-01-01T00:00:00Z move",
	}
	if !slices.Equal(got, want) {
		t.Errorf("planned: %q", got)
	}
	for _, text := range []string{"", "# nothing\n", "---\n", "planned:\n", "planned: []\n", "{}"} {
		if p, err := Parse([]byte(text), "m.yaml"); err != nil || p.Lockdown != nil || len(p.Planned) != 0 {
			t.Errorf("%q: %+v, %v", text, p, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	const good = "from: 2030-02-01T08:00:00Z, until: 2030-02-01T12:00:00Z, text: x"
	for _, tt := range []struct{ rule, text, want string }{
		{"an unknown key", "lokdown: {text: x}", `m.yaml:1: the file has no key "lokdown"; did you mean "lockdown"?`},
		{"an unknown key of a window", "planned:\n  - {" + good + ", form: x}", `m.yaml:2: planned maintenance has no key "form"; did you mean "from"?`},
		{"a key twice", "lockdown: {text: x}\nlockdown: {text: y}", `m.yaml:2: the file has the key "lockdown" twice`},
		{"a list for all", "- lockdown", "the file must be a list of keys and values"},
		{"a lockdown without anything", "lockdown:", "lockdown has no text; give it one, or remove the line"},
		{"a lockdown that is a text", "lockdown: closed", "lockdown must be a list of keys and values: text, since"},
		{"a lockdown without text", "lockdown: {since: 2030-02-01T08:00:00Z}", "lockdown has no text; add one"},
		{"an empty text", "lockdown: {text: '  '}", "the text is empty"},
		{"a text of two lines", "lockdown: {text: \"a\\nb\"}", "one line without control characters"},
		{"a text with an escape", "lockdown: {text: \"a\\e[2J\"}", "one line without control characters"},
		{"a text beyond ASCII", "lockdown: {text: für heute}", "plain ASCII"},
		{"a long text", "lockdown: {text: " + strings.Repeat("x", maxText+1) + "}", "501 bytes"},
		{"planned that is no list", "planned: {" + good + "}", "planned must be a list"},
		{"no beginning", "planned: [{until: 2030-02-01T12:00:00Z, text: x}]", "has no from; add one"},
		{"no end", "planned: [{from: 2030-02-01T12:00:00Z, text: x}]", "has no until; add one"},
		{"no text", "planned: [{from: 2030-02-01T08:00:00Z, until: 2030-02-01T12:00:00Z}]", "has no text; add one"},
		{"an end before the beginning", "planned: [{from: 2030-02-01T12:00:00Z, until: 2030-02-01T08:00:00Z, text: x}]", "not after its beginning"},
		{"an end at the beginning", "planned: [{from: 2030-02-01T12:00:00Z, until: 2030-02-01T12:00:00.5Z, text: x}]", "not after its beginning"},
		{"a time without zone", "planned: [{from: 2030-02-01T12:00:00, until: 2030-02-01T13:00:00Z, text: x}]", "from must be a time such as 2030-01-31T12:00:00Z, with its zone"},
		{"a year that makes no sense", "lockdown: {text: x, since: 0001-01-01T00:00:00Z}", "since must be a time"},
		{"an empty list of components", "planned: [{components: [], " + good + "}]", "leave it out for the whole site"},
		{"components without value", "planned: [{components: , " + good + "}]", "leave it out for the whole site"},
		{"components by keys", "planned: [{components: {pc1: x}, " + good + "}]", "leave it out for the whole site"},
		{"a component in a list", "planned: [{components: [[pc1]], " + good + "}]", "must be names such as pc1"},
		{"several in one text", "planned: [{components: 'pc1, pc2', " + good + "}]", "write a list such as [pc1, pc2]"},
		{"a range that goes down", "planned: [{components: pc4..pc1, " + good + "}]", `"pc4..pc1" is not a range`},
		{"a range of two stems", "planned: [{components: pc1..vm4, " + good + "}]", `"pc1..vm4" is not a range`},
		{"a range without end", "planned: [{components: pc1.., " + good + "}]", `"pc1.." is not a range`},
		{"a range too large", "planned: [{components: pc1..pc300001, " + good + "}]", `"pc1..pc300001" makes 300001 names, and the limit allows 300000 more; name fewer`},
		{"ranges too large together", "planned: [{components: [pc1..pc200000, vm1..vm200000], " + good + "}]", `"vm1..vm200000" makes 200000 names, and the limit allows 100000 more; name fewer`},
		{"a range of huge numbers", "planned: [{components: pc0..pc9223372036854775807, " + good + "}]", "names, and the limit allows 300000 more; name fewer"},
		{"too many windows", "planned:\n" + strings.Repeat("  - {"+good+"}\n", maxWindows+1), "planned has 1001 entries; the limit is 1000"},
		{"a key that is an alias", "lockdown: {text: &k drained}\n*k : [{components: [pc7, pc8], text: t, by: root}]", "m.yaml:2: the file has an alias for a key, *k; write the key out"},
		{"two documents", "lockdown: {text: x}\n---\nplanned: []\n", "a second YAML document begins here"},
		{"no YAML", "lockdown: {", "this is not YAML"},
	} {
		p, err := Parse([]byte(tt.text), "m.yaml")
		if _, ok := errors.AsType[*yamlfile.Error](err); !ok || p != nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.rule, err, tt.want)
		}
	}
}

func TestParseReportsAllMistakes(t *testing.T) {
	_, err := Parse([]byte("lockdown: {txt: x}\nplanned:\n  - {from: x, until: y, text: ''}\n"), "m.yaml")
	for _, want := range []string{"m.yaml:1: lockdown has no key", "m.yaml:1: lockdown has no text", "m.yaml:3: from", "m.yaml:3: until", "m.yaml:3: the text is empty"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not tell %q", err, want)
		}
	}
	_, err = Parse([]byte("planned: ["+strings.Repeat("x,", maxWindows-1)+"]"), "m.yaml")
	if e, ok := errors.AsType[*yamlfile.Error](err); !ok || len(e.Problems) != 101 {
		t.Errorf("mistakes without end: %v", err)
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "maintenance.yaml")
	if p, err := Read(file); err != nil || p.Lockdown != nil || p.Fingerprint != "" {
		t.Errorf("no file: %+v, %v", p, err)
	}
	if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a folder: %v", err)
	}
	if err := os.WriteFile(file, []byte("lockdown: {text: x}"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := Read(file)
	if err != nil || p.Lockdown == nil || len(p.Fingerprint) != 64 {
		t.Errorf("%+v, %v", p, err)
	}
	q, _ := Parse([]byte("lockdown: {text: y}"), file)
	if q.Fingerprint == p.Fingerprint {
		t.Error("two texts have one fingerprint")
	}
}

// TestReadDoesNotBlockAndReportsBrokenLinks times out if a read waits for a pipe.
func TestReadDoesNotBlockAndReportsBrokenLinks(t *testing.T) {
	for _, tt := range []struct {
		rule, want string
		make       func(file string) error
	}{
		{"a pipe", "it is not a regular file; put one in its place", func(file string) error { return syscall.Mkfifo(file, 0o600) }},
		{"a link to what is not there", "it is a symbolic link to a missing file; correct the link, or remove it", func(file string) error { return os.Symlink(file+".gone", file) }},
		{"a link to itself", "too many levels", func(file string) error { return os.Symlink(file, file) }},
	} {
		file := filepath.Join(t.TempDir(), "maintenance.yaml")
		if err := tt.make(file); err != nil {
			t.Fatal(err)
		}
		if p, err := Read(file); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %+v, %v", tt.rule, p, err)
		}
		if _, err := Change(file, func(d *Draft) error { d.LiftLockdown(); return nil }); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: it is changed: %v", tt.rule, err)
		}
		if info, err := os.Lstat(file); err != nil || info.Mode().IsRegular() {
			t.Errorf("%s: it has become another file: %v", tt.rule, err)
		}
	}
}

// FuzzParse parses random texts. There is no panic, errors are short, and the methods of a
// parsed plan work.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"lockdown: {text: \"power cut\", since: 2030-01-31T08:00:00Z}\n",
		"planned:\n  - {components: [pc1..pc4, \"h1\"], from: 2030-02-01T08:00:00Z, until: 2030-02-01T12:00:00Z, text: x}\n",
		"a: &a [*a]\nplanned: *a", "planned: &x\n  - *x", "? [a]\n: b", "\xef\xbb\xbflockdown:", "--- !!binary aaaa", "planned: [[[[[[", "<<: {lockdown: 1}",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := Parse(text, "m.yaml")
		if err != nil {
			if e, ok := errors.AsType[*yamlfile.Error](err); !ok || len(e.Problems) == 0 || len(e.Problems) > 101 {
				t.Fatalf("%v", err)
			}
			return
		}
		if p.Lockdown != nil && CheckText(p.Lockdown.Text) != nil {
			t.Fatalf("a lockdown says %q", p.Lockdown.Text)
		}
		names := 0
		for _, w := range p.Planned {
			names += len(w.names)
			if !w.Until.After(w.From) || CheckText(w.Text) != nil || p.WindowAt(first(w), w.From) == nil {
				t.Fatalf("%+v", w)
			}
		}
		if names > maxNames || len(p.Planned) > maxWindows {
			t.Fatalf("%d windows with %d names", len(p.Planned), names)
		}
	})
}

func first(w *Window) string {
	if len(w.names) == 0 {
		return "any"
	}
	return w.names[0]
}
