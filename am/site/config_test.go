package site

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

const smallest = "authority: testbed.example.org\nkeys: [{certificate: a.pem, key: b.pem}]\n"

func TestConfigErrorsHaveAPlace(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       string // parts of the error, separated by |
	}{
		{"UnknownKeyNamesTheNearest", smallest + "lisen: :1\n", "f.yaml:3: unknown key lisen; did you mean listen?"},
		{"UnknownNestedKeyNamesTheNearest", smallest + "leases:\n  provisoned: 3h\n", "f.yaml:4: unknown key leases.provisoned; did you mean leases.provisioned?"},
		{"UnknownKeyInAListEntry", "authority: a\nkeys:\n  - certificate: a\n    keyy: b\n", "f.yaml:4: unknown key keys.keyy; did you mean keys.key?"},
		{"StrangeKeyListsAll", smallest + "log: {colour: red}\n", "f.yaml:3: unknown key log.colour; known here: format, level"},
		{"MetricsForAnybody", smallest + "metrics: {listen: ':9464'}\n", "f.yaml:3: metrics: every host could read the metrics; set token_file or client_ca"},
		{"MetricsWithoutAddress", smallest + "metrics: {token_file: t}\n", "f.yaml:3: metrics.listen: it is missing; write an address and port like :9464"},
		{"MetricsAtNoAddress", smallest + "metrics: {listen: here, token_file: t}\n", "f.yaml:3: metrics.listen: "},
		{"KeyOfAnotherSection", smallest + "allocated_max: 3h\n", "f.yaml:3: unknown key allocated_max; did you mean leases.allocated_max?"},
		{"WrongCaseIsUnknown", smallest + "Listen: :1\n", "unknown key Listen; did you mean listen?"},
		{"KeyTwice", smallest + "listen: :1\nlisten: :2\n", "f.yaml:4: listen is given twice"},
		{"NestedKeyTwice", smallest + "leases:\n  margin: 1h\n  margin: 2h\n", "f.yaml:5: leases.margin is given twice"},
		{"KeysThatDifferInCase", smallest + "listen: :1\nLISTEN: :2\n", "f.yaml:4: unknown key LISTEN; did you mean listen?"},
		{"KeyOfASectionWithADot", smallest + "leases.margin: 1h\n", "f.yaml:3: unknown key leases.margin; known here: ad_extensions, admin, "},
		{"UnknownKeyWithoutValue", smallest + "limits: {rspec: {services: }}\n", "f.yaml:3: unknown key limits.rspec.services; known here: bytes, depth, links, nodes"},
		{"FieldWithoutKey", smallest + "pollproviders: 1s\n", "f.yaml:3: unknown key pollproviders"},
		{"MergedKeys", "x: &x {listen: ':1'}\n<<: *x\n" + smallest, "f.yaml:2: unknown key <<"},
		{"SecondDocument", smallest + "---\nlisten: :1\n", "f.yaml:3: a second YAML document begins here; move its keys into the first"},
		{"NUL", smallest + "listen: ':1\x00'\n", "this is not YAML: control characters are not allowed"},
		{"WrongTag", smallest + "listen: !!int here\n", "f.yaml:3: listen: the value does not fit its tag !!int"},
		{"DeepMaps", smallest + "listen: " + strings.Repeat("{a: ", 5000) + "b" + strings.Repeat("}", 5000) + "\n", "f.yaml:3: listen: it must be a single value"},
		{"TextIsANumber", "authority: 1.10\nkeys: [{certificate: a, key: b}]", "f.yaml:1: authority: 1.1 is not a text in YAML; write it in quotes"},
		{"TextInAListIsANumber", smallest + "hooks:\n  - name: 7\n    command: x\n", "f.yaml:4: hooks.name: 7 is not a text in YAML; write it in quotes"},
		{"TextIsATruthValue", smallest + "policy: true\n", "f.yaml:3: policy: true is not a text in YAML; write it in quotes"},
		{"TextIsADate", smallest + "credentials: {signers: 2026-01-01}\n", "f.yaml:3: credentials.signers: 2026-01-01 00:00:00 +0000 UTC is not a text in YAML"},
		{"NumberIsAFraction", smallest + "limits: {max_connections: 1.5}\n", "limits.max_connections: \"1.5\" is not a whole number"},
		{"NumberBeyond64Bits", smallest + "limits: {max_body: 18446744073709551615}\n", "limits.max_body: \"18446744073709551615\" is not a whole number"},
		{"TruthValueIsANumber", smallest + "audit_required: 7\n", "f.yaml:3: audit_required: \"7\" is neither yes nor no"},
		{"NoAuthority", "keys: [{certificate: a, key: b}]", "authority: the site has no name; set authority"},
		{"AuthorityIsLoopback", "authority: localhost\nkeys: [{certificate: a, key: b}]", "f.yaml:1: authority: \"localhost\" means another site on every host"},
		{"AuthorityIsNoLabel", "authority: a b\nkeys: [{certificate: a, key: b}]", "cannot be part of a URN"},
		{"NoKeys", "authority: a", "keys: the server has no certificate"},
		{"HalfAPair", "authority: a\nkeys: [{certificate: a}]", "pair 1 needs both"},
		{"KeysIsNoList", "authority: a\nkeys: {certificate: a, key: b}", "keys is a list; each entry begins with a dash"},
		{"ListOfWordsIsASection", smallest + "credentials: {signers: {ours: theirs}}\n", "f.yaml:3: credentials.signers is a list; each entry begins with a dash"},
		{"SectionIsAScalar", smallest + "leases: 3h\n", "leases needs keys below it: allocated"},
		{"TimeWithoutUnit", smallest + "stop_timeout: 30\n", "f.yaml:3: stop_timeout|\"30\" is not a time like 30s, 10m, 24h or 30d"},
		{"TimeIsNonsense", smallest + "leases: {provisioned: soon}\n", "f.yaml:3: leases.provisioned|is not a time"},
		{"NumberIsAWord", smallest + "limits: {max_connections: many}\n", "f.yaml:3: limits.max_connections: \"many\" is not a whole number, nor a size like 64K, 16M or 1G"},
		{"NegativeLimit", smallest + "limits: {max_connections: -1}\n", "limits.max_connections: it must not be negative"},
		{"LeaseLongerThanLongest", smallest + "leases: {provisioned: 40d}\n", "f.yaml:3: leases.provisioned: 40d is longer than provisioned_max, 30d; lower provisioned or raise provisioned_max"},
		{"ListenWithoutPort", smallest + "listen: example.org\n", "f.yaml:3: listen: \"example.org\" is not HOST:PORT or :PORT"},
		{"PublicURLWithPath", smallest + "public_url: https://a.example.org:8443/am/3.0\n", "is not https://HOST:PORT"},
		{"PublicURLWithoutTLS", smallest + "public_url: http://a.example.org\n", "is not https://HOST:PORT"},
		{"AdminForEverybody", smallest + "admin: 0.0.0.0:9000\n", "is not a loopback address|for monitors on other hosts use the key metrics"},
		{"UnknownServicesFailure", smallest + "services_failure: ignore\n", "\"ignore\" is not one of report, fail"},
		{"UnknownOrphans", smallest + "orphans: delete\n", "\"delete\" is not one of keep, remove"},
		{"OrphansAtOnce", smallest + "orphans_after: 0s\n", "it must be a time like 10m"},
		{"UnknownChoice", smallest + "empty_describe: maybe\n", "\"maybe\" is not one of empty, not-found"},
		{"UnknownExtension", smallest + "manifest_extensions: [vnode, sliver_info]\n", "\"sliver_info\" is not one of sliver-info, vnode"},
		{"UnknownAdExtension", smallest + "ad_extensions: [omf]\n", "\"omf\" is not one of nitos"},
		{"TooSmallKeys", smallest + "credentials: {min_rsa_bits: 512}\n", "512 is less than 1024"},
		{"NotYAML", "authority: [", "f.yaml:1: at or after line 1 this is not YAML: did not find expected node content; look for"},
		{"Tab", smallest + "\tlog: {level: info}\n", "f.yaml:3: at or after line 3 this is not YAML: |indent with blanks, not tabs"},
		{"AliasesThatMultiply", smallest + "hooks:\n  - &h {command: x, events: [" + strings.Repeat("ready,", 1000) + "]}\n" + strings.Repeat("  - *h\n", 5000),
			"f.yaml: it has more than 100000 values, or its aliases (*NAME) expand to so many; leave some out"},
		{"ManyKeys", smallest + manyKeys(50_000), "f.yaml:3: unknown key k0; known here: |f.yaml:102: unknown key k99; "},
		{"AListIsNoConfig", "- a\n", "needs keys below it: authority, listen"},
		{"TwoMistakesAreBothTold", smallest + "lisen: :1\npublik_url: x\n", "did you mean listen?|did you mean public_url?"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseConfig("/site/f.yaml", []byte(c.text))
			if err == nil {
				t.Fatal("accepted")
			}
			for part := range strings.SplitSeq(c.want, "|") {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("got  %v\nwant %q in it", err, part)
				}
			}
		})
	}
}

// manyKeys returns n unknown keys. viper needs time in the square of n for them.
func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "k%d: 1\n", i)
	}
	return b.String()
}

func TestConfigDefaultsAndPaths(t *testing.T) {
	c, err := ParseConfig("/site/patchbay.yaml", []byte(smallest+"leases: {provisioned: 1d12h, ahead_max: 0}\nstate: /var/lib/state.db\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ what, got, want string }{
		{"listen", c.Listen, ":8443"},
		{"trusted", c.Trusted, "/site/trusted"},
		{"state", c.State, "/var/lib/state.db"},
		{"certificate", c.Keys[0].Certificate, "/site/a.pem"},
		{"key", c.Keys[0].Key, "/site/b.pem"},
		{"provisioned", c.Leases.Provisioned.String(), "36h0m0s"},
		{"provisioned_max", c.Leases.ProvisionedMax.String(), "720h0m0s"},
		{"allocated", c.Leases.Allocated.String(), "10m0s"},
		{"ahead_max", c.Leases.AheadMax.String(), "0s"},
	} {
		if x.got != x.want {
			t.Errorf("%s is %q, want %q", x.what, x.got, x.want)
		}
	}
}

func TestEnvironmentBeatsTheFile(t *testing.T) {
	t.Setenv("PATCHBAY_LISTEN", "127.0.0.1:9")
	t.Setenv("PATCHBAY_LEASES_PROVISIONED_MAX", "2d")
	t.Setenv("PATCHBAY_LIMITS_MAX_CONNECTIONS", "7")
	t.Setenv("PATCHBAY_CREDENTIALS_SHA1_SIGNATURES", "true")
	c, err := ParseConfig("/site/f.yaml", []byte(smallest+"listen: :1\n"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Listen != "127.0.0.1:9" || c.Leases.ProvisionedMax != 48*time.Hour || c.Limits.MaxConnections != 7 || !c.Credentials.SHA1Signatures {
		t.Errorf("got %q, %s, %d, %v", c.Listen, c.Leases.ProvisionedMax, c.Limits.MaxConnections, c.Credentials.SHA1Signatures)
	}
	t.Setenv("PATCHBAY_LISTEN", "nowhere")
	if _, err = ParseConfig("/site/f.yaml", []byte(smallest)); err == nil || !strings.Contains(err.Error(), "environment PATCHBAY_LISTEN: listen:") {
		t.Errorf("the message does not name the variable: %v", err)
	}
}

// TestVariablesThatSetNothing sets variables with the names of keys in lists, which other programs
// use, and empty ones.
func TestVariablesThatSetNothing(t *testing.T) {
	t.Setenv("PATCHBAY_HOOKS_SECRET", "x")
	t.Setenv("PATCHBAY_LISTEN", "")
	c, err := ParseConfig("/site/f.yaml", []byte(smallest+"listen: :1\nhooks: [{name: a, url: 'https://a.example.org/', secret: key}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Hooks[0].Secret != "/site/key" || c.Listen != ":1" || c.Origin.Where("listen") != "/site/f.yaml:3" {
		t.Errorf("got the secret %q, and listen %q of %s", c.Hooks[0].Secret, c.Listen, c.Origin.Where("listen"))
	}
	t.Setenv("PATCHBAY_LEASES", "1h")
	if _, err := ParseConfig("/site/f.yaml", []byte(smallest)); err == nil {
		t.Error("a variable for a section is accepted")
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "16777216": 16 << 20, "64K": 64 << 10, "16M": 16 << 20, "1G": 1 << 30, "-1": -1, "16_777_216": 16 << 20, "0x1000": 4096} {
		if got, err := parseSize(text); err != nil || got != want {
			t.Errorf("%q: got %d, %v, want %d", text, got, err, want)
		}
	}
	for _, bad := range []string{"", "M", "16MB", "1.5G", "9999999999999G", "many"} {
		if got, err := parseSize(bad); err == nil {
			t.Errorf("%q was read as %d", bad, got)
		}
	}
}

func TestMisspeltVariablesAreMistakes(t *testing.T) {
	err := (origin{File: "/site/patchbay.yaml"}).checkEnvironment([]string{"PATH=/bin", "PATCHBAY_LISTEN=:1", "PATCHBAY_CONFIG=x", "PATCHBAY_REQUIRE=", "PATCHBAY_LEASES_PROVISONED=1d", "PATCHBAY_KEYS=x", "PATCHBAY_CREDENTIALS_SIGNERS=x", "PATCHBAY_LEASES=1h", "PATCHBAY_LIMITS_RSPEC=", "PATCHBAY_=x", "PATCHBAY_HOOKS_SECRET=x", "PATCHBAY_WHATEVER_IT_IS=1"})
	if err == nil {
		t.Fatal("accepted")
	}
	has(t, err.Error(), "environment PATCHBAY_LEASES_PROVISONED: ", "did you mean PATCHBAY_LEASES_PROVISIONED?",
		"environment PATCHBAY_KEYS: the values of keys can be set in /site/patchbay.yaml only; write them there, and remove the variable",
		"environment PATCHBAY_CREDENTIALS_SIGNERS: the values of credentials.signers can be set in /site/patchbay.yaml only",
		"environment PATCHBAY_LEASES: leases is a section; set a key of it, such as PATCHBAY_LEASES_ALLOCATED, or write it in /site/patchbay.yaml",
		"environment PATCHBAY_LIMITS_RSPEC: limits.rspec is a section")
	for _, good := range []string{"PATCHBAY_LISTEN:", "PATCHBAY_CONFIG:", "PATCHBAY_REQUIRE:", "PATCHBAY_WHATEVER_IT_IS:", "PATCHBAY_:", "PATCHBAY_HOOKS_SECRET:"} {
		if strings.Contains(err.Error(), good) {
			t.Errorf("%s is refused: %v", good, err)
		}
	}
}

func FuzzConfig(f *testing.F) {
	f.Add(smallest)
	f.Add(smallest + "leases: {provisioned: 1d12h}\nlimits:\n  max_connections: 7\n")
	f.Add("keys: &a [*a]\n")
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := ParseConfig("/site/f.yaml", []byte(text)); err == nil && c.Authority == "" {
			t.Error("a site without a name was accepted")
		}
	})
}

func TestLogsHaveUnitsAndOmitEmptyValues(t *testing.T) {
	for format, want := range map[string]string{
		"json": `{"level":"INFO","msg":"call","task":"t1","took_seconds":0.004942,"last":{"after_seconds":90},"code":0}`,
		"text": `level=INFO msg=call task=t1 took=4.942ms last.after=1m30s code=0`,
	} {
		var out bytes.Buffer
		log := LogConfig{Format: format}.New(&out).With("request", "", "task", "t1")
		log.Info("call", "took", 4942*time.Microsecond, "error", "", slog.Group("last", "after", 90*time.Second), "code", 0)
		got := regexp.MustCompile(`"time":"[^"]*",|time=\S+ `).ReplaceAllString(strings.TrimSpace(out.String()), "")
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", format, got, want)
		}
	}
}

// TestPermissionErrorNamesTheReaders checks that an error about missing permission names the users who
// may read the file.
func TestPermissionErrorNamesTheReaders(t *testing.T) {
	file := filepath.Join(t.TempDir(), ConfigName)
	for err, want := range map[error]string{
		fs.ErrPermission: file + ": cannot be read: permission denied; only the user 54321 and root may read it: name another site with --config, or put sudo before the command",
		io.ErrNoProgress: file + ": cannot be read: " + io.ErrNoProgress.Error(),
	} {
		if os.Getuid() == 0 {
			if err := os.Chown(filepath.Dir(file), 54321, 54321); err != nil {
				t.Fatal(err)
			}
		} else if me, err := user.Current(); err == nil {
			want = strings.Replace(want, "the user 54321", me.Username, 1)
		}
		if got := cannotRead(file, err).Error(); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
}

// TestUnknownKeysHideNoWrongValues has an unknown key and a wrong value in one file. Both are
// reported.
func TestUnknownKeysHideNoWrongValues(t *testing.T) {
	_, err := ParseConfig("f.yaml", []byte(smallest+"listenn: :1\nleases: {margin: soon, margn: 1h}\nhooks: {}\n"))
	for _, want := range []string{"f.yaml:3: unknown key listenn", "f.yaml:4: unknown key leases.margn", "f.yaml:4: leases.margin: ", "f.yaml:5: hooks is a list"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
}

// TestAliasesAndTagsChangeNoKeys has files that would mean one thing to the check of the keys and
// another to the reader of the values.
func TestAliasesAndTagsChangeNoKeys(t *testing.T) {
	const base = "authority: a.example.org\nkeys: [{certificate: a, key: b}]\n"
	for text, want := range map[string]string{
		"maintenance: &admin ORPHANS\n*admin : remove\n": ":4: the file has an alias for a key",
		"state: &admin pollproviders\n*admin : 1h\n":     ":4: the file has an alias for a key",
		"listen: :1\nstate: x\nlisten: :2\n":             ":5: listen is given twice, first in line 3",
		"!!null listen: :1\n":                            ":3: the key listen has the tag !!null",
		"log: {level: !!null debug}\nx: 1\n":             ":3: log.level: the value does not fit its tag !!null",
	} {
		c, err := parseConfig("patchbay.yaml", []byte(base+text), false)
		if err == nil {
			t.Errorf("%s\nis read as %+v", text, c)
		} else if has(t, err.Error(), want); strings.Contains(err.Error(), "the site has no name") {
			t.Errorf("%s\n%v", text, err)
		}
	}
}
