package am_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/doc"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of packages in ARCHITECTURE.md")

// allowedImports lists for each package its layer, its name, and the packages and
// modules that it imports, without the standard library; C is cgo. A package imports
// only packages of a smaller layer. Tests may import more.
const allowedImports = `
0  am/urn
0  am/api/xmlrpc
0  schemas
0  rspec/match
0  rspec/step
0  rspec/hostname
0  inventory/nameset
0  credentials/rule
0  am/service/budget
0  am/testkit/wait
0  am/testkit/require             go.uber.org/goleak
0  am/testkit/hoststate           github.com/vishvananda/netlink
1  am/testkit/program             am/display am/testkit/require golang.org/x/sys
1  am/testkit/netlab              am/testkit/require github.com/vishvananda/netlink golang.org/x/sys
1  am/testkit/disk                am/testkit/require golang.org/x/sys
0  am/file                        github.com/google/renameio/v2 golang.org/x/sys
1  am/executable                  am/file golang.org/x/sys
0  am/display
1  am/site/clock                  golang.org/x/sys
1  am                             am/urn rspec/hostname rspec/step
1  schemas/yamlfile               am/display go.yaml.in/yaml/v3
1  schemas/xmltree                am/display credentials/rule schemas C github.com/lestrrat-go/libxml2
1  credentials/cert               am/display am/urn credentials/rule golang.org/x/crypto
2  credentials/dsig               am/display credentials/cert credentials/rule schemas/xmltree golang.org/x/crypto
2  inventory                      am am/urn inventory/nameset rspec/match rspec/step schemas/yamlfile go.yaml.in/yaml/v3 golang.org/x/sys
3  credentials                    am am/urn credentials/cert credentials/dsig credentials/rule schemas/xmltree
3  credentials/trial              am/file am/urn credentials/cert credentials/dsig github.com/google/uuid golang.org/x/crypto
4  credentials/trial/trialtest    am/urn credentials/trial
3  rspec                          am/display am/urn rspec/hostname rspec/match rspec/step schemas schemas/xmltree
3  inventory/provider             am am/display am/executable am/urn rspec/match go.yaml.in/yaml/v3
3  am/store                       am am/file am/urn go.etcd.io/bbolt
4  inventory/provider/providertest am inventory/provider rspec/match github.com/google/uuid
3  am/service/maintenance         am/file inventory/nameset schemas/yamlfile go.yaml.in/yaml/v3
4  rspec/generate                 inventory rspec rspec/match schemas
5  rspec/radl                     am/display am/urn inventory rspec rspec/generate rspec/match rspec/step rspec/view schemas schemas/xmltree go.yaml.in/yaml/v3
5  rspec/blueprint                am/display inventory rspec rspec/generate rspec/hostname rspec/match rspec/step schemas/yamlfile go.yaml.in/yaml/v3
6  rspec/compile                  inventory rspec rspec/blueprint rspec/generate rspec/radl golang.org/x/sys
2  rspec/view                     am/urn schemas schemas/xmltree
3  rspec/draw                     am/display rspec/view
4  rspec/manifesttest
4  inventory/provider/simulated   am/display inventory/provider rspec/step schemas/yamlfile go.yaml.in/yaml/v3
4  am/service/lease               am am/service/maintenance am/store am/urn inventory rspec/match
4  am/service/policy              am am/display am/urn inventory/nameset schemas/yamlfile go.yaml.in/yaml/v3
4  am/follow/audit                am am/display am/file am/store am/urn
4  am/service/binder              am am/display am/service/maintenance am/urn inventory rspec rspec/match
5  am/work                        am am/service/lease am/store am/urn inventory/provider github.com/google/uuid
5  am/service/dryrun              am am/urn inventory/provider
5  am/follow/hook                 am am/executable am/service/lease am/store am/urn golang.org/x/sys
5  am/service                     am am/display am/service/binder am/service/budget am/service/lease am/service/maintenance am/service/policy am/store am/urn credentials inventory rspec rspec/hostname rspec/match rspec/step github.com/google/uuid
6  am/site/operate                am am/display am/service am/service/binder am/service/lease am/service/maintenance am/service/policy am/store am/urn inventory rspec
7  am/testkit/modeltest
6  am/api                         am am/api/xmlrpc am/service am/store am/urn credentials rspec schemas golang.org/x/crypto
6  am/server/mtls                 C
7  am/server                      am am/api am/api/xmlrpc am/display am/follow/audit am/service/budget github.com/prometheus/client_golang
7  am/client                      am am/api/xmlrpc github.com/kolo/xmlrpc
7  am/authority                   am am/api am/api/xmlrpc am/display am/file am/urn credentials credentials/cert credentials/trial github.com/google/uuid go.etcd.io/bbolt
8  am/client/experiment           am am/client am/display am/urn rspec rspec/hostname rspec/radl rspec/step rspec/view schemas/xmltree go.yaml.in/yaml/v3
8  am/client/conformance          am/api/xmlrpc am/client am/urn credentials/trial rspec/view schemas schemas/xmltree golang.org/x/crypto
9  am/web                         am am/api/xmlrpc am/authority am/client am/client/experiment am/display am/follow/audit am/server am/service am/service/maintenance am/site/operate am/urn inventory/nameset rspec rspec/compile rspec/draw rspec/view schemas/xmltree github.com/arran4/golang-ical
10  am/site                        am am/api am/authority am/display am/file am/follow/audit am/follow/hook am/server am/server/mtls am/service am/service/dryrun am/service/maintenance am/service/policy am/site/clock am/site/operate am/store am/urn am/web am/work credentials credentials/cert credentials/trial inventory inventory/nameset inventory/provider inventory/provider/fdsocket inventory/provider/supervisor rspec rspec/blueprint rspec/compile schemas/yamlfile github.com/go-viper/mapstructure/v2 github.com/spf13/viper go.yaml.in/yaml/v3 golang.org/x/sys
11  am/site/check                  am am/display am/file am/follow/audit am/follow/hook am/server/mtls am/service/binder am/service/maintenance am/service/policy am/site am/site/clock am/store am/urn credentials/cert credentials/dsig credentials/trial inventory inventory/provider inventory/provider/providertest rspec rspec/blueprint rspec/compile rspec/step schemas schemas/xmltree schemas/yamlfile go.yaml.in/yaml/v3
11  am/site/create                 am/executable am/site am/urn credentials/trial inventory inventory/provider inventory/provider/osinfo inventory/provider/simulated golang.org/x/sys
11  am/client/userfolder           am/authority am/display am/file am/site am/urn credentials/cert credentials/trial schemas/yamlfile go.yaml.in/yaml/v3
12  am/client/ownsite              am/client/userfolder am/display am/file am/site am/site/create am/urn credentials/trial golang.org/x/sys
13  am/client/session              am am/api/xmlrpc am/client am/client/experiment am/client/ownsite am/client/userfolder am/display am/file am/site am/site/create am/urn credentials/cert inventory
2  cmd/patchbay/e2e
2  cmd/patchbay/browsertest
14  cmd/patchbay/command           am am/client/conformance am/client/session am/client/userfolder am/display am/file am/site am/site/create am/site/operate inventory inventory/provider rspec rspec/compile rspec/draw schemas/xmltree github.com/spf13/cobra github.com/spf13/pflag golang.org/x/sys
15  cmd/patchbay/authority         am am/authority am/client/session am/client/userfolder am/display am/follow/audit am/site am/urn cmd/patchbay/command credentials/cert credentials/trial github.com/spf13/pflag
15  cmd/patchbay/document          am/client/conformance am/client/session am/client/userfolder am/display am/site am/urn cmd/patchbay/command inventory rspec/compile rspec/draw rspec/view github.com/spf13/pflag
15  cmd/patchbay/experimenter      am am/api/xmlrpc am/authority am/client am/client/experiment am/client/ownsite am/client/session am/client/userfolder am/display am/file am/site am/site/check am/site/create am/urn cmd/patchbay/command credentials/cert credentials/trial inventory/provider/supervisor rspec rspec/compile rspec/draw rspec/view schemas github.com/spf13/pflag
15  cmd/patchbay/operator          am am/client/userfolder am/display am/follow/audit am/service/maintenance am/site am/site/operate am/urn cmd/patchbay/command inventory/nameset github.com/spf13/pflag
15  cmd/patchbay/site              am am/authority am/client/ownsite am/client/session am/client/userfolder am/display am/file am/follow/audit am/site am/site/check am/site/create am/store am/urn cmd/patchbay/command inventory/provider github.com/spf13/pflag
16  cmd/patchbay                   am/display am/site cmd/patchbay/authority cmd/patchbay/command cmd/patchbay/document cmd/patchbay/experimenter cmd/patchbay/operator cmd/patchbay/site inventory/provider github.com/spf13/cobra github.com/spf13/pflag golang.org/x/sys
0  inventory/provider/fdsocket    golang.org/x/sys
0  inventory/provider/local/sandbox golang.org/x/sys
0  inventory/provider/local/cgroup golang.org/x/sys
1  inventory/provider/local/hostalloc am/file
0  inventory/provider/supervisor
1  inventory/provider/local/linktest inventory/provider/local/netspace inventory/provider/local/sandbox golang.org/x/sys
0  inventory/provider/osinfo      golang.org/x/sys
1  inventory/provider/local/sysctl am/file golang.org/x/sys
1  inventory/node/setup           am/file rspec/step github.com/ulikunitz/xz golang.org/x/sys
3  inventory/node/steprunner      inventory inventory/node/setup rspec/step golang.org/x/sys
1  inventory/node/agent           inventory/provider/fdsocket rspec/hostname github.com/pkg/sftp golang.org/x/sys
2  inventory/provider/local/node  inventory/node/agent inventory/provider/fdsocket inventory/provider/local/cgroup inventory/provider/local/sandbox rspec/hostname golang.org/x/sys
2  inventory/provider/local/gateway inventory/node/agent inventory/provider/fdsocket inventory/provider/local/sandbox inventory/provider/supervisor golang.org/x/crypto golang.org/x/sys
2  inventory/provider/local/vswitch inventory/provider/fdsocket inventory/provider/local/sandbox inventory/provider/supervisor golang.org/x/sys
0  inventory/provider/local/netspace github.com/vishvananda/netlink golang.org/x/sys
3  inventory/provider/local/fabric inventory/provider/local/netspace inventory/provider/local/vswitch github.com/google/nftables github.com/vishvananda/netlink github.com/vishvananda/netns golang.org/x/sys
3  inventory/provider/local/egress am/file inventory/provider/local/netspace github.com/google/nftables github.com/vishvananda/netlink golang.org/x/sys
3  inventory/provider/local/image inventory/provider/local/node golang.org/x/sys
4  inventory/provider/local/doctor inventory/provider/local/cgroup inventory/provider/local/egress inventory/provider/local/fabric inventory/provider/local/image inventory/provider/local/node inventory/provider/local/sandbox inventory/provider/local/sysctl inventory/provider/local/vswitch golang.org/x/sys
5  inventory/provider/local       am/display inventory/provider inventory/provider/fdsocket schemas/yamlfile go.yaml.in/yaml/v3
6  inventory/provider/local/testbed am/file inventory inventory/node/agent inventory/node/setup inventory/node/steprunner inventory/provider inventory/provider/fdsocket inventory/provider/local inventory/provider/local/egress inventory/provider/local/fabric inventory/provider/local/gateway inventory/provider/local/hostalloc inventory/provider/local/image inventory/provider/local/node inventory/provider/local/sysctl inventory/provider/local/vswitch inventory/provider/osinfo inventory/provider/supervisor rspec/hostname rspec/match rspec/step schemas/yamlfile golang.org/x/crypto golang.org/x/sys
6  inventory/node/inside          am/file inventory/node/agent inventory/node/setup github.com/vishvananda/netlink golang.org/x/crypto golang.org/x/sys
7  inventory/provider/lxd         am/display am/file am/service/maintenance inventory inventory/nameset inventory/node/agent inventory/node/inside inventory/node/setup inventory/node/steprunner inventory/provider rspec/hostname rspec/match rspec/step schemas/yamlfile github.com/coder/websocket go.yaml.in/yaml/v3 golang.org/x/crypto golang.org/x/sys
8  cmd/patchbay-lxd               am/file inventory/node/agent inventory/node/inside inventory/node/setup inventory/provider/lxd github.com/spf13/cobra golang.org/x/sys
8  cmd/patchbay-local             inventory inventory/node/agent inventory/node/setup inventory/provider/fdsocket inventory/provider/local inventory/provider/local/doctor inventory/provider/local/gateway inventory/provider/local/image inventory/provider/local/linktest inventory/provider/local/node inventory/provider/local/testbed inventory/provider/local/vswitch inventory/provider/simulated github.com/spf13/cobra golang.org/x/sys
`

// localModules are the modules that the static binary is made of.
var localModules = []string{
	"patchbay", "github.com/coder/websocket", "github.com/google/nftables", "github.com/google/renameio/v2", "github.com/kr/fs", "github.com/mdlayher/netlink", "github.com/mdlayher/socket",
	"github.com/pkg/sftp", "github.com/spf13/cobra", "github.com/spf13/pflag", "github.com/ulikunitz/xz",
	"github.com/vishvananda/netlink", "github.com/vishvananda/netns", "go.yaml.in/yaml/v3", "golang.org/x/crypto",
	"golang.org/x/net", "golang.org/x/sync", "golang.org/x/sys",
}

const module = "patchbay/"

type importRule struct {
	layer   int
	imports []string
}

func importRules(t *testing.T) map[string]importRule {
	t.Helper()
	m := make(map[string]importRule)
	for row := range strings.SplitSeq(strings.TrimSpace(allowedImports), "\n") {
		f := strings.Fields(row)
		layer, err := strconv.Atoi(f[0])
		if err != nil {
			t.Fatal(err)
		}
		m[f[1]] = importRule{layer, f[2:]}
	}
	return m
}

type listed struct {
	ImportPath string
	Imports    []string
	Standard   bool
	Module     *struct{ Path string }
}

func goList(t *testing.T, env []string, args ...string) []listed {
	t.Helper()
	c := exec.Command("go", append([]string{"list", "-e", "-json=ImportPath,Imports,Standard,Module"}, args...)...)
	c.Dir = ".."
	c.Env = append(os.Environ(), env...)
	out, err := c.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// modules are the paths of the modules in go.mod. They map the import of a package to its module.
func modules(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, m := range regexp.MustCompile(`(?m)^\s*(?:require )?(\S+\.\S+/\S+) v`).FindAllStringSubmatch(string(text), -1) {
		list = append(list, m[1])
	}
	return list
}

func TestImportsFollowTheTable(t *testing.T) {
	want, mods := importRules(t), modules(t)
	seen := make(map[string]bool)
	for _, p := range goList(t, nil, "./...") {
		name := strings.TrimPrefix(p.ImportPath, module)
		seen[name] = true
		r, ok := want[name]
		if !ok {
			t.Errorf("%s is missing in allowedImports; add it with a layer, and update the table in ARCHITECTURE.md", name)
			continue
		}
		got := make(map[string]bool)
		for _, i := range p.Imports {
			switch {
			case strings.HasPrefix(i, module):
				i = strings.TrimPrefix(i, module)
			case i == "C":
			case !strings.Contains(i, "."):
				continue // the standard library
			default:
				for _, m := range mods {
					if i == m || strings.HasPrefix(i, m+"/") {
						i = m
						break
					}
				}
			}
			got[i] = true
		}
		for _, i := range slices.Sorted(maps.Keys(got)) {
			if !slices.Contains(r.imports, i) {
				t.Errorf("%s imports %s, which allowedImports does not list; add it if it is intended", name, i)
			}
			if to, ours := want[i]; ours && to.layer >= r.layer {
				t.Errorf("%s, layer %d, imports %s, layer %d: only smaller layers may be imported", name, r.layer, i, to.layer)
			}
		}
		for _, i := range r.imports {
			if !got[i] {
				t.Errorf("%s does not import %s any more; remove it from allowedImports", name, i)
			}
		}
	}
	for name := range want {
		if !seen[name] {
			t.Errorf("there is no package %s any more; remove it from allowedImports", name)
		}
	}
}

// TestPackageTable compares the table of packages in ARCHITECTURE.md with the layers
// here and with the first sentence of each package's comment. With -update it writes
// the table.
func TestPackageTable(t *testing.T) {
	const begin, end = "<!-- made by: go test ./am -run TestPackageTable -update -->\n", "<!-- end of the table -->\n"
	text, err := os.ReadFile("../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	got, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("ARCHITECTURE.md lacks the lines\n%s%s", begin, end)
	}
	var want strings.Builder
	want.WriteString("| Layer | Package | What it does |\n|---|---|---|\n")
	docs := readSource(t, "..").docs
	rules := importRules(t)
	// Packages of the server first, then those of local nodes, then those of tests.
	group := func(name string) int {
		switch {
		case strings.HasPrefix(name, "am/testkit/"), name == "cmd/patchbay/e2e", name == "cmd/patchbay/browsertest", name == "rspec/manifesttest":
			return 2
		case strings.HasPrefix(name, "inventory/provider/local"), strings.HasPrefix(name, "inventory/provider/lxd"), name == "cmd/patchbay-local", name == "cmd/patchbay-lxd":
			return 1
		}
		return 0
	}
	names := slices.SortedFunc(maps.Keys(rules), func(a, b string) int {
		return cmp.Or(group(a)-group(b), rules[a].layer-rules[b].layer, strings.Compare(a, b))
	})
	for _, name := range names {
		if docs[name] == nil {
			t.Fatalf("%s has no package comment", name)
		}
		sentence := new(doc.Package).Synopsis(docs[name].text)
		sentence = regexp.MustCompile(`^(Package|Command) \S+ `).ReplaceAllString(sentence, "")
		fmt.Fprintf(&want, "| %d | `%s` | %s%s |\n", rules[name].layer, name, strings.ToUpper(sentence[:1]), sentence[1:])
	}
	if *update {
		if err := os.WriteFile("../ARCHITECTURE.md", []byte(before+begin+want.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if got != want.String() {
		t.Error("the table of packages in ARCHITECTURE.md differs from the first sentences of doc.go files or the layers in deps_test.go; run: go test ./am -run TestPackageTable -update")
	}
}

// TestDependenciesHaveReasons checks that ARCHITECTURE.md gives a reason for each module
// that go.mod requires directly.
func TestDependenciesHaveReasons(t *testing.T) {
	text, err := os.ReadFile("../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Dependencies\n")
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllStringSubmatch(string(mod), -1) {
		if !strings.Contains(section, m[1]) {
			t.Errorf("ARCHITECTURE.md gives no reason for %s", m[1])
		}
	}
}

// TestImportsKeepTheOwnersModules checks that the program still uses the four modules that the
// project's owner has named. Tests that import them do not count.
func TestImportsKeepTheOwnersModules(t *testing.T) {
	missing := []string{"github.com/kolo/xmlrpc", "github.com/lestrrat-go/libxml2", "github.com/spf13/viper", "go.etcd.io/bbolt"}
	for _, p := range goList(t, nil, "-deps", "./cmd/patchbay") {
		missing = slices.DeleteFunc(missing, func(m string) bool { return p.Module != nil && p.Module.Path == m })
	}
	if len(missing) > 0 {
		t.Errorf("cmd/patchbay no longer needs %s; the owner wants the program to use them", strings.Join(missing, ", "))
	}
}

func TestImportsOfTheStaticBinaryAreFew(t *testing.T) {
	for _, p := range goList(t, []string{"CGO_ENABLED=0"}, "-deps", "./cmd/patchbay-local", "./cmd/patchbay-lxd") {
		if p.Standard || p.Module == nil {
			continue
		}
		if !slices.Contains(localModules, p.Module.Path) {
			t.Errorf("a static binary needs %s of %s, which is not on its list", p.ImportPath, p.Module.Path)
		}
	}
}
