package radl_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"patchbay/rspec"
	"patchbay/rspec/match"
	"patchbay/rspec/radl"
)

var ignorePlaces = cmp.Options{
	cmpopts.IgnoreTypes(radl.Place{}), cmpopts.IgnoreFields(radl.Recipe{}, "TextLine"), cmpopts.EquateEmpty(),
}

// roundTrip requires that the text and the JSON form of the document parse to the same document.
func roundTrip(t *testing.T, rule string, d *radl.Document) {
	t.Helper()
	again, problems := radl.Parse(d.Text(), nil)
	if diff := cmp.Diff(d, again, ignorePlaces); again == nil || diff != "" {
		t.Errorf("%s: text\n%s\n%v\n%s", rule, d.Text(), rspec.Lines(problems), diff)
	}
	inJSON, problems := radl.Parse(d.JSON(), nil)
	if inJSON == nil {
		t.Errorf("%s: JSON\n%s\n%v", rule, d.JSON(), rspec.Lines(problems))
		return
	}
	if diff := cmp.Diff(d, inJSON, ignorePlaces, likeJSON); diff != "" {
		t.Errorf("%s: JSON\n%s\n%s", rule, d.JSON(), diff)
	}
}

// likeJSON ignores what the JSON form does not keep: the order of features with different names, and
// the units of sizes.
var likeJSON = cmp.Options{
	cmpopts.SortSlices(func(a, b radl.Feature) bool {
		return a.Name < b.Name || a.Name == b.Name && a.Op < b.Op && a.Value.Kind != radl.Group
	}),
	cmp.Transformer("bytes", func(v radl.Value) [5]any {
		if size, err := match.SizeOf(v.Number + v.Unit); err == nil && v.Unit != "" {
			v.Number, v.Unit = fmt.Sprint(size), ""
		}
		return [5]any{v.Kind, v.Number + v.Unit, v.Text, v.List, v.Group}
	}),
}

func TestParseAccepts(t *testing.T) {
	for _, tt := range []struct{ rule, text string }{
		{"R3 empty", ""},
		{"R3 only a comment", "# nothing\n\n  # here"},
		{"R3 no nodes", "system x ()\ndeploy x 0"},
		{"R1 node", "system node (memory.size >= 512M)\ndeploy node 2"},
		{"R4 ports", "network n (outbound = 'yes' and outports = '8899/tcp,22/udp,9000:9100,0.0.0.0/24-8899,8080-80,8080/tcp-80/tcp,1/icmp')"},
		{"R4 no ports", "network n (outports = '')"},
		{"R7 double quotes", `system s (disk.0.os.name = "linux" and disk.0.applications contains (name="ansible.roles.a.b"))`},
		{"R8 arrow", "system s (cpu.count => 2)"},
		{"R15 only disk 1", "system s (disk.1.size = 1GB and disk.1.device = 'hdc' and disk.1.fstype = 'ext4' and disk.1.mount_path = '/mnt/disk1')"},
		{"commas in contains", "system s (disk.0.applications contains (name='x', version='1', preinstalled='yes'))"},
		{"soft groups", "system s (cpu.count >= 1 and soft 100 (cpu.arch='x86_64' and memory.size >= 1G) and soft 50 (disk.0.os.name = 'windows'))"},
		{"intervals", "system s (cpu.count >= 1 and cpu.count >= 5 and cpu.count >= 0)"},
		{"equal and bound", "system s (cpu.count = 1 and cpu.count >= 0)"},
		{"a point", "system s (cpu.count >= 5 and cpu.count <= 5)"},
		{"equal texts", "system s (disk.0.os.name = 'linux' and disk.0.os.name = 'linux')"},
		{"strict", "system s (cpu.count > 1 and cpu.count < 3 and disk.0.os.version >= '12.04')"},
		{"references", "network net\nsystem big (net_interface.0.connection = 'net')\nconfigure c\ndeploy big 1"},
		{"lists", "system s (disk.0.image.url = ['one://h/1', 'ost://h/2'])"},
		{"escaped quote", `description d (name = 'it\'s' and path = 'C:\x')`},
		{"recipe with # and mixed quotes", "configure c (\n@begin\n---\n# no comment of RADL\n- tasks:\n  - debug: msg=\"it's\"\n@end\n)\nsystem c ()\ndeploy c 1"},
		{"empty recipe", "configure c ()"},
		{"contextualize", "contextualize 1200 (\noption ansible_version = '2.14'\nsystem a configure b step 1\nsystem a configure c step 2 with Ansible\nsystem a configure d with cloud-init\n)\ncontextualize ()"},
		{"no YAML for cloud-init", "configure c (\n@begin\n#!/bin/sh\n\techo: {\n@end\n)\ncontextualize (system s configure c with cloud_init)"},
		{"clouds", "system s ()\ndeploy s 1 cloud_id\ndeploy s 1"},
		{"price", "system s (price <= 1.5 and cpu.performance >= 20 ECU)"},
		{"another unit of performance", "system s (cpu.performance >= 20 GCEU and cpu.performance < 30 GCEU)"},
		{"numbers with zeros", "system s (cpu.count >= 007 and price <= 00.5 and x = 0)"},
		{"all units of sizes", "system s (a=1B and b=1kb and c=1Mi and d=1 GiB and e=1t and memory.size >= 1.5G)"},
		{"both quotes and a backslash", `description d (a = "it's \' \"x\"" and b = 'C:\x\y "z"')`},
		{"an application in two parts", "system s (disk.0.applications contains (name='x' and version >= '1') and disk.0.applications contains (name='y') and disk.0.applications contains (name='x' and version < '2'))"},
		{"a cloud in the next line", "system s ()\ndeploy s 1\nnorth\ndeploy s 2"},
		{"features with names of sentences", "description d (description = 'x' and ansible = 'y')"},
		{"network with ports and router", "network n (router = '10.0.0.0/8, s')\nsystem s ()"},
		{"a secret that was left out", "ansible a (host = 'h' and credentials.username = 'u' and credentials.password = '')"},
	} {
		d, problems := radl.Parse([]byte(tt.text), nil)
		if d == nil {
			t.Errorf("%s: %v", tt.rule, rspec.Lines(problems))
			continue
		}
		roundTrip(t, tt.rule, d)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tt := range []struct{ rule, text, want string }{ // want: "LINE:COLUMN part of the message" for each problem
		{"R5 protocols", "network n (outports = '8899/tcp-8899/udp')", "1:12 has two protocols"},
		{"R5 letter", "network n (outports = '8899a-8899')", "1:12 has a port that is no number"},
		{"R5 range mapped", "network n (outports = '1:10-20')", "1:12 has a range of ports and a local port"},
		{"R5 reversed", "network n (outports = '10:1')", "1:12 ends before it begins"},
		{"R5 too large", "network n (outports = '99999')", "1:12 has a port that is no number from 1 to 65535"},
		{"R6 empty interval names both lines", "# a\nsystem s (\n  cpu.count >= 1 and\n  cpu.count <= 0)", "4:3 cpu.count >= 1, in line 3, and cpu.count <= 0"},
		{"different points", "system s (cpu.count = 1 and cpu.count = 2)", "1:29 no value satisfies"},
		{"R8 sign", "system s (cpu.count >= -1)", "1:24 numbers have no sign"},
		{"different texts", "system s (disk.0.os.name = 'linux' and\ndisk.0.os.name = 'windows')", "2:1 but 'linux' in line 1"},
		{"R16 three mistakes", "system a (net_interface.0.connection = 'n' and net_interface.2.connection = 'n')\nsystem b (net_interface.0.dns_name = 'x')\nsystem c (net_interface.0.connection = 'm')\nnetwork n ()",
			"1:48 no net_interface.1;2:11 has no connection;3:11 there is no network \"m\""},
		{"R26 dots", "system node (\n cpu.count>=1 and\n ...\n)", "3:2 where a feature must begin"},
		{"R27 trailing and", "system s (disk.1.image.url = 'x' and)", "1:34 no feature after the last and"},
		{"R28 ansible_host", "system s (ansible_host = 'x')", "1:11 there is no ansible \"x\""},
		{"deploy a fraction", "system s ()\ndeploy s 1.5", "2:10 is \"1.5\""},
		{"keyword as id", "system deploy ()", "1:8 in place of the id"},
		{"misspelled keyword", "sytem s ()", "1:1 did you mean system?"},
		{"several mistakes", "sytem s ()\nnetwork n (outbound = 'maybe')\ndeploy", "1:1 system;2:12 use yes, no;3:7 the id"},
		{"duplicate", "network n ()\nnetwork n ()", "2:1 the first is in line 1"},
		{"unquoted version", "system s (disk.0.os.version = 12.04)", "1:11 write '12.04'"},
		{"unquoted text", "system s (cpu.arch = x86_64)", "1:22 without quotes"},
		{"number in quotes", "system s (cpu.count = '2')", "1:11 without quotes"},
		{"text compared", "system s (cpu.arch > 'i686')", "1:11 compared with >"},
		{"weak password", "system s (disk.0.os.credentials.new.password = 'weak')", "1:11 too weak"},
		{"unit of a count", "system s (cpu.count = 2G)", "1:11 without a unit"},
		{"recipe without end", "configure c (\n@begin\n- a", "2:1 without @end"},
		{"recipe that is no YAML", "configure c (\n@begin\n- a: b: c\n@end\n)", "3:1 is not YAML"},
		{"option", "contextualize (option x = '1')", "1:23 only option"},
		{"tool", "contextualize (system a configure b with puppet)", "1:42 not a tool"},
		{"JSON", "[\n {\"class\": \"deploy\",\n \"system\": 5}]", "3:12 write a text;2:2 no \"system\""},
		{"JSON number", `[{"class":"system","id":"s","cpu.count_min":-1}]`, "1:45 number -1"},
		{"JSON syntax", "[\n{\"class\": \"x\",}]", "2:15 cannot read"},
		{"JSON class", `[{"class":"vm","id":"s"}]`, "1:2 class \"vm\""},
		{"YAML", "description: x\nsystem: y", "1:1 is YAML, not RADL"},
		{"text after begin", "configure c (\n@begin - a\n@end\n)", "2:1 \"- a\" after @begin"},
		{"unit", "system s (memory.size >= 512Mo)", "1:29 there is the unit \"Mo\""},
		{"no and after a number", "system s (cpu.count>=1\n memory.size>=512m and\n price <= 1)", "2:2 the word and is missing between a feature and the next one, \"memory.size\";2:2 write and before memory.size"},
		{"no and after a unit", "system s (memory.size>=1g cpu.count>=1 price <= 1)", "1:27 write and before cpu.count;1:40 write and before price"},
		{"no and after a text", "system s (cpu.arch='x86_64' disk.0.applications contains (name='x' version='1'))", "1:29 write and before disk.0.applications;1:68 write and before version"},
		{"no and before a soft group", "system s (cpu.count>=1 soft 5 (price<=1 cpu.count>=2))", "1:24 write and before soft;1:41 write and before cpu.count"},
		{"contains a text", "network n (outports contains '22/tcp' and outbound = 'maybe')\nsystem s (price = 'x')", "1:12 outports: only applications contain others;1:12 write = and a value;1:43 use yes, no;2:11 price"},
		{"contains a list, or a text in parentheses", "network n (outports contains ['22/tcp'] and outports contains ('22/tcp'))", "1:12 write = and a value;1:45 write = and a value"},
		{"applications without parentheses", "system s (disk.0.applications contains 'java')", "1:11 write contains (name = 'NAME')"},
		{"version without quotes", "system s (disk.0.os.version = 12.04.1)", "1:36 a version needs quotes"},
		{"misspelled sentence after deploy", "system s ()\ndeploy s 1\nsytem x ()", "3:1 did you mean system?"},
		{"two kinds", "description d (a = 'x' and a = 1)", "1:28 of another kind in line 1"},
		{"two texts of the description", "description d (a = 'x' and a = 'y')", "1:28 but \"x\" in line 1"},
		{"two lists", "system s (disk.0.image.url = ['a'] and disk.0.image.url = ['b'])", "1:40 leave one of them out"},
		{"no whole number between", "system s (cpu.count > 1 and cpu.count < 2)", "1:29 no value satisfies both"},
		{"bounds in the other order", "system s (cpu.count <= 0 and\ncpu.count >= 1)", "2:1 both cpu.count <= 0, in line 1, and cpu.count >= 1"},
		{"units of performance", "system s (cpu.performance >= 20 ECU and cpu.performance <= 90 GCEU)", "1:41 no value satisfies both"},
		{"unit of performance elsewhere", "system s (x = 20 ECU)", "1:11 a unit of another feature"},
		{"router to nothing", "network n (router = '10.0.0.0/8,gateway')", "1:12 there is no system \"gateway\""},
		{"option with a bound", "contextualize (option ansible_version >= '2')", "1:23 with >="},
		{"ansible reference", "ansible a", "1:1 has no features"},
		{"JSON reference with features", `[{"class":"network","id":"n","reference":true,"outbound":"yes"}]`, "1:2 but has features"},
		{"JSON soft groups of a network", `[{"class":"network","id":"n","softs":[{"weight":1,"items":[]}]}]`, "1:38 only systems"},
		{"JSON keyword as a feature", `[{"class":"system","id":"s","deploy":"x"}]`, "1:29 a feature \"deploy\""},
		{"JSON applications that are no objects, or empty", `[{"class":"system","id":"s","disk.0.applications":[5,{}]}]`, "1:52 has another value in its array;1:54 \"disk.0.applications\" has an entry that is no object, or an empty one"},
		{"JSON soft groups that are no objects", `[{"class":"system","id":"s","softs":[5,{}]}]`, "1:38 a soft group has no items;1:40 a soft group has no items"},
		{"JSON items of soft groups that are no objects, or empty", `[{"class":"system","id":"s","softs":[{"weight":1,"items":[5,{},"x"]}]}]`, "1:59 a soft group has an entry that is no object;1:61 a soft group has an entry;1:64 a soft group has an entry"},
		{"JSON lines of contextualize that are no objects", `[{"class":"contextualize","items":[5,{}]}]`, "1:36 has no \"system\";1:38 has no \"configure\""},
		{"JSON NUL", `[{"class":"system","id":"s","x":"a\u0000b"}]`, "1:33 not valid"},
		{"JSON recipe with an end", `[{"class":"configure","id":"c","recipes":"- a\n@end\n"}]`, "1:2 begins with @end"},
		{"not UTF-8", "system s\xff ()", "0:0 UTF-8"},
	} {
		d, problems := radl.Parse([]byte(tt.text), nil)
		if d != nil {
			t.Errorf("%s: accepted", tt.rule)
			continue
		}
		all := strings.Join(rspec.Lines(problems), "; ")
		for want := range strings.SplitSeq(tt.want, ";") {
			at, message, _ := strings.Cut(want, " ")
			found := false
			for _, p := range problems {
				found = found || at == place(p) && strings.Contains(p.Text(), strings.ReplaceAll(message, "'linux'", `"linux"`))
			}
			if !found {
				t.Errorf("%s: no problem %q in: %s %s", tt.rule, want, place(problems[0]), all)
			}
		}
	}
}

func TestParameters(t *testing.T) {
	const text = "system node (\n cpu.count = @input.CPUs@ and\n disk.0.os.name = '@input.os@' and memory.size >= @input.mem@)\ndeploy node @input.NumNodes@"
	if diff := cmp.Diff([]string{"CPUs", "os", "mem", "NumNodes"}, radl.Parameters([]byte(text))); diff != "" {
		t.Error(diff)
	}
	d, problems := radl.Parse([]byte(text), map[string]string{"CPUs": "4", "NumNodes": "3", "os": "lin'ux", "mem": "1 g"})
	if d != nil || len(problems) != 1 || !strings.Contains(problems[0].Msg, "lin'ux") {
		t.Errorf("a quote in a value: %v", problems)
	}
	d, problems = radl.Parse([]byte(text), map[string]string{"CPUs": "4", "NumNodes": "3", "os": "linux", "mem": "1 g"})
	if d == nil || d.Systems[0].Features[0].Value.Number != "4" || d.Systems[0].Features[2].Value.Unit != "G" || d.Deploys[0].Count != 3 {
		t.Errorf("R9: %+v %v", d, problems)
	}
	_, problems = radl.Parse([]byte(text), nil)
	if len(problems) != 1 || !strings.Contains(problems[0].Text(), "no values are given for CPUs, os, mem, NumNodes; give each one, such as --set CPUs=VALUE") || problems[0].Line != 2 {
		t.Errorf("R9 without values: %v", rspec.Lines(problems))
	}
}

func place(p rspec.Problem) string { return fmt.Sprintf("%d:%d", p.Line, p.Column) }
