package authority

import (
	"bufio"
	"context"
	"encoding/pem"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/am"
	"patchbay/am/api"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/urn"
	"patchbay/credentials"
	"patchbay/credentials/cert"
	"patchbay/credentials/trial"
)

var updateAnswers = flag.Bool("update", false, "write the answers in testdata/calls")

// today is the time of all tests.
var today = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// keyLine is a public SSH key.
const keyLine = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJGk0pcSzAvEoHLhyCHeCyDVEKNGmVFCVBcxGz5KvJkR"

// template is the folder of an authority that tests copy, because keys take long to generate.
var template = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "patchbay-authority-")
	if err != nil {
		panic(err)
	}
	for name, users := range map[string][]string{"example.org": {"alice", "bob", "carol"}, "elsewhere.org": {"alice"}} {
		a, err := trial.Create(filepath.Join(dir, name), name, today)
		if err != nil {
			panic(err)
		}
		for _, u := range users {
			if _, err := a.UserWithKeys(u, []byte(strings.Replace(keyLine, "AIJGk", "AI"+map[string]string{"alice": "aaa", "bob": "bbb", "carol": "ccc"}[u], 1)), today); err != nil {
				panic(err)
			}
		}
		if _, err := a.Tool("portal", today); err != nil {
			panic(err)
		}
	}
	return dir
})

func TestMain(m *testing.M) {
	if dir := os.Getenv(killedDir); dir != "" {
		writeUntilKilled(dir)
	}
	code := m.Run()
	os.RemoveAll(template())
	os.Exit(code)
}

// fixture is an authority with the members alice, bob and carol.
type fixture struct {
	t *testing.T
	*Authority
	*Service
	dir     string
	now     time.Time
	slivers map[string][]am.Sliver // by slice, at the site's aggregate
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, dir: t.TempDir(), now: today, slivers: map[string][]am.Sliver{}}
	for _, name := range []string{"example.org", "elsewhere.org"} {
		if err := os.CopyFS(filepath.Join(f.dir, name), os.DirFS(filepath.Join(template(), name))); err != nil {
			t.Fatal(err)
		}
	}
	f.open()
	return f
}

// open opens the authority again, as after a restart.
func (f *fixture) open() {
	f.t.Helper()
	var err error
	if f.Authority != nil {
		err = f.Authority.Close()
	}
	if err != nil {
		f.t.Fatal(err)
	}
	if f.Authority, err = Open(f.dir, filepath.Join(f.dir, "example.org")); err != nil {
		f.t.Fatal(err)
	}
	f.Service, err = New(f.Authority, f.serviceConfig())
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) serviceConfig() Config {
	var anchors []cert.Anchor
	for _, name := range []string{"example.org", "elsewhere.org"} {
		anchors = append(anchors, cert.Anchor{Certificate: f.read(name, "authority.pem")[0]})
	}
	return Config{
		Identify: credentials.New(cert.NewAnchors(anchors...), credentials.Config{}), PublicURL: "https://am.example.org:8443", Invite: true,
		Manager: urn.MustParse("urn:publicid:IDN+example.org+authority+cm"), SoftwareVersion: "test", Now: func() time.Time { return f.now },
		Slivers:            func(slice urn.URN) ([]am.Sliver, error) { return f.slivers[slice.Name], nil },
		ServerCertificates: func() ([][]byte, error) { return [][]byte{f.Certificate()}, nil },
	}
}

func (f *fixture) read(path ...string) []*cert.Certificate {
	f.t.Helper()
	text, err := os.ReadFile(filepath.Join(f.dir, filepath.Join(path...)))
	if err != nil {
		f.t.Fatal(err)
	}
	list, err := cert.ParsePEM(text)
	if err != nil {
		f.t.Fatal(err)
	}
	return list
}

// chain returns the certificates that a user's client sends. eve is alice of another authority,
// portal a tool. nobody has no certificate.
func (f *fixture) chain(who string) (raw [][]byte) {
	f.t.Helper()
	path := []string{"example.org", "users", who + ".pem"}
	switch who {
	case "nobody":
		return nil
	case "eve":
		path = []string{"elsewhere.org", "users", "alice.pem"}
	case "portal":
		path = []string{"example.org", "tools", "portal.pem"}
	}
	for _, c := range f.read(path...) {
		raw = append(raw, c.Raw)
	}
	return raw
}

func (f *fixture) send(who, path string, body []byte) []byte {
	return f.Serve(context.Background(), path, api.Request{ID: "1", Chain: f.chain(who), Body: body}).Body
}

type answer struct {
	code   Code
	value  xmlrpc.Value
	output string
}

func (f *fixture) call(who, path, method string, params ...xmlrpc.Value) answer {
	f.t.Helper()
	body, err := xmlrpc.AppendCall(nil, xmlrpc.Call{Method: method, Params: params})
	if err != nil {
		f.t.Fatal(err)
	}
	return decodeAnswer(f.t, f.send(who, path, body))
}

func decodeAnswer(t *testing.T, body []byte) answer {
	t.Helper()
	v, err := xmlrpc.DecodeResponse(body, xmlrpc.Limits{Values: 1_000_000})
	if err != nil {
		t.Fatalf("%v\n%s", err, body)
	}
	s := v.(xmlrpc.Struct)
	code, _ := s.Get("code")
	value, _ := s.Get("value")
	output, _ := s.Get("output")
	return answer{Code(code.(int)), value, output.(string)}
}

// must fails unless the call succeeded.
func (f *fixture) must(who, path, method string, params ...xmlrpc.Value) xmlrpc.Value {
	f.t.Helper()
	a := f.call(who, path, method, params...)
	if a.code != None {
		f.t.Fatalf("%s of %s: %s", method, who, a.output)
	}
	return a.value
}

func options(name string, members ...xmlrpc.Member) xmlrpc.Struct {
	return xmlrpc.Struct{{Name: name, Value: xmlrpc.Struct(members)}}
}

func text(name string, v xmlrpc.Value) xmlrpc.Member { return xmlrpc.Member{Name: name, Value: v} }

var none = []xmlrpc.Value{}

func userURN(name string) string  { return "urn:publicid:IDN+example.org+user+" + name }
func sliceURN(name string) string { return "urn:publicid:IDN+example.org+slice+" + name }

func (f *fixture) createSlice(who, name string, more ...xmlrpc.Member) {
	f.t.Helper()
	f.must(who, "/sa/2", "create", "SLICE", none, options("fields", append(more, text("SLICE_NAME", name))...))
}

// add makes a user a member of a slice.
func (f *fixture) add(slice, who string, role Role) {
	f.t.Helper()
	f.must("alice", "/sa/2", "modify_membership", "SLICE", sliceURN(slice), none, xmlrpc.Struct{{Name: "members_to_add", Value: []xmlrpc.Value{
		xmlrpc.Struct{text("SLICE_MEMBER", userURN(who)), text("SLICE_ROLE", string(role))}}}})
}

var (
	credentialForm  = regexp.MustCompile(`(?s)&lt;\?xml.*?&lt;/signed-credential&gt;\n?`)
	certificateForm = regexp.MustCompile(`(?s)(-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n?)+`)
	uuidForm        = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	presentedForm   = regexp.MustCompile(`@(\w+)'s credential for (\w+)@`)
	memberForm      = regexp.MustCompile(`(<struct>|</member>|<data>)<`)
)

// TestCallsOfClients sends the calls of omni, geni-lib and jFed as their libraries write them, in
// order, to one authority. Texts that differ in each run are replaced in the answers.
func TestCallsOfClients(t *testing.T) {
	f := newFixture(t)
	files, err := filepath.Glob("testdata/calls/*.call")
	if err != nil || len(files) < 70 {
		t.Fatalf("%d calls, %v", len(files), err)
	}
	slices.Sort(files)
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		head, body, _ := strings.Cut(string(content), "\n")
		who, path, _ := strings.Cut(head, " ")
		body = presentedForm.ReplaceAllStringFunc(body, func(s string) string {
			m := presentedForm.FindStringSubmatch(s)
			list := f.must(m[1], "/sa/2", "get_credentials", sliceURN(m[2]), none, xmlrpc.Struct{}).([]xmlrpc.Value)
			doc, _ := list[0].(xmlrpc.Struct).Get("geni_value")
			return string(xmlrpc.AppendText(nil, doc.(string)))
		})
		got := string(f.send(who, path, []byte(body)))
		for _, x := range []struct {
			form *regexp.Regexp
			by   string
		}{{credentialForm, "CREDENTIAL"}, {certificateForm, "CERTIFICATE"}, {uuidForm, "UUID"}, {memberForm, "$1\n<"}} {
			got = x.form.ReplaceAllString(got, x.by)
		}
		golden := strings.TrimSuffix(file, ".call") + ".answer"
		if *updateAnswers {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), got); d != "" {
			t.Errorf("%s: -want +got\n%s", file, d)
		}
	}
}

func (f *fixture) callWith(chain [][]byte, path, method string, params ...xmlrpc.Value) answer {
	f.t.Helper()
	body, err := xmlrpc.AppendCall(nil, xmlrpc.Call{Method: method, Params: params})
	if err != nil {
		f.t.Fatal(err)
	}
	return decodeAnswer(f.t, f.Serve(context.Background(), path, api.Request{ID: "1", Chain: chain, Body: body}).Body)
}

func mustURN(s string) urn.URN { return urn.MustParse(s) }

// runKilled starts the program, passes each of its lines to enough, and kills it with SIGKILL when
// that returns true. It returns how many more lines the program has printed, and one for a commit
// without a line.
func runKilled(t *testing.T, program, dir string, enough func(string) bool) (more int) {
	t.Helper()
	cmd := exec.Command(program, "-test.run=^$")
	cmd.Env = append(os.Environ(), killedDir+"="+dir)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines, killed := bufio.NewReader(out), false
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			break
		}
		if killed {
			more++
		} else if enough(line) {
			killed = true
			cmd.Process.Kill()
		}
	}
	cmd.Wait()
	return more + 1
}

func encode(raw []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}
