package radl_test

import (
	"fmt"
	"strings"
	"testing"

	"patchbay/rspec"
	"patchbay/rspec/radl"
)

// TestCompileLimits requires that hostile documents are refused with their reason.
func TestCompileLimits(t *testing.T) {
	v := inventoryOf(t, "")
	repeat := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	long := strings.Repeat("x", 60<<10)
	for _, tt := range []struct {
		rule, source string
		kind         rspec.Kind
		problem      string
	}{
		{"nodes of one sentence", "system x ()\ndeploy x 1000000000", rspec.TooBig, "line 2: the document deploys more than 2000 nodes"},
		{"nodes of several sentences", "system x ()\ndeploy x 2000\ndeploy x 1", rspec.TooBig, "line 3: the document deploys more than 2000 nodes"},
		{"long recipes on many nodes", recipe("x", "- tasks: []\n# "+long) + "system x ()\ndeploy x 2000", rspec.TooBig, "the nodes, with their recipes, features and interfaces, take more than"},
		{"many features on many nodes", "system x (" + repeat(1000, "f%d = 'x' and ") + "y = 'x')\ndeploy x 2000", rspec.TooBig, "take more than"},
		{"many interfaces on many nodes", "network n ()\nsystem x (" + repeat(500, "net_interface.%d.connection = 'n' and ") + "y = 'x')\ndeploy x 2000", rspec.TooBig, "take more than"},
		{"a long recipe", recipe("x", "- tasks: []\n# "+long+long) + "system x ()\ndeploy x 1", rspec.TooBig, "line 1: recipe \"x\" has more than 65536 bytes"},
		{"a long recipe that is included", recipe("x", "- tasks:\n  - include: y.yml") + recipe("y", "- debug: msg="+long+long) + "system x ()\ndeploy x 1", rspec.TooBig, "includes \"y.yml\", which has more than 65536 bytes"},
		{"many included recipes on many nodes", recipe("x", "- tasks:\n  - include: y.yml") + recipe("y", "- debug: msg="+long[:20<<10]) + "system x ()\ndeploy x 155", rspec.TooBig, "take more than"},
		{"many systems", repeat(101, "system x%[1]d ()\ndeploy x%[1]d 1\n"), rspec.TooBig, "line 202: the document deploys more than 100 systems"},
		{"many networks", repeat(251, "network n%d ()\n") + "system x (" + repeat(251, "net_interface.%[1]d.connection = 'n%[1]d' and ") + "y = 'x')\ndeploy x 1", rspec.TooBig, "the nodes use more than 250 networks"},
		{"many constraints", "system x (" + repeat(65, "gpu.f%d = 'x' and ") + "y = 'x')\ndeploy x 1", rspec.BadArgs, "65 constraints are too many"},
		{"many applications", "system x (" + repeat(101, "disk.0.applications contains (name = 'a%d') and ") + "y = 'x')\ndeploy x 1", rspec.TooBig, "system \"x\" has more than 100 applications"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			d, problems := radl.Parse([]byte(tt.source), nil)
			if d == nil {
				t.Fatal(rspec.Lines(problems))
			}
			r, problems := radl.Compile(d, radl.Options{Site: v})
			if r != nil {
				t.Fatal("it is compiled")
			}
			for _, p := range problems {
				if p.Kind == tt.kind && strings.Contains(p.String(), tt.problem) {
					return
				}
			}
			t.Errorf("problems %q, want %q", rspec.Lines(problems), tt.problem)
		})
	}
}

// BenchmarkCompile compiles 1,000 nodes with networks, images, recipes and disks.
func BenchmarkCompile(b *testing.B) {
	v := inventoryOf(b, "")
	source := `network pub (outbound = 'yes')
network priv (cidr = '10.0.*.0/20')
system front (net_interface.0.connection = 'pub' and net_interface.1.connection = 'priv' and disk.0.os.name = 'linux')
system wn (cpu.count >= 2 and memory.size >= 2G and net_interface.0.connection = 'priv' and net_interface.0.dns_name = 'wn-#N#' and disk.0.os.name = 'linux' and
	disk.0.applications contains (name = 'tomcat') and disk.1.size = 1GB and disk.1.mount_path = '/data')
` + recipe("front", "- tasks:\n  - debug: msg=hello") + recipe("wn", "- tasks:\n  - debug: msg=hello") + "deploy front 1\ndeploy wn 999\n"
	d, problems := radl.Parse([]byte(source), nil)
	if d == nil {
		b.Fatal(rspec.Lines(problems))
	}
	b.ReportAllocs()
	for b.Loop() {
		r, problems := radl.Compile(d, radl.Options{Site: v})
		if r == nil || len(r.Nodes) != 1000 {
			b.Fatal(rspec.Lines(problems))
		}
	}
}

// BenchmarkHostile reads and compiles 64 KiB of text that was written to take long.
func BenchmarkHostile(b *testing.B) {
	v := inventoryOf(b, "")
	// fill repeats a part, in which %1 is its number and %2 the next one.
	fill := func(before, part, after string) string {
		var text strings.Builder
		for i := 0; text.Len() < 64<<10-len(before)-len(after); i++ {
			text.WriteString(strings.NewReplacer("%1", fmt.Sprint(i), "%2", fmt.Sprint(i+1)).Replace(part))
		}
		return before + text.String() + after
	}
	for _, bb := range []struct{ name, source string }{
		{"plays", fill("configure r (\n@begin\n", "- tasks: []\n", "@end\n)\nsystem r ()\ndeploy r 1")},
		{"plays in one line", fill("configure r (\n@begin\n[", "{tasks: []},", "]\n@end\n)\nsystem r ()\ndeploy r 1")},
		{"aliases", fill("configure r (\n@begin\n- tasks: &a0 [x]\n", "  v%2: &a%2 [*a%1,*a%1]\n", "@end\n)\nsystem r ()\ndeploy r 1")},
		{"recipes that include the next one", fill("system r0 ()\ndeploy r0 1\n", "configure r%1 (\n@begin\n- tasks:\n  - include: r%2.yml\n@end\n)\n", "")},
		{"ranges that are used", fill("network b (cidr = '10.0.0.0/8')\n", "network n%1 (cidr = '10.*.*.%1/28')\n", "")},
		{"disks", fill("system s (cpu.count >= 1", " and disk.%2.size = 1G", ")\ndeploy s 1")},
		{"features", fill("system s (disk.1.size = 1G", " and disk.1.x%1 = 1", ")\ndeploy s 1")},
		{"soft groups", fill("system s (cpu.count >= 1", " and soft 9 (disk.0.os.version = '%1')", ")\ndeploy s 1")},
		{"roles", fill("configure s (\n@begin\n- roles: [", "r%1,", "]\n@end\n)\nsystem s ()\ndeploy s 1")},
		{"contextualize", fill("", "contextualize (system a configure b%1)\n", "")},
		{"systems", fill("", "system s%1 ()\ndeploy s%1 1\n", "")},
	} {
		b.Run(bb.name, func(b *testing.B) {
			for b.Loop() {
				if d, _ := radl.Parse([]byte(bb.source), nil); d != nil {
					radl.Compile(d, radl.Options{Site: v})
				}
			}
		})
	}
}
