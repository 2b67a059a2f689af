package rspec

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"patchbay/rspec/step"
)

// withArtifact returns a request with an ArtifactTemplate "a" and a node "n" with services; t: is
// the prefix of TOSCA and s: of our extension.
func withArtifact(template, services string) []byte {
	return []byte(`<rspec type="request" xmlns="` + Namespace + `" xmlns:s="` + setupSpace + `" xmlns:t="` + toscaSpace + `" xmlns:b="` + toscaBase + `">` + "\n" +
		`<t:ArtifactTemplate id="a" type="b:X" ` + template + `</t:ArtifactTemplate><node client_id="n"><services>` + services + `</services></node></rspec>`)
}

const (
	accounts = `<b:UserMap><b:User name="myappadm" id="1001"/></b:UserMap><b:GroupMap><b:Group name="myappgrp" id="1001"/></b:GroupMap>`
	source   = `<b:ContentSourceLocation path="/myapplication/mydatabase"><b:Segment name="/myapplication" userID="1001" groupID="1001" permissions="755"/>` +
		`<b:Segment name="/myapplication/mydatabase" userID="1001" groupID="1001" permissions="0754"/></b:ContentSourceLocation>`
	oneArchive = `<b:ArchiveArtifactProperties><b:ArchiveInformation archiveReference="db.tar" archiveType="tar">` + accounts + source + `</b:ArchiveInformation></b:ArchiveArtifactProperties>`
	template   = `><t:Properties>` + oneArchive + `</t:Properties><t:ArtifactReferences><t:ArtifactReference reference="db.tar"/></t:ArtifactReferences>`
	of         = `<install url="http://h/x/db.tar" s:artifact="a" `
)

// contextOf returns the properties of one use of db.tar.
func contextOf(inside string) string {
	return `<b:ArchiveArtifactContextProperties><b:ArchiveDeploymentInformation archiveReference="db.tar">` + inside + `</b:ArchiveDeploymentInformation></b:ArchiveArtifactContextProperties>`
}

// readArtifact is a step with an artifact of a template, and what is read.
type readArtifact struct {
	rule, template, in string
	want               step.Step
	remark             string
}

func (tt *readArtifact) check(t *testing.T) {
	t.Helper()
	r := mustParse(t, withArtifact(tt.template, tt.in), ours())
	var got []step.Step
	for _, q := range r.Nodes[0].Services.Steps {
		got = append(got, q.Step)
	}
	if d := cmp.Diff([]step.Step{tt.want}, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", tt.rule, d)
	}
	if remarks := strings.Join(Lines(r.Notices), "; "); tt.remark == "" && remarks != "" || !strings.Contains(remarks, tt.remark) {
		t.Errorf("%s: remarks %q, want %q", tt.rule, remarks, tt.remark)
	}
}

func TestArchivesAreRead(t *testing.T) {
	type folders = []step.Folder
	account := func(name string) []step.Account { return []step.Account{{Name: name, ID: 1001}} }
	at := func(target, kind string, list folders) step.Step {
		return step.Step{Kind: step.Install, URL: "http://h/x/db.tar", InstallPath: target, FileType: kind,
			Archive: &step.Archive{Users: account("myappadm"), Groups: account("myappgrp"), Folders: list}}
	}
	segments := folders{{Path: "/myapplication", User: 1001, Group: 1001, Mode: "0755"}, {Path: "/myapplication/mydatabase", User: 1001, Group: 1001, Mode: "0754"}}
	named := at("/myapplication/mydatabase", "tar", segments)
	named.Archive.Users = account("other")
	for _, tt := range []readArtifact{
		{"T1 inline", ">", `<install url="http://h/x/db.tar" install_path="">` + oneArchive + `</install>`, at("/myapplication/mydatabase", "tar", segments), ""},
		{"T1 template", template, of + `/>`, at("/myapplication/mydatabase", "tar", segments), ""},
		{"T2 context", template, of + `>` + contextOf(`<b:ContentDeploymentLocation path="/myapp/mydb/"><b:Segment name="/myapp/mydb" userID="1001"/></b:ContentDeploymentLocation>`) + `</install>`,
			at("/myapp/mydb", "tar", folders{{Path: "/myapp/mydb", User: 1001, Mode: "0755"}}), ""},
		{"T4 another name for 1001", template, of + `>` + contextOf(`<b:UserMap><b:User name="other" id="1001"/></b:UserMap>`) + `</install>`, named, ""},
		{"T5 a missing segment", ">", `<install url="http://h/x/db.tar">` + strings.Replace(oneArchive, `<b:Segment name="/myapplication" userID="1001" groupID="1001" permissions="755"/>`, "", 1) + `</install>`,
			at("/myapplication/mydatabase", "tar", segments[1:]), ""},
		{"T7 the same path twice", template, of + `install_path="/myapp//mydb">` + contextOf(`<b:ContentDeploymentLocation path="/myapp/mydb"/>`) + `</install>`, at("/myapp/mydb", "tar", nil), ""},
		{"T19 context path without segments", template, of + `>` + contextOf(`<b:ContentDeploymentLocation path="/myapp"/>`) + `</install>`, at("/myapp", "tar", nil), ""},
		{"install_path before the source", template, of + `install_path="/x"/>`, at("/x", "tar", nil), ""},
		{"segments of the source above the target", template, of + `install_path="/myapplication/mydatabase/v2"/>`, at("/myapplication/mydatabase/v2", "tar", segments), ""},
		{"a home as the target", template, of + `install_path="~/db"/>`, at("~/db", "tar", nil), ""},
		{"T9 the context of one of two archives", `><t:Properties><b:ArchiveArtifactProperties><b:ArchiveInformation archiveReference="db.tar" archiveType="tgz"><b:ContentSourceLocation path="/db"/></b:ArchiveInformation>` +
			`<b:ArchiveInformation archiveReference="http://h/web.zip"><b:ContentSourceLocation path="/web"/></b:ArchiveInformation></b:ArchiveArtifactProperties></t:Properties>` +
			`<t:ArtifactReferences><t:ArtifactReference reference="http://h/x/db.tar"/><t:ArtifactReference reference="http://h/web.zip"/></t:ArtifactReferences>`,
			`<install url="http://h/web.zip" s:artifact="a">` + contextOf(`<b:ContentDeploymentLocation path="/elsewhere"/>`) + `</install>`,
			step.Step{Kind: step.Install, URL: "http://h/web.zip", InstallPath: "/web", Archive: &step.Archive{}}, ""},
		{"a base", ` xml:base="http://h/csar/"><t:ArtifactReferences><t:ArtifactReference reference="../x/db.tar"/></t:ArtifactReferences>`, of + `install_path="/x"/>`,
			step.Step{Kind: step.Install, URL: "http://h/x/db.tar", InstallPath: "/x", Archive: &step.Archive{}}, ""},
		{"inline archive", ">", `<install url="data:,x" install_path="/x"><b:ArchiveArtifactProperties><b:ArchiveInformation archiveType=".TAR.GZ"/></b:ArchiveArtifactProperties></install>`,
			step.Step{Kind: step.Install, URL: "data:,x", InstallPath: "/x", FileType: "tar.gz", Archive: &step.Archive{}}, ""},
		{"other namespaces inside", ">", `<install url="http://h/x/db.tar" install_path="/x"><t:ArchiveArtifactProperties><ArchiveInformation archiveReference="db.tar"><UserMap xmlns=""><User name="u" id="7"/></UserMap><x xmlns="urn:x"/></ArchiveInformation></t:ArchiveArtifactProperties></install>`,
			step.Step{Kind: step.Install, URL: "http://h/x/db.tar", InstallPath: "/x", Archive: &step.Archive{Users: []step.Account{{Name: "u", ID: 7}}}}, ""},
		{"identity", ">", `<install url="http://h/x/db.tar" install_path="/x"><b:ArchiveArtifactProperties><b:IdentityProperties><b:Property name="product" value="x"/><b:Property name="product" value="y"/></b:IdentityProperties></b:ArchiveArtifactProperties></install>`,
			step.Step{Kind: step.Install, URL: "http://h/x/db.tar", InstallPath: "/x", Archive: &step.Archive{}}, `the IdentityProperties have the name "product" twice`},
		{"unknown element", ">", `<install url="http://h/x/db.tar" install_path="/x"><b:ArchiveArtifactProperties><b:ArchiveInformation archiveReference="db.tar"><b:Users/></b:ArchiveInformation></b:ArchiveArtifactProperties></install>`,
			step.Step{Kind: step.Install, URL: "http://h/x/db.tar", InstallPath: "/x", Archive: &step.Archive{}}, `<ArchiveInformation> has an unknown element <Users>; use UserMap, GroupMap or ContentSourceLocation`},
		{"a script", ">", `<install url="http://h/x/db.tar" install_path="/x"><b:ScriptArtifactProperties><b:ScriptLanguage>sh</b:ScriptLanguage><b:PrimaryScript>a</b:PrimaryScript></b:ScriptArtifactProperties></install>`,
			install("http://h/x/db.tar", "/x"), `an install with ScriptArtifactProperties; move them into an execute`},
	} {
		tt.check(t)
	}
}

func TestScriptArtifactsAreRead(t *testing.T) {
	const script = `<b:ScriptArtifactProperties><b:ScriptLanguage>sh</b:ScriptLanguage><b:PrimaryScript>scripts/MySQL/configure.sh</b:PrimaryScript></b:ScriptArtifactProperties>`
	const files = `<t:ArtifactReferences><t:ArtifactReference reference="scripts/MySQL/configure.sh"/><t:ArtifactReference reference="scripts/lib.sh"/></t:ArtifactReferences>`
	both := []step.File{{URL: "http://h/csar/scripts/MySQL/configure.sh", Path: "scripts/MySQL/configure.sh"}, {URL: "http://h/csar/scripts/lib.sh", Path: "scripts/lib.sh"}}
	want := func(shell, script string, files ...step.File) step.Step {
		return step.Step{Kind: step.Execute, Shell: shell, Script: script, Files: files}
	}
	for _, tt := range []readArtifact{
		{"T11 template", `xml:base="http://h/csar/"><t:Properties>` + script + `</t:Properties>` + files, `<execute shell="bash" command="sh /local/scripts/MySQL/configure.sh" s:artifact="a"/>`, want("sh", both[0].Path, both...), ""},
		{"T11 properties at the use", `xml:base="http://h/csar/">` + files, `<execute shell="sh" command="./scripts/MySQL/configure.sh" s:artifact="a">` + script + `</execute>`, want("sh", both[0].Path, both...), ""},
		{"T11 inline", `>`, `<execute shell="sh" command="scripts/MySQL/configure.sh" xml:base="http://h/csar/">` + script + files + `</execute>`, want("sh", both[0].Path, both...), ""},
		{"another command", `xml:base="http://h/csar/"><t:Properties>` + script + `</t:Properties>` + files, `<execute shell="sh" command="sh /local/scripts/MySQL/configure.sh --now" s:artifact="a"/>`,
			want("sh", both[0].Path, both...), `an execute with a PrimaryScript, so "scripts/MySQL/configure.sh" runs here in place of its command; other aggregates run the command`},
		{"without a command", `xml:base="http://h/csar/"><t:Properties>` + script + `</t:Properties>` + files, `<execute s:artifact="a"/>`, want("sh", both[0].Path, both...), ""},
		{"absolute URL", `><t:Properties>` + script + `</t:Properties><t:ArtifactReferences><t:ArtifactReference reference="http://h/csar/scripts/MySQL/configure.sh?v=1"/></t:ArtifactReferences>`, `<execute s:artifact="a"><b:ScriptArtifactProperties><b:ScriptLanguage>http://example.org/lang/Bash</b:ScriptLanguage><b:PrimaryScript>./configure.sh</b:PrimaryScript></b:ScriptArtifactProperties></execute>`,
			want("bash", "configure.sh", step.File{URL: "http://h/csar/scripts/MySQL/configure.sh?v=1", Path: "configure.sh"}), ""},
		{"absolute URL, by its end", `><t:Properties>` + script + `</t:Properties><t:ArtifactReferences><t:ArtifactReference reference="http://h/csar/scripts/MySQL/configure.sh"/></t:ArtifactReferences>`, `<execute s:artifact="a"/>`,
			want("sh", "configure.sh", step.File{URL: both[0].URL, Path: "configure.sh"}), ""},
		{"data", `>`, `<execute>` + script + `<t:ArtifactReferences><t:ArtifactReference reference="data:,true"/></t:ArtifactReferences></execute>`, want("sh", both[0].Path, step.File{URL: "data:,true", Path: both[0].Path}), ""},
		{"properties of archives", `xml:base="http://h/csar/">` + files, `<execute s:artifact="a">` + script + `<b:ArchiveArtifactProperties/></execute>`, want("sh", both[0].Path, both...), `an execute with properties of archives; move them into an install`},
		{"unknown element", ">", `<execute shell="sh" command="x"><t:Documents/></execute>`, execute("sh", "x"), `<execute> has an unknown element <Documents>; use ArchiveArtifactProperties`},
	} {
		tt.check(t)
	}
}

func TestArtifactsAreRefused(t *testing.T) {
	inline := func(info string) string {
		return `<install url="http://h/x/db.tar">` + `<b:ArchiveArtifactProperties>` + info + `</b:ArchiveArtifactProperties></install>`
	}
	segment := func(attrs string) string {
		return inline(`<b:ArchiveInformation><b:ContentSourceLocation path="/a/b">` + attrs + `</b:ContentSourceLocation></b:ArchiveInformation>`)
	}
	users := func(list string) string {
		return inline(`<b:ArchiveInformation><b:UserMap>` + list + `</b:UserMap><b:ContentSourceLocation path="/a"/></b:ArchiveInformation>`)
	}
	script := func(properties, files string) string {
		return `<execute xml:base="http://h/"><b:ScriptArtifactProperties>` + properties + `</b:ScriptArtifactProperties><t:ArtifactReferences>` + files + `</t:ArtifactReferences></execute>`
	}
	const sh, main = `<b:ScriptLanguage>sh</b:ScriptLanguage>`, `<b:PrimaryScript>a.sh</b:PrimaryScript>`
	for _, tt := range []struct {
		rule, template, in string
		kind               Kind
		want               string
	}{
		{"T6 no location", template, `§<install url="http://h/x/db.tar"><b:ArchiveArtifactProperties/></install>`, BadArgs, `there is neither an install_path nor the path of a location; write the path once`},
		{"T7 two locations", template, `<install url="http://h/x/db.tar" s:artifact="a" §install_path="/x">` + contextOf(`<b:ContentDeploymentLocation path="/y"/>`) + `</install>`, BadArgs, `the install_path "/x" differs from the path "/y" of the ContentDeploymentLocation`},
		{"T8 segment of another path", ">", segment(`<b:Segment §name="/other"/>`), BadArgs, `the segment "/other" is not part of the path "/a/b"; write the path itself, or a folder above it from the root, such as /a`},
		{"T8 relative segment", ">", segment(`<b:Segment §name="a"/>`), BadArgs, `the segment "a" is not part`},
		{"T8 relative path", ">", inline(`<b:ArchiveInformation><b:ContentSourceLocation §path="a/b"/></b:ArchiveInformation>`), BadArgs, `a ContentSourceLocation has the path "a/b"; write an absolute path`},
		{"T8 path with ..", ">", inline(`<b:ArchiveInformation><b:ContentSourceLocation §path="/a/../b"/></b:ArchiveInformation>`), BadArgs, `the path "/a/../b"`},
		{"T8 the root as a segment", ">", segment(`<b:Segment §name="/"/>`), BadArgs, `the segment / is not possible`},
		{"T8 segment twice", ">", segment(`<b:Segment name="/a"/><b:Segment §name="/a/"/>`), BadArgs, `the segment "/a" twice`},
		{"T8 permissions", ">", segment(`<b:Segment name="/a" §permissions="9z5"/>`), BadArgs, `permissions="9z5"; write three octal digits`},
		{"T8 set-id", ">", segment(`<b:Segment name="/a" §permissions="4755"/>`), BadArgs, `permissions="4755"; write three octal digits, such as 755; other bits are not possible`},
		{"T8 sticky", ">", segment(`<b:Segment name="/a" §permissions="1777"/>`), BadArgs, `permissions="1777"`},
		{"T8 userID", ">", segment(`<b:Segment name="/a" §userID="root"/>`), BadArgs, `userID="root"; write a whole number`},
		{"T8 groupID", ">", segment(`<b:Segment name="/a" §groupID="4294967295"/>`), BadArgs, `groupID="4294967295"`},
		{"T8 id of a user", ">", users(`<b:User name="a" §id="x"/>`), BadArgs, `a <User> has id="x"`},
		{"T8 id twice", ">", users(`<b:User name="a" id="1"/><b:User name="b" §id="01"/>`), BadArgs, `a UserMap has the id 1 twice`},
		{"T8 name of a user", ">", users(`<b:User §name="a:b" id="1"/>`), BadArgs, `a User has the name "a:b"`},
		{"T8 archiveReference", ">", inline(`<b:ArchiveInformation §archiveReference="other.tar"/>`), BadArgs, `the archiveReference "other.tar" is no archive of the artifact; copy`},
		{"T8 archiveReference that is not a whole part", ">", inline(`<b:ArchiveInformation §archiveReference="b.tar"/>`), BadArgs, `the archiveReference "b.tar"`},
		{"T8 archiveReference of the context", template, `<install url="http://h/x/db.tar" s:artifact="a"><b:ArchiveArtifactContextProperties><b:ArchiveDeploymentInformation §archiveReference="web.tar"/></b:ArchiveArtifactContextProperties></install>`, BadArgs, `"web.tar" is no archive`},
		{"T8 archive twice", ">", inline(`<b:ArchiveInformation/>§<b:ArchiveInformation archiveReference="db.tar"/>`), BadArgs, `two <ArchiveInformation> for one archive`},
		{"T8 in a template", strings.Replace(template, `archiveReference="`, `§archiveReference="y/`, 1), of + `/>` + of + `/>`, BadArgs, `the archiveReference "y/db.tar"`},
		{"T9 no archive of the template", template, `<install §url="http://h/x/web.tar" s:artifact="a"/>`, BadArgs, `whose url "http://h/x/web.tar" is no archive of its artifact; use one of the references`},
		{"T10 rar", ">", inline(`<b:ArchiveInformation §archiveType="rar"><b:ContentSourceLocation path="/a"/></b:ArchiveInformation>`), Unsupported, `archives of the type "rar" are not possible here; use tar, tgz`},
		{"unknown artifact", ">", `<install url="http://h/x/db.tar" install_path="/x" §s:artifact="b"/>`, BadArgs, `the artifact "b", but there is no such ArtifactTemplate; use the id`},
		{"two templates of one id", `></t:ArtifactTemplate><t:ArtifactTemplate §id="a">`, "", BadArgs, `two ArtifactTemplates have the id "a", this one and the one in line 2; rename`},
		{"T15 no PrimaryScript", ">", `<execute>§<b:ScriptArtifactProperties>` + sh + `</b:ScriptArtifactProperties></execute>`, BadArgs, `have no PrimaryScript; name the file`},
		{"T15 no ScriptLanguage", ">", `<execute>§<b:ScriptArtifactProperties>` + main + `</b:ScriptArtifactProperties></execute>`, BadArgs, `have no ScriptLanguage; add`},
		{"T15 perl", ">", `<execute>§<b:ScriptArtifactProperties><b:ScriptLanguage>perl</b:ScriptLanguage>` + main + `</b:ScriptArtifactProperties></execute>`, Unsupported, `scripts in the language "perl" are not possible here; use sh or bash`},
		{"T15 no files", ">", `<execute>§<b:ScriptArtifactProperties>` + sh + main + `</b:ScriptArtifactProperties></execute>`, BadArgs, `a PrimaryScript, but without files; add ArtifactReferences`},
		{"T15 no properties", template, `§<execute s:artifact="a"/>`, BadArgs, `with files, but without ScriptArtifactProperties`},
		{"T15 PrimaryScript of no file", ">", strings.Replace(script(sh+main, `<t:ArtifactReference reference="b.sh"/>`), "<b:Script", "§<b:Script", 1), BadArgs, `the PrimaryScript "a.sh" is no file of the artifact`},
		{"Include", ">", script(sh+main, `<t:ArtifactReference reference="a.sh">§<t:Include pattern="*"/></t:ArtifactReference>`), Unsupported, `<Include> is not possible here; write an ArtifactReference for each file`},
		{"Exclude", ">", script(sh+main, `<t:ArtifactReference reference="a.sh">§<t:Exclude pattern="*"/></t:ArtifactReference>`), Unsupported, `<Exclude> is not possible`},
		{"no reference", ">", script(sh+main, `§<t:ArtifactReference/>`), BadArgs, `an ArtifactReference has no reference`},
		{"reference with ..", ">", script(sh+main, `<t:ArtifactReference reference="a.sh"/><t:ArtifactReference §reference="../b.sh"/>`), BadArgs, `the reference "../b.sh" is no path of a file`},
		{"reference with an escaped ..", ">", script(sh+main, `<t:ArtifactReference §reference="x/%2e%2e/../b.sh"/>`), BadArgs, `is no path of a file`},
		{"reference to a folder", ">", script(sh+main, `<t:ArtifactReference §reference="http://h/"/>`), BadArgs, `is no path of a file`},
		{"reference over ftp", ">", script(sh+main, `<t:ArtifactReference §reference="ftp://h/a.sh"/>`), BadArgs, `the reference "ftp://h/a.sh" cannot be fetched; write an http or https URL, or add xml:base`},
		{"relative reference without a base", ">", strings.Replace(script(sh+main, `<t:ArtifactReference §reference="a.sh"/>`), ` xml:base="http://h/"`, "", 1), BadArgs, `the reference "a.sh" cannot be fetched`},
		{"two files of one path", ">", script(sh+main, `<t:ArtifactReference reference="a.sh"/><t:ArtifactReference §reference="http://x/a.sh"/>`), BadArgs, `two files of a script have the path "a.sh"`},
		{"a file as a folder", ">", script(sh+main, `<t:ArtifactReference §reference="a.sh/b"/><t:ArtifactReference reference="a.sh"/>`), BadArgs, `the file "a.sh" of a script is also the folder of another file, "a.sh/b"`},
		{"many files", ">", strings.Replace(script(sh+main, strings.Repeat(`<t:ArtifactReference reference="a.sh"/>`, 201)), "<exec", "§<exec", 1), TooBig, `<execute> has more than 200 files`},
	} {
		in, places := marked(string(withArtifact(tt.template, tt.in)))
		e := refusalOf(t, []byte(in), ours())
		if len(e.Problems) != 1 || e.Kind != tt.kind || !strings.Contains(e.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.rule, e, tt.want)
		}
		if got := [2]int{e.Line, e.Column}; got != places[0] {
			t.Errorf("%s: at %v, want %v (%v)", tt.rule, got, places[0], e)
		}
		stored := ours()
		stored.Stored = true
		mustParse(t, []byte(in), stored)
	}
}

// TestT16ArtifactsAreCopied requires that a manifest has all of the extensions as written.
func TestT16ArtifactsAreCopied(t *testing.T) {
	services := `<install url="http://h/x/db.tar" install_path="" s:artifact="a" s:order="0">` + contextOf(`<b:ContentDeploymentLocation path="/myapp"/>`) + `</install>` +
		`<s:parameter name="port" value="80"/><s:step order="1">` + base("true") + `</s:step><execute shell="sh" command="a" s:operation="stop"><s:parameter name="x" value="y"/></execute>`
	in := withArtifact(template, services)
	got := mustWrite(t, options(), Part{Request: mustParse(t, in, ours()), Nodes: map[string]NodeFacts{"n": facts(0)}})
	for _, part := range []string{template + `</t:ArtifactTemplate>`, services} {
		if !strings.Contains(got, part) {
			t.Errorf("%s is missing in %s", part, got)
		}
	}
}
