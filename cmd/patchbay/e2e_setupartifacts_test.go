package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"patchbay/am"
	"patchbay/am/client"
)

// The tests of this file are named after the acceptance tests of TOSCA artifacts, T1 to T19.

// tarEntry is an entry of an archive: a folder if its name ends with a slash, a symbolic link if it
// has a target.
type tarEntry struct {
	name         string
	mode         int64
	uid, gid     int
	text, target string
}

func tarOf(t testing.TB, entries ...tarEntry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := tar.Header{Name: e.name, Mode: e.mode, Uid: e.uid, Gid: e.gid, Size: int64(len(e.text)), Linkname: e.target}
		if e.target != "" {
			h.Typeflag = tar.TypeSymlink
		} else if strings.HasSuffix(e.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e.text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func dataOf(b []byte) string { return "data:;base64," + base64.StdEncoding.EncodeToString(b) }

// fileServer is a step that serves the files in /srv/files by HTTP at port 80.
const fileServer = `use IO::Socket::INET;
$server = IO::Socket::INET->new(LocalPort => 80, Listen => 50, ReuseAddr => 1) or die "port 80: $@";
exit if fork;
$SIG{PIPE} = 'IGNORE';
while ($client = $server->accept) {
    ($path) = <$client> =~ m{^GET /(\S+)};
    while (<$client> =~ /\S/) { }
    if (open $file, '<:raw', "/srv/files/$path") {
        printf {$client} "HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n", -s $file;
        print {$client} <$file>;
    } else {
        print {$client} "HTTP/1.0 404 Not Found\r\n\r\n";
    }
    close $client;
}
`

// artifactRequest starts with nodes; each node is on the LAN.
type artifactRequest struct{ top, nodes, link strings.Builder }

func (r *artifactRequest) node(name, services string) {
	fmt.Fprintf(&r.nodes, "<node client_id=%q><interface client_id=\"%[1]s:0\"/><services>%s</services></node>\n", name, services)
	fmt.Fprintf(&r.link, "<interface_ref client_id=\"%s:0\"/>", name)
}

func (r *artifactRequest) String() string {
	return `<rspec xmlns="http://www.geni.net/resources/rspec/3" type="request" xmlns:setup="http://patchbay.example.org/rspec/ext/setup/1"
  xmlns:t="http://docs.oasis-open.org/tosca/ns/2011/12" xmlns:b="http://docs.oasis-open.org/tosca/ns/2011/12/ToscaBaseTypes">
` + r.top.String() + r.nodes.String() + `<link client_id="lan">` + r.link.String() + "</link></rspec>"
}

// The archive of T1 to T5, T7 and T19, as requests describe it.
const (
	contentURL    = "http://files/MyDatabaseContent.tar"
	accountMaps   = `<b:UserMap><b:User name="myappadm" id="1001"/></b:UserMap><b:GroupMap><b:Group name="myappgrp" id="1001"/></b:GroupMap>`
	contentSource = `<b:ContentSourceLocation path="/myapplication/mydatabase">` +
		`<b:Segment name="/myapplication" userID="1001" groupID="1001" permissions="755"/>` +
		`<b:Segment name="/myapplication/mydatabase" userID="1001" groupID="1001" permissions="754"/></b:ContentSourceLocation>`
	contentProperties = `<b:ArchiveArtifactProperties><b:ArchiveInformation archiveReference="MyDatabaseContent.tar" archiveType="tar">` + accountMaps + contentSource + `</b:ArchiveInformation></b:ArchiveArtifactProperties>`
	noPath            = `<b:ArchiveArtifactProperties><b:ArchiveInformation archiveReference="MyDatabaseContent.tar">` + accountMaps + `</b:ArchiveInformation></b:ArchiveArtifactProperties>`
)

// deployment returns the properties of one use of the archive with the reference.
func deployment(reference, text string) string {
	return `<b:ArchiveArtifactContextProperties><b:ArchiveDeploymentInformation archiveReference="` + reference + `">` + text + `</b:ArchiveDeploymentInformation></b:ArchiveArtifactContextProperties>`
}

func deployedTo(path, segments string) string {
	return `<b:ContentDeploymentLocation path="` + path + `">` + segments + `</b:ContentDeploymentLocation>`
}

// installed returns an install of the content in stage 1, and a command that shows the result.
func installed(path, properties, command string) string {
	return fmt.Sprintf(`<install url=%q install_path=%q setup:order="1">%s</install>`, contentURL, path, properties) + shows(1, command)
}

// shows returns an execute whose output the test compares.
func shows(stage int, command string) string {
	return fmt.Sprintf(`<execute shell="sh" command="%s; echo >>/root/runs" setup:order="%d"/>`, command, stage)
}

// showEntries prints the content of the archive, with owners and modes.
const showEntries = `stat -c '%n %u:%g %a' data data/table other readme`

// treeOf is the output of showEntries with the numeric owners of the archive, or others for 1001.
func treeOf(owner string) string {
	return fmt.Sprintf("data %[1]s 750\ndata/table %[1]s 640\nother 2002:2003 600\nreadme 0:0 644\n", owner)
}

// testArtifacts runs T1 to T5, T7, T9, T11 to T14 and T16 to T19 on real nodes.
func testArtifacts(t *testing.T, s *setupSite) {
	var r artifactRequest
	files := tarOf(t,
		tarEntry{name: "MyDatabaseContent.tar", mode: 0o644, text: string(tarOf(t,
			tarEntry{name: "data/", mode: 0o750, uid: 1001, gid: 1001},
			tarEntry{name: "data/table", mode: 0o640, uid: 1001, gid: 1001, text: "rows\n"},
			tarEntry{name: "other", mode: 0o600, uid: 2002, gid: 2003},
			tarEntry{name: "readme", mode: 0o644}))},
		tarEntry{name: "one.tar", mode: 0o644, text: string(tarOf(t, tarEntry{name: "1", mode: 0o644}))},
		tarEntry{name: "two.tar", mode: 0o644, text: string(tarOf(t, tarEntry{name: "2", mode: 0o644}))},
		tarEntry{name: "scripts/MySQL/configure.sh", mode: 0o644, text: ". scripts/MySQL/helper.sh\nhelp \"$1\"\n"},
		tarEntry{name: "scripts/MySQL/helper.sh", mode: 0o644, text: "help() { echo \"helped in $(ls -R | grep -c '[.]sh$') files\"; }\n"})
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(files); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	r.node("files", `<install url="`+dataOf(packed.Bytes())+`" install_path="/srv/files"/><execute shell="sh" command="cat &gt;/root/serve.pl &lt;&lt;'END'&#10;`+
		strings.NewReplacer("<", "&lt;", ">", "&gt;", "\n", "&#10;", `"`, "&quot;").Replace(fileServer)+`END&#10;perl /root/serve.pl"/>`)
	want := map[string]string{} // outputs of the last step of each node

	const accounts = `getent passwd myappadm | cut -d: -f1,3,4; getent group myappgrp | cut -d: -f1,3`
	r.node("T1", installed("", contentProperties, `stat -c '%n %u:%g %a' /myapplication /myapplication/mydatabase; cd /myapplication/mydatabase; `+showEntries+`; cat data/table; `+accounts))
	want["T1"] = "/myapplication 1001:1001 755\n/myapplication/mydatabase 1001:1001 754\n" + treeOf("1001:1001") + "rows\nmyappadm:1001:1001\nmyappgrp:1001\n"

	r.node("T2", installed("", contentProperties+deployment("MyDatabaseContent.tar", deployedTo("/myapp/mydb",
		`<b:Segment name="/myapp" userID="1001" groupID="1001" permissions="711"/><b:Segment name="/myapp/mydb" userID="1001" groupID="0" permissions="0750"/>`)),
		`ls -d /myapplication 2>/dev/null; stat -c '%n %u:%g %a' /myapp /myapp/mydb; cd /myapp/mydb; `+showEntries))
	want["T2"] = "/myapp 1001:1001 711\n/myapp/mydb 1001:0 750\n" + treeOf("1001:1001")

	r.node("T3", `<execute shell="sh" command="echo taken:x:1001:1001::/:/bin/sh &gt;&gt;/etc/passwd; echo taken:x:1001: &gt;&gt;/etc/group"/>`+
		installed("", contentProperties, `u=$(id -u myappadm); g=$(getent group myappgrp | cut -d: -f3); test $u != 1001 -a $g != 1001 || echo the number is taken; `+
			`stat -c '%n %u:%g' /myapplication /myapplication/mydatabase | sed s/$u:$g/new/; cd /myapplication/mydatabase; `+showEntries+` | sed s/$u:$g/new/; id -un 1001`))
	want["T3"] = "/myapplication new\n/myapplication/mydatabase new\n" + treeOf("new") + "taken\n"

	r.node("T4", installed("", strings.Replace(contentProperties, "</b:UserMap>", `<b:User name="helper" id="1005"/></b:UserMap>`, 1)+
		deployment("MyDatabaseContent.tar", `<b:UserMap><b:User name="otheradm" id="1001"/></b:UserMap>`),
		`id -u otheradm helper; id -u myappadm 2>/dev/null; stat -c %U:%G /myapplication/mydatabase/data`))
	want["T4"] = "1001\n1005\notheradm:myappgrp\n"

	r.node("T5", installed("", noPath+deployment("MyDatabaseContent.tar", deployedTo("/a/b/c",
		`<b:Segment name="/a" userID="1001" groupID="1001" permissions="711"/><b:Segment name="/a/b/c" userID="1001" groupID="1001" permissions="700"/>`)),
		`stat -c '%n %u:%g %a' /a /a/b /a/b/c`))
	want["T5"] = "/a 1001:1001 711\n/a/b 0:0 755\n/a/b/c 1001:1001 700\n"

	r.node("T7", installed("/t7", noPath+deployment("MyDatabaseContent.tar", deployedTo("/t7", "")), `cd /t7; `+showEntries))
	want["T7"] = treeOf("1001:1001")

	r.top.WriteString(`<t:ArtifactTemplate id="both" type="b:ArchiveArtifact"><t:Properties><b:ArchiveArtifactProperties>` +
		`<b:ArchiveInformation archiveReference="http://files/one.tar" archiveType="tar"><b:ContentSourceLocation path="/one"/></b:ArchiveInformation>` +
		`<b:ArchiveInformation archiveReference="http://files/two.tar" archiveType="tar"><b:ContentSourceLocation path="/two"/></b:ArchiveInformation>` +
		`</b:ArchiveArtifactProperties></t:Properties><t:ArtifactReferences><t:ArtifactReference reference="http://files/one.tar"/><t:ArtifactReference reference="http://files/two.tar"/></t:ArtifactReferences></t:ArtifactTemplate>` + "\n")
	elsewhere := deployment("one.tar", deployedTo("/elsewhere", ""))
	r.node("T9", `<install url="http://files/one.tar" install_path="" setup:order="1" setup:artifact="both">`+elsewhere+`</install>`+
		`<install url="http://files/two.tar" install_path="" setup:order="1" setup:artifact="both">`+elsewhere+`</install>`+
		shows(1, `ls -d /one 2>/dev/null; ls /elsewhere /two`))
	want["T9"] = "/elsewhere:\n1\n\n/two:\n2\n"

	r.top.WriteString(`<t:ArtifactTemplate id="mysql" type="b:ScriptArtifact" xml:base="http://files/"><t:Properties><b:ScriptArtifactProperties>` +
		`<b:ScriptLanguage>sh</b:ScriptLanguage><b:PrimaryScript>scripts/MySQL/configure.sh</b:PrimaryScript></b:ScriptArtifactProperties></t:Properties>` +
		`<t:ArtifactReferences><t:ArtifactReference reference="scripts/MySQL/configure.sh"/><t:ArtifactReference reference="scripts/MySQL/helper.sh"/></t:ArtifactReferences></t:ArtifactTemplate>` + "\n")
	r.node("T11", `<execute shell="sh" command="scripts/MySQL/configure.sh" setup:order="1" setup:artifact="mysql"/>`)
	want["T11"] = "helped in 2 files\n"

	r.node("T12", `<execute shell="sh" command="echo $port $db_name" setup:order="1"><setup:parameter name="port" value="80"/><setup:parameter name="db.name" value="x"/></execute>`)
	want["T12"] = "80 x\n"

	const related = `echo $SOURCE_port $TARGET_port $SOURCE_NODE_CLIENT_ID $TARGET_NODE_CLIENT_ID on $NODE_CLIENT_ID $(hostname)`
	r.node("T13db", `<setup:parameter name="port" value="5432"/><execute shell="sh" command="sleep 0.5" setup:order="1"/>`)
	r.node("T13", `<setup:parameter name="port" value="8080"/><execute shell="sh" command="`+related+`" setup:order="2"><setup:relation client_id="T13db" on="target"/></execute>`+
		`<execute shell="sh" command="`+related+`" setup:order="2"><setup:relation client_id="T13db"/></execute>`)
	want["T13db"] = "8080 5432 T13 T13db on T13db t13db\n"
	want["T13"] = "8080 5432 T13 T13db on T13 t13\n"

	r.node("T19", installed("", noPath+deployment("MyDatabaseContent.tar", deployedTo("/t19/db", "")), `stat -c '%n %u:%g %a' /t19 /t19/db; cd /t19/db; `+showEntries))
	want["T19"] = "/t19 0:0 755\n/t19/db 0:0 755\n" + treeOf("1001:1001")

	x := s.slice(t, "tosca")
	manifest := x.create(r.String())
	failed := x.slice(t, "failed")
	failed.create(`<rspec xmlns="http://www.geni.net/resources/rspec/3" type="request" xmlns:setup="http://patchbay.example.org/rspec/ext/setup/1">` +
		`<node client_id="a"><services><execute shell="sh" command="echo oh; exit 3" setup:order="1"/>` + shows(1, "true") + `</services></node>` +
		`<node client_id="b"><services>` + shows(1, "true") + shows(2, "true") + `</services></node>` +
		`<node client_id="c"><services>` + shows(2, "true") + `</services></node></rspec>`)
	hostile := x.slice(t, "hostile")
	hostile.create(`<rspec xmlns="http://www.geni.net/resources/rspec/3" type="request" xmlns:b="http://docs.oasis-open.org/tosca/ns/2011/12/ToscaBaseTypes"><node client_id="a"><services>` +
		hostileInstall(t, tarEntry{name: "../../etc/x", mode: 0o644, text: "x"}) +
		hostileInstall(t, tarEntry{name: "fine", mode: 0o644}, tarEntry{name: "way", target: "/etc"}, tarEntry{name: "way/x", mode: 0o644, text: "x"}) +
		`<execute shell="sh" command="ls -A /etc/x /srv/hostile 2&gt;/dev/null | grep -v :"/></services></node></rspec>`)

	all := x.awaitReady()
	for _, name := range []string{"T1", "T2", "T3", "T4", "T5", "T7", "T9", "T11", "T12", "T13", "T19"} {
		t.Run(name, func(t *testing.T) {
			wantSteps(t, all[name], want[name])
			if name == "T13" {
				wantSteps(t, all["T13db"], want["T13db"])
				wantStages(t, reportedSpans(map[string]client.Sliver{"T13": all["T13"], "T13db": all["T13db"]}))
			}
		})
	}
	t.Run("T14", func(t *testing.T) { testFailedStep(t, failed) })
	t.Run("T16", func(t *testing.T) { testElementsStay(t, s.slice(t, "other"), &r, manifest) })
	t.Run("T17", func(t *testing.T) {
		all := hostile.awaitReady()["a"].Services
		for _, v := range all[:2] {
			if v.State != string(am.StepFailed) || v.Message == "" {
				t.Errorf("%+v", v)
			}
		}
		if got := all[2].Output; got != "" {
			t.Errorf("something was unpacked: %q", got)
		}
	})
	t.Run("T18", func(t *testing.T) {
		x := s.slice(t, "tosca")
		before := x.status()
		x.act(am.ActionRestart)
		x.awaitReady()
		x.act(am.ActionSetup)
		after := x.awaitReady()
		for name := range before {
			if d := cmp.Diff(before[name].Services, after[name].Services); d != "" {
				t.Errorf("%s (-before +after):\n%s", name, d)
			}
		}
		if got := x.run(x.logins()["T1"], "sudo sh -c 'wc -l </root/runs'"); got != "1\n" {
			t.Errorf("the last step has run %s times", got)
		}
	})
	for _, x := range []*setupSlice{x, failed, hostile} {
		x.delete()
	}
}

func hostileInstall(t testing.TB, list ...tarEntry) string {
	return `<install url="` + dataOf(tarOf(t, list...)) + `" install_path="/srv/hostile"><b:ArchiveArtifactProperties><b:ArchiveInformation archiveType="tar"/></b:ArchiveArtifactProperties></install>`
}

// wantSteps fails unless all steps of a node are done, and the last one has this output.
func wantSteps(t *testing.T, s client.Sliver, want string) {
	t.Helper()
	for _, v := range s.Services {
		if v.State != string(am.StepDone) {
			t.Errorf("%s: %+v", s.ClientID, v)
		}
	}
	if n := len(s.Services); n == 0 {
		t.Errorf("%s has no steps", s.ClientID)
	} else if d := cmp.Diff(want, s.Services[n-1].Output+"\n"); d != "" {
		t.Errorf("%s (-want +got):\n%s", s.ClientID, d)
	}
}

// testFailedStep checks a step that fails in stage 1 of 2.
func testFailedStep(t *testing.T, x *setupSlice) {
	all := x.awaitReady()
	if got := all["a"].Error; !strings.Contains(got, "execute 1 of 2") || !strings.Contains(got, "status 3") {
		t.Errorf("the node with the failed step has the error %q", got)
	}
	for name, want := range map[string]string{"a": "failed waiting", "b": "done waiting", "c": "waiting"} {
		var states []string
		for _, v := range all[name].Services {
			states = append(states, v.State)
		}
		if got := strings.Join(states, " "); got != want {
			t.Errorf("the steps of %s are %s, want %s", name, got, want)
		}
		if got := all[name].Error; name != "a" && (!strings.Contains(got, "not run") || !strings.Contains(got, "of node a failed")) {
			t.Errorf("%s has the error %q", name, got)
		}
	}
	runs := map[string]string{}
	for name, at := range x.logins() {
		runs[name] = x.run(at, "sudo sh -c 'cat /root/runs 2>/dev/null | wc -l'")
	}
	if d := cmp.Diff(map[string]string{"a": "0\n", "b": "1\n", "c": "0\n"}, runs); d != "" {
		t.Errorf("runs (-want +got):\n%s", d)
	}
}

// testElementsStay compares manifests with the request r: that of this aggregate, and that of a
// request for another one.
func testElementsStay(t *testing.T, x *setupSlice, r *artifactRequest, manifest string) {
	parts := strings.Split(strings.TrimSpace(r.top.String()), "\n")
	nodes := strings.Split(strings.TrimSpace(r.nodes.String()), "\n")
	for _, node := range nodes {
		_, services, _ := strings.Cut(node, "<services>")
		services, _, _ = strings.Cut(services, "</services>")
		parts = append(parts, services)
	}
	for _, part := range parts {
		if !strings.Contains(manifest, part) {
			t.Errorf("the manifest lacks %s", part)
		}
	}
	theirs := strings.ReplaceAll(r.String(), "<node ", `<node component_manager_id="urn:publicid:IDN+other.example.org+authority+cm" `)
	manifest = x.create(strings.Replace(theirs, "<link ", `<node client_id="ours"/><link `, 1))
	defer x.delete()
	for _, node := range nodes {
		if !strings.Contains(manifest, strings.Replace(node, "<node ", `<node component_manager_id="urn:publicid:IDN+other.example.org+authority+cm" `, 1)) {
			t.Errorf("the manifest lacks %s", node)
		}
	}
	x.awaitReady()
}

// testRefusedArtifacts requests what must be refused before any node exists.
func testRefusedArtifacts(t *testing.T, s *setupSite) {
	install := func(path, properties string) string {
		return fmt.Sprintf(`<install url=%q install_path=%q>%s</install>`, contentURL, path, properties)
	}
	script := func(properties string) string {
		return `<execute shell="sh" command="./a.sh"><b:ScriptArtifactProperties>` + properties + `</b:ScriptArtifactProperties><t:ArtifactReferences><t:ArtifactReference reference="http://files/a.sh"/></t:ArtifactReferences></execute>`
	}
	edited := func(old, new string) string {
		t.Helper()
		if !strings.Contains(contentProperties, old) {
			t.Fatalf("there is no %s", old)
		}
		return install("", strings.Replace(contentProperties, old, new, 1))
	}
	x := s.slice(t, "other")
	for _, tt := range []struct {
		name, services string
		code           am.Code
		want           string
	}{
		{"T6", install("", noPath), am.BadArgs, "neither an install_path nor the path"},
		{"T7", install("/x", contentProperties+deployment("MyDatabaseContent.tar", deployedTo("/y", ""))), am.BadArgs, "differs from the path \"/y\""},
		{"T8/OtherSegment", edited(`name="/myapplication"`, `name="/other"`), am.BadArgs, `the segment "/other"`},
		{"T8/RelativePath", edited(`path="/myapplication`, `path="myapplication`), am.BadArgs, "ContentSourceLocation has the path"},
		{"T8/Permissions", edited(`permissions="755"`, `permissions="9z5"`), am.BadArgs, `Segment has permissions="9z5"`},
		{"T8/UserID", edited(`userID="1001"`, `userID="me"`), am.BadArgs, `<Segment> has userID="me"`},
		{"T8/TwoUsers", edited(`</b:UserMap>`, `<b:User name="again" id="1001"/></b:UserMap>`), am.BadArgs, "UserMap has the id 1001 twice"},
		{"T8/Reference", edited(`archiveReference="MyDatabaseContent.tar"`, `archiveReference="Another.tar"`), am.BadArgs, `archiveReference "Another.tar"`},
		{"T10", edited(`archiveType="tar"`, `archiveType="rar"`), am.Unsupported, `"rar"`},
		{"T12", `<execute shell="sh" command="true"><setup:parameter name="db.name" value="x"/><setup:parameter name="db_name" value="y"/></execute>`, am.BadArgs, "db_name"},
		{"T15/NoScript", script(`<b:ScriptLanguage>sh</b:ScriptLanguage>`), am.BadArgs, "no PrimaryScript"},
		{"T15/Language", script(`<b:ScriptLanguage>perl</b:ScriptLanguage><b:PrimaryScript>a.sh</b:PrimaryScript>`), am.Unsupported, `"perl"`},
	} {
		t.Run(path.Join("Refused", tt.name), func(t *testing.T) {
			var r artifactRequest
			r.node("a", tt.services)
			r.node("b", "")
			x.t = t
			if code, output := x.refused(r.String()); code != tt.code || !strings.Contains(output, tt.want) {
				t.Errorf("code %d, %q; want %d, %q", code, output, tt.code, tt.want)
			}
		})
	}
	if n := len(x.pids()); n > 0 {
		t.Errorf("%d nodes were made", n)
	}
}
