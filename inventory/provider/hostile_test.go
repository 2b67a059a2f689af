package provider

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// inspector is a provider that records its own environment. It reads it without a shell's
// own changes, because a shell changes its signals while it starts a program.
const inspector = `#!/bin/sh
while read -r line; do echo "$line"; done </proc/$$/status >STATE/status
read -r line </proc/$$/stat; echo "$line" >STATE/stat
ls -l /proc/self/fd >STATE/files
if (exec </dev/tty) 2>/dev/null; then echo yes >STATE/terminal; fi
echo '{"resources":[]}'
`

// TestProviderInheritsNothing opens files in every way before it runs a provider, and
// checks what the provider inherits.
func TestProviderInheritsNothing(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	write(t, filepath.Join(dir, "double.prov"), strings.ReplaceAll(inspector, "STATE", state), 0o755)
	write(t, filepath.Join(dir, "double.yaml"), nodeMetadata, 0o644)
	p, err := Open(filepath.Join(dir, "double.prov"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	var open []int
	keep := func(fd int, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, fd)
	}
	secret := filepath.Join(dir, "secret")
	write(t, secret, "hush", 0o600)
	for _, flags := range []int{0, unix.O_CLOEXEC} {
		keep(unix.Open(secret, unix.O_RDONLY|flags, 0))
		keep(unix.Open(dir, unix.O_PATH|flags, 0))
		keep(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|flags, 0)) // SOCK_CLOEXEC is O_CLOEXEC
		var pair [2]int
		if err := unix.Pipe2(pair[:], flags); err != nil {
			t.Fatal(err)
		}
		keep(pair[0], nil)
		keep(pair[1], nil)
	}
	keep(unix.FcntlInt(uintptr(open[0]), unix.F_DUPFD, 300))
	defer func() {
		for _, fd := range open {
			unix.Close(fd)
		}
	}()
	if _, err := p.Get(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(state, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}

	// ls has a descriptor of the folder that it lists.
	files := regexp.MustCompile(`(?m)(\d+) -> (.*)$`).FindAllStringSubmatch(read("files"), -1)
	for _, f := range files {
		if f[0] != f[1]+" -> "+f[2] || f[1] > "2" && !strings.HasPrefix(f[2], "/proc/") || len(f[1]) > 1 {
			t.Errorf("descriptor %s is %s", f[1], f[2])
		}
	}
	if len(files) != 4 {
		t.Errorf("%d descriptors, want the three streams and that of ls:\n%s", len(files), read("files"))
	}

	var pid, parent, group, session, terminal int
	if _, err := fmt.Sscanf(regexp.MustCompile(`\(.*\) \S`).ReplaceAllString(read("stat"), ""), "%d %d %d %d %d",
		&pid, &parent, &group, &session, &terminal); err != nil {
		t.Fatal(err)
	}
	if parent != os.Getpid() || group != pid || session != pid || terminal != 0 {
		t.Errorf("process %d: parent %d, group %d, session %d, terminal %d; want it to lead both and have no terminal", pid, parent, group, session, terminal)
	}
	if _, err := os.Stat(filepath.Join(state, "terminal")); err == nil {
		t.Error("a terminal could be opened")
	}

	own, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	line := func(text, key string) string {
		t.Helper()
		m := regexp.MustCompile(`(?m)^` + key + `:\s*(.*)$`).FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("no %s in %s", key, text)
		}
		return m[1]
	}
	status := read("status")
	if blocked := line(status, "SigBlk"); strings.Trim(blocked, "0") != "" {
		t.Errorf("signals %s are blocked", blocked)
	}
	if ignored, ours := line(status, "SigIgn"), line(string(own), "SigIgn"); ignored != ours {
		t.Errorf("signals %s are ignored, here %s", ignored, ours)
	}
	if mask, ours := line(status, "Umask"), line(string(own), "Umask"); mask != ours {
		t.Errorf("umask %s, here %s", mask, ours)
	}
}

// TestHostileAnswers parses invalid answers: each is refused as a whole, or affects only
// its own resource.
func TestHostileAnswers(t *testing.T) {
	whole := func(items string) string { return `{"resources":[` + items + `]}` }
	deep := strings.Repeat(`[`, 9000) + strings.Repeat(`]`, 9000)
	long := strings.Repeat("x", 1<<20)
	const refused, broken, good = "refused", "broken", "good"
	for _, tt := range []struct{ rule, answer, want, cpu string }{
		{"invalid UTF-8 in a value", whole("{\"name\":\"a\",\"cpu\":\"\xff\"}"), refused, ""},
		{"invalid UTF-8 in a key that nobody knows", whole("{\"name\":\"a\",\"\xc0\xaf\":1}"), refused, ""},
		{"overlong UTF-8", whole("{\"name\":\"\xc1\xa1\"}"), refused, ""},
		{"a byte order mark", "\ufeff" + whole(`{"name":"a"}`), refused, ""},
		{"UTF-16", "{\x00\"\x00r\x00\"\x00:\x00[\x00]\x00}\x00", refused, ""},
		{"a NUL behind the answer", whole(`{"name":"a"}`) + "\x00", refused, ""},
		{"a comment", `{"resources":[/* none */]}`, refused, ""},
		{"not a number", whole(`{"name":"a","cpu":NaN}`), refused, ""},
		{"one name in two spellings", whole(`{"name":"a"},{"name":"\u0061"}`), refused, ""},
		{"one key in two spellings", whole(`{"name":"a","cpu":"1","c\u0070u":"2"}`), refused, ""},
		{"a name that is an object", whole(`{"name":{"name":"a"}}`), refused, ""},
		{"an empty name", whole(`{"name":""}`), refused, ""},
		{"a name of a megabyte", whole(`{"name":"` + long + `"}`), refused, ""},
		{"resources twice", `{"resources":[{"name":"a"}],"resources":[]}`, refused, ""},
		{"a resource that is a list", whole(`["a"]`), refused, ""},
		{"a resource that is null", whole(`null`), refused, ""},
		{"deep lists", whole(`{"name":"a","cpu":` + strings.Repeat("[", 100_000) + `}`), refused, ""},

		{"a list where text belongs", whole(`{"name":"a","cpu":["1"]}`), broken, ""},
		{"an object where text belongs", whole(`{"name":"a","cpu":{}}`), broken, ""},
		{"a number beyond all", whole(`{"name":"a","cpu":1e999999}`), broken, ""},
		{"a number of a thousand digits", whole(`{"name":"a","cpu":` + strings.Repeat("9", 1000) + `}`), broken, ""},
		{"text of a megabyte", whole(`{"name":"a","cpu":"` + long + `"}`), broken, ""},
		{"an item of a megabyte", whole(`{"name":"a","users":["` + long + `"]}`), broken, ""},
		{"too many items", whole(`{"name":"a","users":[` + strings.Repeat(`"x",`, MaxItems) + `"x"]}`), broken, ""},
		{"items of other kinds", whole(`{"name":"a","users":[1,null]}`), broken, ""},
		{"a word that is not in the type", whole(`{"name":"a","state":"READY"}`), broken, ""},
		{"text where true or false belongs", whole(`{"name":"a","fast":"true"}`), broken, ""},
		{"deep where text belongs", whole(`{"name":"a","cpu":` + deep + `}`), broken, ""},

		{"attributes that nobody declared", whole(`{"name":"a","cpu":"1","ghost":` + deep + `,"__proto__":{}}`), good, "1"},
		{"a half surrogate", whole(`{"name":"a","cpu":"\ud800"}`), good, "\ufffd"},
		{"control characters", whole(`{"name":"a","cpu":"\u0000\u001b[2J\n"}`), good, "\x00\x1b[2J\n"},
		{"white space everywhere", " \n" + `{ "resources" : [ { "name" : "a" , "cpu" : "1" } ] }` + strings.Repeat(" ", 1<<16), good, "1"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			got, err := nodeProvider(t).readGet([]byte(tt.answer))
			a, told := got["a"]
			switch is := map[bool]string{true: refused}[err != nil]; {
			case tt.want == refused:
				if is != refused || got != nil {
					t.Errorf("read as %v", got)
				}
			case err != nil || !told || len(got) != 1:
				t.Errorf("%v, %v; want the resource a alone", got, err)
			case tt.want == broken && (a.Err == nil || a.Resource != nil):
				t.Errorf("read as %v", a.Resource)
			case tt.want == good && (a.Err != nil || a.Resource["cpu"] != tt.cpu):
				t.Errorf("read as %q, %v; want %q", a.Resource["cpu"], a.Err, tt.cpu)
			}
			if err != nil && len(err.Error()) > 4096 {
				t.Errorf("the refusal has %d bytes", len(err.Error()))
			}
		})
	}
}

// TestHostileAnswersUseLimitedMemory parses the largest answers and measures the
// allocated memory.
func TestHostileAnswersUseLimitedMemory(t *testing.T) {
	const size = 4 << 20
	fill := func(before, item, after string) string {
		return before + strings.Repeat(item, (size-len(before)-len(after))/len(item)) + after
	}
	for rule, text := range map[string]string{
		"unknown members":  fill(`{"x":[`, `{"y":[]},`, `0],"resources":[]}`),
		"empty strings":    fill(`{"resources":[{"name":"a","users":[`, `"",`, `""]}]}`),
		"escapes":          fill(`{"resources":[{"name":"a","cpu":"`, `\u0061`, `"}]}`),
		"brackets":         fill(`{"x":[`, `[],`, `0],"resources":[]}`),
		"an error's text":  fill(`{"error":{"kind":"failed","message":"`, `\n`, `"}}`),
		"an unknown error": fill(`{"error":{"kind":"`, `x`, `"}}`),
	} {
		t.Run(rule, func(t *testing.T) {
			b := []byte(text)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := nodeProvider(t).readGet(b)
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; used > 8*size {
				t.Errorf("%d bytes were allocated for an answer of %d", used, len(b))
			}
			if err != nil && len(err.Error()) > 4096 {
				t.Errorf("the refusal has %d bytes", len(err.Error()))
			}
		})
	}
}
