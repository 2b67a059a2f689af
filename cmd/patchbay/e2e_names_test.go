package main

import (
	"encoding/xml"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"patchbay/am/testkit/wait"
	localtestbed "patchbay/inventory/local/testbed"
	"patchbay/rspec"
)

// hostileWords have a meaning for shells, paths, terminals, formats, YAML, JSON or ssh
// configurations. %c is a file that must not be created.
var hostileWords = []string{
	"$(touch %c) `touch %c`; touch %c & touch %c | touch %c",
	"../../../../../../../../..%c",
	"%c",
	"-oProxyCommand=touch%20%c",
	`x","ensure":"absent","z":["`,
	"- &a [*a, !!python/object/apply:os.system ['touch %c']]",
	"%s%n%d%!v(PANIC) {{.}} ${HOME} %(x)s",
	"\u202eevil\u2028\u200bä\U0001f600",
	"eth0", "..",
	strings.Repeat("lo-", 60),
	"' OR \"1\"=\"1' <b>&amp;]]>\\",
}

// linesOfWords have several lines, or escapes for them; the local testbed refuses such
// names.
var linesOfWords = []string{
	"a\nHost *\n\tProxyCommand touch %c\n",
	"127.0.0.1 localhost\n10.0.0.1\tevil.example.org # %c",
	"a\rb", "a\tb", "a\u0085b", "a\x7fb",
}

// namesRequest requests a node for each word, with the word as every name: of the node,
// its interface, image and link, and the path of an install.
func namesRequest(words []string) string {
	attr := func(name, value string) string {
		var b strings.Builder
		xml.EscapeText(&b, []byte(value))
		return " " + name + `="` + b.String() + `"`
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<rspec type="request" xmlns="%s">`, rspec.Namespace)
	for _, w := range words {
		b.WriteString("<node" + attr("client_id", w) + `><sliver_type name="container"><disk_image` + attr("name", w) + "/></sliver_type>")
		b.WriteString("<services><install" + attr("url", "file:///"+w) + attr("install_path", "/tmp/"+w) + `/></services>`)
		b.WriteString("<interface" + attr("client_id", w+":0") + "/></node>")
	}
	for i := range words[1:] {
		b.WriteString("<link" + attr("client_id", words[i]+" link") + "><interface_ref" + attr("client_id", words[i]+":0") + "/></link>")
	}
	b.WriteString("</rspec>")
	return b.String()
}

// TestOnHostNamesOfDocumentsStayNames creates real nodes from a request with hostile
// names, and checks that the names reach nothing else.
func TestOnHostNamesOfDocumentsStayNames(t *testing.T) {
	s := newLocalSite(t, "names.example.org")
	// The path must be short, since client_ids are limited.
	dir, err := os.MkdirTemp("", "n")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	canary := filepath.Join(dir, "canary")
	var words []string
	for _, w := range hostileWords {
		words = append(words, strings.ReplaceAll(w, "%c", canary))
	}
	s.createUsers("first")
	// No limits: as many nodes as words, on any disk.
	write(t, filepath.Join(s.dir, "policy.yaml"), "rules: []\n")
	s.start()
	request := filepath.Join(t.TempDir(), "request.xml")
	for _, w := range linesOfWords {
		w = strings.ReplaceAll(w, "%c", canary)
		write(t, request, namesRequest([]string{w}))
		code, out := runCommand(t, "call", "--url", s.url, "--user", filepath.Join(s.dir, "users", "alice"), "--slice", "first", "Allocate", request)
		if code == 0 || !strings.Contains(out, "client_id must be one line of at most 1024 bytes") || strings.Contains(out, w) {
			t.Errorf("%q: %d\n%s", w, code, out)
		}
	}
	write(t, request, namesRequest(words))
	s.call("Allocate", request)
	s.call("Provision")
	wait.Until(t, "all nodes are made", func() bool { return strings.Count(s.call("Status"), "geni_notready") >= len(words) })
	s.call("PerformOperationalAction", "start")
	wait.Until(t, "all nodes are ready", func() bool { return strings.Count(s.call("Status"), "geni_ready") >= len(words) })

	doors := s.logins()
	for _, w := range words {
		at, ok := doors[w]
		if !ok {
			t.Errorf("%q has no login in the manifest", w)
			continue
		}
		out, err := s.ssh("alice", at, "hostname; ls /sys/class/net; echo; cat /etc/hosts")
		if err != nil {
			t.Errorf("%q: %v", w, err)
			continue
		}
		names, hosts, _ := strings.Cut(out, "\n\n")
		list := strings.Split(names, "\n")
		if !label.MatchString(list[0]) {
			t.Errorf("%q has the host name %q", w, list[0])
		}
		for _, device := range list[1:] {
			if !device15.MatchString(device) {
				t.Errorf("%q has the interface %q", w, device)
			}
		}
		for line := range strings.Lines(hosts) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' && !hostsLine.MatchString(line) {
				t.Errorf("%q: its table of hosts has the line %q", w, line)
			}
		}
		if _, err := s.ssh("alice", at, "geni-get client_id"); err != nil {
			t.Errorf("%q: geni-get client_id: %v", w, err)
		}
		if out, err := s.ssh("alice", at, "test ! -e "+canary+" || echo made"); err != nil || out != "" {
			t.Errorf("%q: something was run inside: %q, %v", w, out, err)
		}
	}
	s.local("list")
	s.call("Delete")
	wait.Until(t, "the nodes are gone", func() bool { return !strings.Contains(s.local("list"), "container") })

	if _, err := os.Lstat(canary); err == nil {
		t.Error("something was run on the host")
	}
	pathsBelow(t, filepath.Join(localtestbed.Root, s.instance))
	s.stop()
	for line := range strings.Lines(readFile(t, s.log.Name())) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(line, "time=") || strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\u202e' || r == '\u2028' || r == '\u0085' }) {
			t.Errorf("the log has the line %q", line)
		}
	}
}

var (
	label     = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	device15  = regexp.MustCompile(`^[a-z0-9-]{1,15}$`)
	hostsLine = regexp.MustCompile(`^[0-9a-f.:]+([ \t]+[a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?)+$`)
	fileName  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,80}$`)
)

// pathsBelow checks the names of the testbed's files. It ignores the content of images.
func pathsBelow(t *testing.T, dir string) {
	t.Helper()
	seen := 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			if os.IsNotExist(err) {
				return nil // the testbed removes files meanwhile
			}
			return err
		}
		if path == dir {
			return nil
		}
		seen++
		if !fileName.MatchString(e.Name()) {
			t.Errorf("the testbed has made %q", path)
		}
		if e.IsDir() && slices.Contains([]string{"images", "mnt", "root"}, e.Name()) {
			return filepath.SkipDir
		}
		return nil
	})
	if err != nil || seen == 0 {
		t.Errorf("%d files below %s: %v", seen, dir, err)
	}
}
