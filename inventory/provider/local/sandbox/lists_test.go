package sandbox

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"patchbay/am/testkit/require"
)

// unlisted returns the calls that are in no list, so that nodes get ENOSYS, and the
// reasons. Programs that use them also run on kernels without them.
func unlisted() map[string]string {
	return map[string]string{
		"SYS_CLONE3":                  "its flags lie in memory, out of the filter's sight; the C library falls back on clone",
		"SYS_CACHESTAT":               "shows which pages of others are cached; no ordinary program needs it",
		"SYS_FILE_GETATTR":            "newer than the programs of today's images",
		"SYS_FILE_SETATTR":            "newer than the programs of today's images",
		"SYS_IO_CANCEL":               "see io_setup",
		"SYS_IO_DESTROY":              "see io_setup",
		"SYS_IO_GETEVENTS":            "see io_setup",
		"SYS_IO_PGETEVENTS":           "see io_setup",
		"SYS_IO_SETUP":                "the whole host has one count of requests (fs.aio-max-nr), which a node could use up; databases do without",
		"SYS_IO_SUBMIT":               "see io_setup",
		"SYS_KCMP":                    "for checkpoints",
		"SYS_LISTMOUNT":               "programs fall back on /proc/self/mountinfo",
		"SYS_LISTNS":                  "about namespaces",
		"SYS_LOOKUP_DCOOKIE":          "gone from kernels",
		"SYS_LSM_GET_SELF_ATTR":       "security modules are the host's",
		"SYS_LSM_LIST_MODULES":        "security modules are the host's",
		"SYS_LSM_SET_SELF_ATTR":       "security modules are the host's",
		"SYS_MEMFD_SECRET":            "memory that the host cannot swap",
		"SYS_MIGRATE_PAGES":           "about other processes' memory",
		"SYS_MOVE_PAGES":              "about other processes' memory",
		"SYS_NFSSERVCTL":              "gone from kernels",
		"SYS_REMAP_FILE_PAGES":        "replaced by mmap",
		"SYS_RSEQ_SLICE_YIELD":        "newer than the programs of today's images",
		"SYS_SET_MEMPOLICY_HOME_NODE": "newer than the programs of today's images",
		"SYS_STATMOUNT":               "programs fall back on /proc/self/mountinfo",

		"SYS_AFS_SYSCALL":     "never was in kernels",
		"SYS_CREATE_MODULE":   "gone from kernels",
		"SYS_EPOLL_CTL_OLD":   "never was in kernels",
		"SYS_EPOLL_WAIT_OLD":  "never was in kernels",
		"SYS_GETPMSG":         "never was in kernels",
		"SYS_GET_KERNEL_SYMS": "gone from kernels",
		"SYS_GET_THREAD_AREA": "of 32-bit programs",
		"SYS_MODIFY_LDT":      "of 16-bit programs, and a source of holes",
		"SYS_PUTPMSG":         "never was in kernels",
		"SYS_QUERY_MODULE":    "gone from kernels",
		"SYS_SECURITY":        "never was in kernels",
		"SYS_SET_THREAD_AREA": "of 32-bit programs",
		"SYS_SYSFS":           "gone from kernels",
		"SYS_TUXCALL":         "never was in kernels",
		"SYS_USELIB":          "gone from kernels",
		"SYS_USTAT":           "replaced by statfs",
		"SYS_VSERVER":         "never was in kernels",
		"SYS__SYSCTL":         "gone from kernels",

		"SYS_ARCH_SPECIFIC_SYSCALL": "where an architecture's own numbers begin, no call",
	}
}

// parseFiles parses the package's files in dir for arch, without tests.
func parseFiles(t *testing.T, dir, arch, pattern string) []*ast.File {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	ctx := build.Default
	ctx.GOOS, ctx.GOARCH = "linux", arch
	var files []*ast.File
	for _, name := range names {
		match, err := ctx.MatchFile(dir, filepath.Base(name))
		if err != nil {
			t.Fatal(err)
		}
		if !match || strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		t.Fatalf("no files %s for %s in %s", pattern, arch, dir)
	}
	return files
}

// knownCalls returns all calls of arch in golang.org/x/sys/unix.
func knownCalls(t *testing.T, arch string) map[string]int {
	t.Helper()
	out, err := exec.Command(require.Tool(t, "go"), "list", "-f", "{{.Dir}}", "golang.org/x/sys/unix").Output()
	if err != nil {
		t.Fatal(err)
	}
	calls := make(map[string]int)
	for _, f := range parseFiles(t, strings.TrimSpace(string(out)), arch, "zsysnum_linux_*.go") {
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			number, err := strconv.Atoi(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			calls[spec.Names[0].Name] = number
			return true
		})
	}
	return calls
}

// listedCalls returns the calls in each named function or variable, on arch.
func listedCalls(t *testing.T, arch string, names ...string) map[string][]string {
	t.Helper()
	lists := make(map[string][]string)
	for _, f := range parseFiles(t, ".", arch, "*.go") {
		for _, d := range f.Decls {
			name := ""
			switch d := d.(type) {
			case *ast.FuncDecl:
				name = d.Name.Name
			case *ast.GenDecl:
				if v, ok := d.Specs[0].(*ast.ValueSpec); ok {
					name = v.Names[0].Name
				}
			}
			if !slices.Contains(names, name) {
				continue
			}
			lists[name] = []string{}
			ast.Inspect(d, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && strings.HasPrefix(s.Sel.Name, "SYS_") {
					lists[name] = append(lists[name], s.Sel.Name)
				}
				return true
			})
		}
	}
	for _, name := range names {
		if lists[name] == nil {
			t.Fatalf("%s: no function or variable %s", arch, name)
		}
	}
	return lists
}

// The test reads the sources of both architectures, so it covers both on either machine.
func TestEveryCallIsInOneList(t *testing.T) {
	reasons := unlisted()
	used := make(map[string]bool)
	for _, arch := range []string{"amd64", "arm64"} {
		calls := knownCalls(t, arch)
		if len(calls) < 300 {
			t.Fatalf("%s: only %d calls are known", arch, len(calls))
		}
		where := make(map[string][]string)
		for list, names := range listedCalls(t, arch, "allowed", "allowedHere", "forbidden", "forbiddenHere", "examined") {
			for _, name := range names {
				where[name] = append(where[name], list)
			}
		}
		for name := range calls {
			if reasons[name] != "" {
				where[name] = append(where[name], "leftOut")
				used[name] = true
			}
			if n := len(where[name]); n != 1 {
				t.Errorf("%s: %s is in %d lists %v, want 1", arch, name, n, where[name])
			}
		}
		for name := range where {
			if _, ok := calls[name]; !ok {
				t.Errorf("%s: %s is listed and not known", arch, name)
			}
		}
	}
	for name := range reasons {
		if !used[name] {
			t.Errorf("%s is left out and not known on any architecture", name)
		}
	}
}

// Calls that are forbidden, or examined for nodes, must not be in the lists of the
// gateway and the vswitch.
func TestServersMayOnlyMakeCallsOfNodes(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		lists := listedCalls(t, arch, "allowed", "allowedHere", "serverAllowed", "serverKilled", "gatewayAllowed", "gatewayExamined",
			"vswitchAllowed", "vswitchAllowedHere", "vswitchExamined", "ownThreads")
		nodes := slices.Concat(lists["allowed"], lists["allowedHere"])
		for who, own := range map[string][2][]string{
			"the gateway": {slices.Concat(lists["serverAllowed"], lists["gatewayAllowed"]), slices.Concat(lists["serverKilled"], lists["gatewayExamined"], lists["ownThreads"])},
			"the vswitch": {slices.Concat(lists["serverAllowed"], lists["vswitchAllowed"], lists["vswitchAllowedHere"]),
				slices.Concat(lists["serverKilled"], lists["vswitchExamined"], lists["ownThreads"])},
		} {
			for _, name := range own[0] {
				if !slices.Contains(nodes, name) {
					t.Errorf("%s: %s is allowed for %s but not for nodes", arch, name, who)
				}
			}
			all := slices.Sorted(slices.Values(slices.Concat(own[0], own[1])))
			for i := 1; i < len(all); i++ {
				if all[i] == all[i-1] {
					t.Errorf("%s: %s is in two lists of %s", arch, all[i], who)
				}
			}
		}
	}
}

func TestEveryCapabilityIsListedOnce(t *testing.T) {
	seen := make(map[int]bool)
	for _, c := range capabilities() {
		if seen[c.number] || c.why == "" {
			t.Errorf("capability %d: twice, or without a reason", c.number)
		}
		seen[c.number] = true
	}
	for n := range unix.CAP_LAST_CAP + 1 {
		if !seen[n] {
			t.Errorf("capability %d is not decided", n)
		}
		delete(seen, n)
	}
	if len(seen) > 0 {
		t.Errorf("unknown capabilities %v", slices.Collect(maps.Keys(seen)))
	}
}
