package rspec

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	setup "patchbay/rspec/step"
)

// prepared returns a request with the nodes "db" and "web"; web has the services. s: is the prefix
// of our extension and t: of TOSCA. The element db is in the services of "db".
func prepared(db, web string) []byte {
	return []byte(`<rspec type="request" xmlns="` + Namespace + `" xmlns:s="` + setupSpace + `" xmlns:t="` + toscaBase + `">` +
		`<node client_id="db"><services>` + db + `</services></node><node client_id="web"><services>` + "\n" + web + `</services></node></rspec>`)
}

func base(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// file is the script that a step contains.
func file(text string) []setup.File {
	return []setup.File{{URL: "data:;base64," + base(text), Path: "script"}}
}

func TestStepsAreRead(t *testing.T) {
	yes, no := true, false
	execute := func(change func(*setup.Requested)) []setup.Requested {
		q := setup.Requested{Step: execute("sh", "a")}
		change(&q)
		return []setup.Requested{q}
	}
	script := func(shell, text string) setup.Step {
		return setup.Step{Kind: setup.Execute, Shell: shell, Script: "script", Files: file(text)}
	}
	disk := setup.Step{Kind: setup.Disk, InstallPath: "/data", Size: 20 << 10, FileSystem: "ext4"}
	for _, tt := range []struct {
		rule, in string
		steps    []setup.Requested
		props    []setup.Parameter
		remark   string
	}{
		{"order", `<execute shell="sh" command="a" s:order=" 99 "/>`, execute(func(q *setup.Requested) { q.Stage = 99 }), nil, ""},
		{"order 0", `<execute shell="sh" command="a" s:order="0"/>`, execute(func(*setup.Requested) {}), nil, ""},
		{"order of an install", `<install url="http://h/a" install_path="/x" s:order="2" s:name="data"/>`,
			[]setup.Requested{{Step: setup.Step{Kind: setup.Install, URL: "http://h/a", InstallPath: "/x", Stage: 2, Name: "data"}}}, nil, ""},
		{"install of an install", `<install url="http://h/a" install_path="/x" s:operation="install"/>`,
			[]setup.Requested{{Step: setup.Step{Kind: setup.Install, URL: "http://h/a", InstallPath: "/x", Operation: setup.Install}}}, nil, ""},
		{"operation", `<execute shell="sh" command="a" s:operation="uninstall"/>`, execute(func(q *setup.Requested) { q.Operation = setup.Uninstall }), nil, ""},
		{"sudo", `<execute shell="sh" command="a" s:sudo="false"/>`, execute(func(q *setup.Requested) { q.AsUser = true }), nil, ""},
		{"with sudo", `<execute shell="sh" command="a" s:sudo="true"/>`, execute(func(*setup.Requested) {}), nil, ""},
		{"background", `<execute shell="sh" command="a" s:background="1"/>`, execute(func(q *setup.Requested) { q.Background = &yes }), nil, ""},
		{"in the foreground", `<execute shell="sh" command="a" s:background="false"/>`, execute(func(q *setup.Requested) { q.Background = &no }), nil, ""},
		{"name", `<execute shell="sh" command="a" s:name="fill the «db»"/>`, execute(func(q *setup.Requested) { q.Name = "fill the «db»" }), nil, ""},
		{"parameters", `<execute shell="sh" command="a"><s:parameter name="port" value=" 80&#10;"/><s:parameter name="empty" value=""/></execute>`,
			execute(func(q *setup.Requested) {
				q.Parameters = []setup.Parameter{{Name: "port", Value: " 80\n"}, {Name: "empty"}}
			}), nil, ""},
		{"T13 relation", `<execute shell="sh" command="a" s:order="1"><s:relation client_id="db"/></execute>`,
			execute(func(q *setup.Requested) { q.Stage, q.Relation = 1, &setup.Relation{ClientID: "db"} }), nil, ""},
		{"T13 relation on the target", `<execute shell="sh" command="a" s:order="1"><s:relation client_id="db" on="target"/></execute>`,
			execute(func(q *setup.Requested) {
				q.Stage, q.Relation = 1, &setup.Relation{ClientID: "db", OnTarget: true}
			}), nil, ""},
		{"relation of an operation outside of the plan", `<execute shell="sh" command="a" s:operation="stop"><s:relation client_id="db" on="source"/></execute>`,
			execute(func(q *setup.Requested) { q.Operation, q.Relation = setup.Stop, &setup.Relation{ClientID: "db"} }), nil, ""},
		{"properties", `<s:parameter name="port" value="80"/><execute shell="sh" command="a"/><s:parameter name="db.name" value="x"/>`,
			execute(func(*setup.Requested) {}), []setup.Parameter{{Name: "port", Value: "80"}, {Name: "db.name", Value: "x"}}, ""},
		{"script", `<s:step>` + base("echo 1\n") + `</s:step>`, []setup.Requested{{Step: script("sh", "echo 1\n")}}, nil, ""},
		{"script in bash", `<s:step language="bash" name="n" order="3" operation="configure" sudo="false" background="true">` + "\n  " + base("echo 1") + "\n" + `</s:step>`,
			[]setup.Requested{{Step: func() setup.Step {
				x := script("bash", "echo 1")
				x.Name, x.Stage, x.Operation, x.AsUser, x.Background = "n", 3, setup.Configure, true, &yes
				return x
			}()}}, nil, ""},
		{"script without padding", `<s:step>` + strings.TrimRight(base("echo 1!"), "=") + `</s:step>`, []setup.Requested{{Step: script("sh", "echo 1!")}}, nil, ""},
		{"script that names its interpreter", `<s:step>` + base("#!/usr/bin/python3\n") + `</s:step>`, []setup.Requested{{Step: script("", "#!/usr/bin/python3\n")}}, nil, ""},
		{"script with an interpreter and a language", `<s:step language="/bin/sh">` + base("#!/bin/bash\n") + `</s:step>`, []setup.Requested{{Step: script("sh", "#!/bin/bash\n")}}, nil, ""},
		{"files beside a script", `<s:step>` + base("./a/b") + `<s:file path="a/b">` + base("#!/bin/sh") + `</s:file><s:file path="c">` + base("c") + `</s:file></s:step>`,
			[]setup.Requested{{Step: func() setup.Step {
				x := script("sh", "./a/b")
				x.Files = append(x.Files, setup.File{URL: "data:;base64," + base("#!/bin/sh"), Path: "a/b"}, setup.File{URL: "data:;base64," + base("c"), Path: "c"})
				return x
			}()}}, nil, ""},
		{"file of the site's catalogue", `<s:step>` + base("./a") + `<s:file path="a" url="catalogue:web.tar.gz"/></s:step>`,
			[]setup.Requested{{Step: func() setup.Step {
				x := script("sh", "./a")
				x.Files = append(x.Files, setup.File{URL: "catalogue:web.tar.gz", Path: "a"})
				return x
			}()}}, nil, ""},
		{"playbook", `<s:step language="ansible">` + base("- hosts: all") + `</s:step>`,
			[]setup.Requested{{Step: setup.Step{Kind: setup.Execute, Shell: "sh", Script: "playbook", Files: []setup.File{{URL: "data:;base64," + base("- hosts: all"), Path: "playbook"}}}, IsPlaybook: true}}, nil, ""},
		{"unknown element in a step", `<s:step>` + base("a") + `<s:files/></s:step>`, []setup.Requested{{Step: script("sh", "a")}}, nil, `<step> with an unknown element <files>; use parameter, relation or file`},
		{"file in an execute", `<execute shell="sh" command="a"><s:file path="a"/></execute>`, execute(func(*setup.Requested) {}), nil, `<execute> with an unknown element <file>; use parameter or relation`},
		{"user data that is a script", `<s:userdata>` + base("#!/bin/sh\ntrue") + `</s:userdata>`, []setup.Requested{{Step: script("", "#!/bin/sh\ntrue")}}, nil, ""},
		{"user data", `<s:userdata name="n">` + base("#cloud-config\n") + `</s:userdata>`,
			[]setup.Requested{{Step: setup.Step{Kind: setup.UserData, Name: "n", URL: "data:;base64," + base("#cloud-config\n")}}}, nil, ""},
		{"disk", `<s:disk size="20G" mount_path="/data"/>`, []setup.Requested{{Step: disk}}, nil, ""},
		{"disk with an image", `<s:disk size="20G" mount_path="/data" image="tools"/>`, []setup.Requested{{Step: setup.Step{Kind: setup.Disk, URL: "tools", InstallPath: "/data", Size: 20 << 10, FileSystem: "ext4"}}}, nil, ""},
		{"disk, all of it", `<s:disk name="n" size="1.5M" mount_path="/data" fstype="xfs" device="sdb"/>`,
			[]setup.Requested{{Step: setup.Step{Kind: setup.Disk, Name: "n", InstallPath: "/data", Size: 2, FileSystem: "xfs"}}}, nil, `asks for the device "sdb", but the site chooses the device`},
		{"order without a prefix", `<execute shell="sh" command="a" order="1"/>`, execute(func(*setup.Requested) {}), nil, `the attribute order without a prefix; write setup:order`},
		{"operation with a prefix on our element", `<s:disk size="20G" mount_path="/data" s:name="x"/>`, []setup.Requested{{Step: disk}}, nil, `the attribute name with a prefix; write name without a prefix`},
		{"our element without a prefix", `<step name="x">ZWNobwo=</step>`, nil, nil, `<step> has no prefix; write <setup:step> and xmlns:setup=`},
		{"misspelled namespace", `<x:step xmlns:x="http://patchbay.example.org/rspec/ext/setup/2">ZWNobwo=</x:step>`, nil, nil, `unknown namespace "http://patchbay.example.org/rspec/ext/setup/2"; use http://patchbay.example.org/rspec/ext/setup/1`},
		{"unknown attribute", `<execute shell="sh" command="a" s:stage="1"/>`, execute(func(*setup.Requested) {}), nil, `a <execute> has an unknown attribute "stage"; use name, order, `},
		{"unknown attribute of an element of ours", `<s:disk size="20G" path="/x" mount_path="/data"/>`, []setup.Requested{{Step: disk}}, nil, `a <disk> has an unknown attribute "path"; use name, size, mount_path`},
		{"sudo of an install", `<install url="http://h/a" install_path="/x" s:sudo="?"/>`, []setup.Requested{{Step: install("http://h/a", "/x")}}, nil, `a <install> has an unknown attribute "sudo"; use name, order`},
		{"unknown element", `<s:steps/>`, nil, nil, `unknown element <steps>; use step, parameter, userdata or disk`},
		{"unknown element in an execute", `<execute shell="sh" command="a"><s:param/></execute>`, execute(func(*setup.Requested) {}), nil, `<execute> with an unknown element <param>; use parameter or relation`},
		{"parameter of an install", `<install url="http://h/a" install_path="/x"><s:parameter/></install>`, []setup.Requested{{Step: install("http://h/a", "/x")}}, nil, `<install> with an unknown element <parameter>; it is ignored`},
		{"mistake in a plain step beside ours", `<execute shell="perl" command="a"/><s:disk size="20G" mount_path="/data"/>`, []setup.Requested{{Step: disk}}, nil, `the shell "perl"; use sh or bash; this step will be ignored`},
	} {
		r := mustParse(t, prepared("", tt.in), ours())
		got := r.Nodes[1].Services
		if d := cmp.Diff(tt.steps, got.Steps) + cmp.Diff(tt.props, got.Properties); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.rule, d)
		}
		if remarks := strings.Join(Lines(r.Notices), "; "); tt.remark == "" && remarks != "" || !strings.Contains(remarks, tt.remark) {
			t.Errorf("%s: remarks %q, want %q", tt.rule, remarks, tt.remark)
		}
	}
}

func manyFiles(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `<s:file path="f%d">eA==</s:file>`, i)
	}
	return b.String()
}

func TestStepsAreRefused(t *testing.T) {
	const x = `<execute shell="sh" command="a" `
	long := strings.Repeat("x", 64<<10+1)
	for _, tt := range []struct {
		rule, db, in string
		kind         Kind
		want         string
	}{
		{"order without a number", "", x + `§s:order="first"/>`, BadArgs, `order="first"; write a whole number from 0 to 99`},
		{"order above 99", "", x + `§s:order="100"/>`, BadArgs, `order="100"`},
		{"negative order", "", `<s:step §order="-1">` + base("a") + `</s:step>`, BadArgs, `order="-1"`},
		{"unknown operation", "", x + `§s:operation="reboot"/>`, BadArgs, `operation="reboot"; use install, configure, start, stop or uninstall`},
		{"stop of an install", "", `<install url="http://h/a" install_path="/x" §s:operation="stop"/>`, BadArgs, `an install with operation="stop", which is not possible; write an execute`},
		{"sudo", "", x + `§s:sudo="maybe"/>`, BadArgs, `sudo="maybe"; write true or false`},
		{"background", "", x + `§s:background=""/>`, BadArgs, `background=""; write true or false`},
		{"long name", "", x + `§s:name="` + long[:81] + `"/>`, BadArgs, `at most 80 bytes`},
		{"name of two lines", "", x + `§s:name="a&#10;b"/>`, BadArgs, `one line`},
		{"a shell with an order", "", `<execute §shell="perl" command="a" s:order="1"/>`, BadArgs, `the shell "perl"; use sh or bash`},
		{"an install without a path, with an order", "", `§<install url="http://h/a" s:order="1"/>`, BadArgs, `the install_path ""; use an absolute path`},
		{"parameter without a name", "", x + `>§<s:parameter value="1"/></execute>`, BadArgs, `a parameter with the name ""; give it a name`},
		{"parameter without a value", "", x + `>§<s:parameter name="a"/></execute>`, BadArgs, `a parameter "a" without a value; add`},
		{"parameter with a long value", "", x + `><s:parameter name="a" §value="` + long + `"/></execute>`, TooBig, `whose value has more than 65536 bytes`},
		{"T12 two names of one variable", "", x + `><s:parameter name="db.name" value="x"/>§<s:parameter name="db_name" value="y"/></execute>`, BadArgs, `the parameters "db.name" and "db_name" both become the variable db_name; rename it`},
		{"T12 the name of a property", "", `<s:parameter name="db.name" value="x"/>` + x + `>§<s:parameter name="db-name" value="y"/></execute>`, BadArgs, `"db.name" and "db-name" both become`},
		{"T12 properties", "", `<s:parameter name="db.name" value="x"/>§<s:parameter name="db_name" value="y"/>`, BadArgs, `both become the variable db_name`},
		{"T12 reserved", "", `§<s:parameter name="HOME" value="x"/>`, BadArgs, `would replace the variable HOME`},
		{"T13 collision with the source", "", `<s:parameter name="port" value="1"/>` + x + `s:order="1"><s:relation client_id="db"/>§<s:parameter name="SOURCE_port" value="1"/></execute>`, BadArgs, `both become the variable SOURCE_port`},
		{"T13 collision with the target", `<s:parameter name="port" value="1"/>`, x + `><s:relation client_id="db"/>§<s:parameter name="TARGET.port" value="1"/></execute>`, BadArgs, `"TARGET_port" and "TARGET.port" both become`},
		{"T13 collision with the name of the target", "", x + `><s:relation client_id="db"/>§<s:parameter name="TARGET_NODE_HOSTNAME" value="1"/></execute>`, BadArgs, `would replace the variable TARGET_NODE_HOSTNAME`},
		{"a parameter twice", "", x + `><s:parameter name="a" value="1"/>§<s:parameter name="a" value="2"/></execute>`, BadArgs, `the parameter "a" is given twice; rename it`},
		{"a word that happens to be base64", "", `§<s:step>hostname</s:step>`, BadArgs, "a <step> that decodes to bytes that are no script; encode the script itself"},
		{"relation to nothing", "", x + `>§<s:relation/></execute>`, BadArgs, `a relation without a client_id; name the other node`},
		{"relation to an unknown node", "", x + `><s:relation §client_id="dbs"/></execute>`, BadArgs, `a relation to "dbs", but there is no such node`},
		{"relation to itself", "", x + `><s:relation §client_id="web"/></execute>`, BadArgs, `a relation to itself; name another node`},
		{"relation on nothing", "", x + `><s:relation client_id="db" §on="both"/></execute>`, BadArgs, `on="both"; use source or target`},
		{"several relations", "", x + `><s:relation client_id="db"/>§<s:relation client_id="db"/></execute>`, BadArgs, `several relations`},
		{"T13 stage of a relation", x + `/>`, `§` + x + `><s:relation client_id="db"/></execute>`, BadArgs, `a step of order 0 with a relation to "db", whose steps end with order 0; give it setup:order="1"`},
		{"T13 stage of a relation with an order", x + `/>` + x + `s:order="7"/>` + x + `s:operation="stop" s:order="9"/>`, x + `§s:order="7"><s:relation client_id="db"/></execute>`, BadArgs, `end with order 7; give it setup:order="8"`},
		{"T13 stage of a script with a relation", x + `/>`, `§<s:step><s:relation client_id="db"/>` + base("a") + `</s:step>`, BadArgs, `give it order="1"`},
		{"T13 stage above the last", x + ` s:order="99"/>`, x + `§s:order="99"><s:relation client_id="db"/></execute>`, BadArgs, `whose steps end with the last stage, order 99; give the steps of that node a lower setup:order`},
		{"body without base64", "", `§<s:step>echo 1!</s:step>`, BadArgs, `a <step> whose content is not base64; encode`},
		{"no body", "", `§<s:step> </s:step>`, BadArgs, `a <step> without content`},
		{"no user data", "", `§<s:userdata/>`, BadArgs, `a <userdata> without content`},
		{"long body", "", `§<s:userdata>` + base(long) + `</s:userdata>`, TooBig, `a <userdata> of more than 65536 bytes`},
		{"language", "", `<s:step §language="perl">` + base("a") + `</s:step>`, Unsupported, `a step in the language "perl"; use sh, bash or ansible, or begin`},
		{"file above the folder", "", `<s:step>` + base("a") + `<s:file §path="../a">` + base("a") + `</s:file></s:step>`, BadArgs, `a file with the path "../a"; write a relative path`},
		{"file with an absolute path", "", `<s:step>` + base("a") + `<s:file §path="/a">` + base("a") + `</s:file></s:step>`, BadArgs, `a file with the path "/a"`},
		{"file without a path", "", `<s:step>` + base("a") + `§<s:file>` + base("a") + `</s:file></s:step>`, BadArgs, `a file with the path ""`},
		{"file twice", "", `<s:step>` + base("a") + `<s:file path="x">` + base("a") + `</s:file><s:file §path="x">` + base("b") + `</s:file></s:step>`, BadArgs, `the files "x" and "x"`},
		{"file that is a folder", "", `<s:step>` + base("a") + `<s:file path="x/y">` + base("a") + `</s:file><s:file §path="x">` + base("b") + `</s:file></s:step>`, BadArgs, `the files "x/y" and "x", which cannot be in one folder`},
		{"file with the name of the script", "", `<s:step>` + base("a") + `<s:file §path="script">` + base("b") + `</s:file></s:step>`, BadArgs, `the files "script" and "script"`},
		{"file in the folder of playbooks", "", `<s:step>` + base("a") + `<s:file §path=".patchbay/run">` + base("b") + `</s:file></s:step>`, BadArgs, `that folder is reserved`},
		{"file of the catalogue with a digest", "", `<s:step>` + base("a") + `<s:file path="x" §url="catalogue:web#` + strings.Repeat("0", 64) + `"/></s:step>`, BadArgs, `a file with the url "catalogue:web#000`},
		{"file from elsewhere", "", `<s:step>` + base("a") + `<s:file path="x" §url="http://example.org/x"/></s:step>`, BadArgs, `a file with the url "http://example.org/x"; write catalogue:NAME`},
		{"file of the catalogue with content", "", `<s:step>` + base("a") + `<s:file path="x" §url="catalogue:web">` + base("b") + `</s:file></s:step>`, BadArgs, `and no content`},
		{"file that is not base64", "", `<s:step>` + base("a") + `§<s:file path="x">?</s:file></s:step>`, BadArgs, `a <file> whose content is not base64`},
		{"too many files", "", `<s:step>` + base("a") + manyFiles(249) + `§<s:file path="last">eA==</s:file></s:step>`, TooBig, "more than 249 files"},
		{"disk without a size", "", `§<s:disk mount_path="/data"/>`, BadArgs, `a disk with size=""; write a size such as "20G"`},
		{"disk of nothing", "", `<s:disk §size="0" mount_path="/data"/>`, BadArgs, `size="0"`},
		{"disk with a relative path", "", `<s:disk size="20G" §mount_path="data"/>`, BadArgs, `the mount_path "data"; use an absolute path`},
		{"disk as the root", "", `<s:disk size="20G" §mount_path="//"/>`, BadArgs, `the mount_path "//"`},
		{"disk with a file system", "", `<s:disk size="20G" mount_path="/data" §fstype="ext4 -F"/>`, BadArgs, `the fstype "ext4 -F"`},
		{"too many steps", "", strings.Repeat(`<s:step>`+base("a")+`</s:step>`, 200) + `§<s:disk/>`, TooBig, `more than 200 steps`},
		{"too many parameters", "", x + `>` + numbered(200, `<s:parameter name="a#" value=""/>`) + `§<s:parameter/><s:parameter/></execute>`, TooBig, `more than 200 parameters in one place`},
	} {
		in, places := marked(string(prepared(tt.db, tt.in)))
		e := refusalOf(t, []byte(in), ours())
		if len(e.Problems) != 1 || e.Kind != tt.kind || e.ClientID != "web" || !strings.Contains(e.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.rule, e, tt.want)
		}
		if got := [2]int{e.Line, e.Column}; got != places[0] {
			t.Errorf("%s: at %v, want %v", tt.rule, got, places[0])
		}
		stored := ours()
		stored.Stored = true
		mustParse(t, []byte(in), stored)
	}
}

func TestExpandedStepsAreLimited(t *testing.T) {
	value := strings.Repeat("x", 60<<10)
	properties := func(n int) string { return numbered(n, `<s:parameter name="p#" value="`+value+`"/>`) }
	step := `<execute shell="sh" command="a"/>`
	for _, tt := range []struct{ rule, db, web, want string }{
		{"variables of one step", "", properties(9) + step, `the parameters of a step of node "web" take more than 524288 bytes; put them into a file`},
		{"variables of source and target", properties(5), properties(5) + `<execute shell="sh" command="a"><s:relation client_id="db"/></execute>`, `the parameters of a step of node "web" take more than 524288 bytes`},
		{"variables of all steps", properties(1) + strings.Repeat(step, 40), properties(1) + strings.Repeat(step, 40), `the parameters and files of all steps take more than 4194304 bytes`},
		{"plain steps", strings.Repeat(step, 200), strings.Repeat(step, 200), ""},
		{"properties without steps", "", properties(40), ""},
	} {
		_, problems := Check(prepared(tt.db, tt.web), ours())
		if got := strings.Join(Lines(problems), "; "); tt.want == "" && got != "" || !strings.Contains(got, tt.want) || len(problems) > 1 {
			t.Errorf("%s: %s", tt.rule, got)
		}
	}
}

func numbered(n int, format string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.ReplaceAll(format, "#", fmt.Sprint(i)))
	}
	return b.String()
}

func TestRelationsToOtherAggregatesAreUnsupported(t *testing.T) {
	foreign := `<node client_id="far" component_manager_id="` + them + `"/>`
	in := strings.Replace(string(prepared("", `<execute shell="sh" command="a"><s:relation xmlns:s="`+setupSpace+`" client_id="far"/></execute>`)), "</rspec>", foreign+"</rspec>", 1)
	if e := refusalOf(t, []byte(in), ours()); e.Kind != Unsupported || !strings.Contains(e.Error(), `"far", a node of another aggregate`) {
		t.Error(e)
	}
}

func TestPlanOfARequest(t *testing.T) {
	for _, tt := range []struct {
		rule, in     string
		limit        time.Duration
		wrong, other string
	}{
		{"none", ``, 0, "", ""},
		{"a deadline", `<s:plan deadline=" 600 "/>`, 10 * time.Minute, "", ""},
		{"without a deadline", `<s:plan/>`, 0, "", ""},
		{"several", `<s:plan deadline="60"/><s:plan deadline="1"/>`, time.Minute, "", "several plans; the first one counts"},
		{"unknown attribute", `<s:plan dead_line="600"/>`, 0, "", `an unknown attribute "dead_line"; use deadline`},
		{"unknown element", `<s:plans/>`, 0, "", `an unknown element <plans>; use plan`},
		{"outside of the services", `<node client_id="a"><s:step/></node>`, 0, "", `a <step> outside of its <services>; move it into <services>`},
		{"a version of Ansible", `<s:plan ansible=" 2.14 " deadline="60"/>`, time.Minute, "", ""},
		{"a version that is none", `<s:plan ansible="2.14-rc1"/>`, 0, `the plan has ansible="2.14-rc1"; write a version such as "2.14"`, ""},
		{"no number", `<s:plan deadline="1h"/>`, 0, `the plan has deadline="1h"; write a number of seconds from 1 to 2592000`, ""},
		{"no time at all", `<s:plan deadline="0"/>`, 0, `deadline="0"`, ""},
		{"too long", `<s:plan deadline="2592001"/>`, 0, `deadline="2592001"`, ""},
	} {
		text := strings.Replace(string(request(tt.in)), "<rspec ", `<rspec xmlns:s="`+setupSpace+`" `, 1)
		r, problems := Check([]byte(text), ours())
		said := strings.Join(Lines(problems), "; ")
		if tt.wrong != "" {
			if r != nil || !strings.Contains(said, tt.wrong) {
				t.Errorf("%s: %s", tt.rule, said)
			}
			continue
		}
		if r != nil && strings.Contains(tt.in, "ansible") != (r.AnsibleVersion == "2.14") {
			t.Errorf("%s: Ansible %q", tt.rule, r.AnsibleVersion)
		}
		if r == nil || r.SetupLimit != tt.limit || tt.other == "" && said != "" || !strings.Contains(said, tt.other) {
			t.Errorf("%s: %v, %s", tt.rule, r, said)
		}
	}
}
