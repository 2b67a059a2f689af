package api

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/service"
	"patchbay/am/service/lease"
	"patchbay/am/store"
	"patchbay/inventory"
	"patchbay/rspec"
	"patchbay/rspec/compile"
	"patchbay/schemas"
)

// compiling is the setting of sites that compile templates.
var compiling = setting{compile: func(t rspec.Template, known service.Known) (rspec.Expansion, error) {
	return compile.Expand(t, known.Earlier, compile.Options{Site: known.Inventory, Nodes: known.Nodes, Links: known.Links, Work: known.Work})
}}

const thisManager = "urn:publicid:IDN+" + authority + "+authority+cm"

// source is a template in RADL, with its parameters as pairs.
func source(manager, text string, parameters ...string) string {
	s := `<t:source xmlns:t="` + schemas.Template + `" language="radl" component_manager_id="` + manager + `">` + base64.StdEncoding.EncodeToString([]byte(text))
	for i := 0; i < len(parameters); i += 2 {
		s += `<t:parameter name="` + parameters[i] + `" value="` + parameters[i+1] + `"/>`
	}
	return s + `</t:source>`
}

func radlRequest(text string, parameters ...string) string {
	return request(source(thisManager, text, parameters...))
}

func blueprintRequest(text string) string {
	return strings.Replace(radlRequest(text), `language="radl"`, `language="blueprint"`, 1)
}

const (
	cloudInit = "configure r (\n@begin\n#cloud-config\nruncmd: [ls]\n@end\n)\nsystem s ()\ncontextualize (system s configure r with cloud_init)\ndeploy s 1\n"
	smallNode = "network net ()\nsystem small_node (net_interface.0.connection = 'net')\n"
	bigNode   = "network net\nsystem small_node\nsystem big_node (net_interface.0.connection = 'net')\ndeploy small_node 1\ndeploy big_node 1\n"
)

func TestTemplates(t *testing.T) {
	other := source("urn:publicid:IDN+bob.example.org+authority+cm", "deploy x 1")
	for _, tt := range []struct {
		rule, story string
		texts       []string
	}{
		{"R3 what deploys nothing is accepted", `
			alice owns s1 48h
			alice Allocate s1 $empty -> #0 'nothing is reserved, because the templates deploy nothing'
			alice Allocate s1 $comment -> #0 'nothing is reserved'
			alice Allocate s1 $zero -> #0 'later requests of the slice may refer to what they define, until'
			alice Describe s1 -> #0
			alice CreateSliver s1 $empty -> 'nothing is reserved'
		`, []string{"empty", radlRequest(""), "comment", radlRequest("# nothing\n"), "zero", radlRequest("system x ()\ndeploy x 0\n")}},
		{"R9 parameters", `
			alice owns s1 48h
			alice Allocate s1 $with -> n-0:allocated n-1:allocated
			alice Allocate s1 $without -> BADARGS 'template line 2:10'
		`, []string{"with", radlRequest("system n ()\ndeploy n @input.N@", "N", "2"), "without", radlRequest("system n ()\ndeploy n @input.N@")}},
		{"R12 a cloud that is another aggregate's", `
			alice owns s1 48h
			alice Allocate s1 $json -> SEARCHFAILED 'no node for this aggregate'
			alice Describe s1 -> #0
			alice Delete s1 -> SEARCHFAILED
		`, []string{"json", radlRequest(`[{"class":"system","id":"front"},{"class":"deploy","system":"front","vm_number":1,"cloud":"cloud_id"}]`)}},
		{"R13a definitions are remembered, and names are numbered on", `
			alice owns s1 48h
			alice Allocate s1 $define -> #0 'nothing is reserved'
			alice Allocate s1 $deploy -> small_node-0:allocated
			alice Provision s1
			settle
			alice Allocate s1 $deploy -> small_node-1:allocated
			alice Describe s1 -> 'client_id="small_node-0"' 'client_id="small_node-1"' 1*'expanded="true"'
		`, []string{"define", radlRequest(smallNode), "deploy", radlRequest("deploy small_node 1\n")}},
		{"R13b the second document joins the LAN of the first", `
			alice owns s1 48h
			alice Allocate s1 $first -> small_node-0:allocated small_node-1:allocated
			alice Allocate s1 $second -> small_node-2:allocated big_node-0:allocated '<link client_id="net"' !'client_id="small_node-1"'
			alice Describe s1 -> 'client_id="big_node-0:0"' 1*'<link client_id="net"'
		`, []string{"first", radlRequest(smallNode + "deploy small_node 2\n"), "second", radlRequest(bigNode)}},
		{"R13c without the first document", `
			alice owns s1 48h
			alice Allocate s1 $second -> BADARGS 'net' 'small_node'
			alice Describe s1 -> #0
		`, []string{"second", radlRequest(bigNode)}},
		{"parameters of an earlier template keep their values", `
			alice owns s1 48h
			alice Allocate s1 $define
			alice Allocate s1 $deploy -> a-0:allocated 'name="front.example.org"'
		`, []string{"define", radlRequest("network net ()\nsystem a (net_interface.0.connection = 'net' and net_interface.0.dns_name = '@input.N@')\n", "N", "front.example.org"), "deploy", radlRequest("deploy a @input.N@\n", "N", "1")}},
		{"R13 two templates of one request", `
			alice owns s1 48h
			alice Allocate s1 $both -> small_node-0:allocated small_node-1:allocated x:allocated
			alice Allocate s1 $wrong -> BADARGS 'template 2 line 1:'
		`, []string{"both", request(source(thisManager, "system small_node ()\ndeploy small_node 1\n"), source(thisManager, "deploy small_node 1\n"), node("x")),
			"wrong", request(source(thisManager, ""), source(thisManager, "deploy unknown 1\n"))}},
		{"R13 two templates of one request on one network", `
			alice owns s1 48h
			alice Allocate s1 $both -> BADARGS 'template 2: its link "net" is also one of template 1'
		`, []string{"both", request(source(thisManager, "network net ()\nsystem a (net_interface.0.connection = 'net')\ndeploy a 1\n"), source(thisManager, "network net\nsystem b (net_interface.0.connection = 'net')\ndeploy b 1\n"))}},
		{"client_ids of the slice", `
			alice owns s1 48h
			alice Allocate s1 $x
			alice Allocate s1 $again -> a-1:allocated
			alice Allocate s1 $twice -> BADARGS|ALREADYEXISTS
		`, []string{"x", request(node("a-0")), "again", radlRequest("system a ()\ndeploy a 1"), "twice", request(node("b-0"), node("b-0"), source(thisManager, "system b ()\ndeploy b 1"))}},
		{"a template of another aggregate is copied", `
			alice owns s1 48h
			alice Allocate s1 $both -> a-0:allocated 'bob.example.org+authority+cm">' 'template for another aggregate, which is copied as it is' 1*'expanded='
			alice Delete s1
			alice Allocate s1 $other -> 'nothing is reserved: the request has no nodes'
			alice Delete s1 -> SEARCHFAILED
		`, []string{"both", request(other, source(thisManager, "system a ()\ndeploy a 1\n")), "other", request(other)}},
		{"H5 no component in the country", `
			alice owns s1 48h
			alice Allocate s1 $norway -> TOOBIG 'location.country = NO'
			alice Allocate s1 $anywhere -> a:allocated
		`, []string{"norway", blueprintRequest("components: {a: {type: server}}\nrequires: {jurisdiction: no}"), "anywhere", blueprintRequest("components: {a: {type: server}}")}},
		{"R21 cloud-init", `
			alice owns s1 48h
			alice Allocate s1 $x -> s-0:allocated '<setup:userdata name="cloud-init"'
		`, []string{"x", radlRequest(cloudInit)}},
		{"a node that does not fit has a name, and no line of the compiled request", `
			alice owns s1 48h
			alice Allocate s1 $large -> TOOBIG 'node "big-0": no' 0*'line '
		`, []string{"large", radlRequest("system big (cpu.count >= 4000)\ndeploy big 1\n")}},
		{"definitions go with the slice", `
			alice owns s1 48h
			alice Allocate s1 $define
			alice Delete s1 -> #0 'is forgotten'
			alice Delete s1 -> SEARCHFAILED
			alice Allocate s1 $deploy -> BADARGS 'small_node'
			alice Allocate s1 $define
			alice Allocate s1 $deploy -> small_node-0:allocated
			alice Delete s1.small_node-0
			alice Allocate s1 $deploy -> small_node-0:allocated
			alice Delete s1
			alice Allocate s1 $deploy -> BADARGS
		`, []string{"define", radlRequest(smallNode), "deploy", radlRequest("deploy small_node 1\n")}},
		{"a mistake of the template has a place", `
			alice owns s1 48h
			alice Allocate s1 $syntax -> BADARGS 'template line 2:1'
			alice Allocate s1 $software -> UNSUPPORTED 'toncat'
			alice Allocate s1 $language -> UNSUPPORTED 'cobol'
			alice CreateSliver s1 $syntax -> BADARGS 'template line 2:1'
		`, []string{"syntax", radlRequest("system a ()\ndeplyo a 1\n"), "language", strings.Replace(radlRequest(""), `"radl"`, `"cobol"`, 1),
			"software", radlRequest("system a (disk.0.applications contains (name = 'toncat'))\ndeploy a 1\n")}},
		{"a shutdown keeps the definitions", `
			alice owns s1 48h
			alice Allocate s1 $define
			alice Allocate s1 $deploy
			alice Shutdown s1
			thaw s1
			alice Delete s1.small_node-0
			alice Allocate s1 $deploy
		`, []string{"define", radlRequest(smallNode), "deploy", radlRequest("deploy small_node 1\n")}},
	} {
		t.Run(tt.rule, func(t *testing.T) { compiling.world(t, tt.texts...).play(tt.story) })
	}
	here := compiling
	here.inventory = string(inventory.SimulatedText(authority)) + "\nclouds: [{name: cloud_id, manager: " + thisManager + "}]\n"
	here.world(t, "x", radlRequest("system a ()\ndeploy a 1 cloud_id\n")).play("alice owns s1 1h\nalice Allocate s1 $x -> a-0:allocated")
	plain := compiling
	plain.stages = func(string) bool { return false }
	plain.world(t, "x", radlRequest(cloudInit)).play("alice owns s1 1h\nalice Allocate s1 $x -> UNSUPPORTED 's-0'")
	newWorld(t, "x", radlRequest("")).play("alice owns s1 1h\nalice Allocate s1 $x -> UNSUPPORTED 'this aggregate compiles no templates'")
}

// A manifest has the compiled template, so that it can be requested again.
func TestManifestWithATemplateIsARequest(t *testing.T) {
	alice := compiling.site(t).user("alice")
	owned := alice.own("s1", time.Hour)
	first := owned.allocate(radlRequest("system a ()\ndeploy a 2\n")).want(t, "the template", am.Success)
	text := strings.Replace(get(first.value, "geni_rspec").(string), `type="manifest"`, `type="request"`, 1)
	alice.call("Delete", strs(owned.slice), creds(owned.cred), opts()).want(t, "Delete", am.Success)
	second := alice.own("s2", time.Hour)
	if n := len(second.allocate(text).want(t, "its manifest", am.Success).slivers(t)); n != 2 {
		t.Errorf("%d slivers", n)
	}
	if n := len(second.allocate(radlRequest("deploy a 1\n")).want(t, "what it defines", am.Success).slivers(t)); n != 1 {
		t.Errorf("%d slivers", n)
	}
}

// TestR14 searches for secrets of a template in everything that the site keeps and answers.
func TestR14SecretsOfTemplates(t *testing.T) {
	s := compiling.site(t)
	alice := s.user("alice").own("s1", time.Hour)
	const secret, parameter = "correct-horse-battery", "Staple-of-the-parameter-1"
	text := "# " + strings.Repeat("x", 7) + "\nsystem a (disk.0.os.credentials.username = 'bob' and disk.0.os.credentials.password = '" + secret + "' and disk.0.os.credentials.new.password = '@input.P@')\ndeploy a 1\n"
	var kept bytes.Buffer
	hear := func(a answer) answer {
		fmt.Fprintf(&kept, "%s\n%+v\n", a.resp.Body, a.resp.Event)
		return a
	}
	allocated := hear(alice.allocate(radlRequest(text, "P", parameter)).want(t, "Allocate", am.Success))
	if !strings.Contains(allocated.output, "password") {
		t.Errorf("no warning: %s", allocated.output)
	}
	hear(alice.call("Provision", strs(alice.slice), creds(alice.cred), opts()).want(t, "Provision", am.Success))
	s.settle()
	hear(alice.call("Describe", strs(alice.slice), creds(alice.cred), opts()).want(t, "Describe", am.Success))
	hear(alice.call("Status", strs(alice.slice), creds(alice.cred), opts()).want(t, "Status", am.Success))
	hear(alice.allocate(radlRequest("system b (disk.0.os.credentials.password = '"+secret+"' and)\n")).want(t, "with a mistake", am.BadArgs))
	hear(alice.allocate(radlRequest("system b (disk.0.os.credentials.password = '"+secret+"')\n")).want(t, "a definition", am.Success))
	hear(alice.call("Status", strs(alice.slice), creds(alice.cred), opts()))
	err := s.store.Read(func(v *store.View) error {
		return v.Journal(func(e am.JournalEntry) bool { fmt.Fprintf(&kept, "%+v\n", e); return true })
	})
	file, err2 := os.ReadFile(s.file)
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	kept.Write(file)
	for _, word := range []string{secret, parameter} {
		for skip := range 3 { // base64 of the word, wherever it begins
			inner := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("x", skip) + word))
			for _, form := range []string{word, inner[4 : len(inner)/4*4]} {
				if at := bytes.Index(kept.Bytes(), []byte(form)); at >= 0 {
					t.Fatalf("%s is kept as %q in %.300q", word, form, kept.Bytes()[max(0, at-200):])
				}
			}
		}
	}
	if want := base64.StdEncoding.EncodeToString([]byte("system a"))[:8]; !bytes.Contains(kept.Bytes(), []byte(want)) {
		t.Error("the source without secrets is not kept, so this test finds nothing")
	}
}

func TestR19SourcesAsRequests(t *testing.T) {
	alice := compiling.site(t).user("alice").own("s1", time.Hour)
	for _, tt := range []struct {
		rule, text string
		want       am.Code
		output     string
	}{
		{"RADL", "system a ()\ndeploy a 1\n", am.BadVersion, "in the language radl; compile it first, such as by: patchbay compile FILE, or send it as a template"},
		{"RADL as JSON", `[{"class": "system", "id": "a"}]`, am.BadVersion, "patchbay compile"},
		{"nothing", "", am.BadArgs, ""},
		{"another text", "Dear alice,", am.BadArgs, "cannot read the request"},
		{"broken XML", "<rspec", am.BadArgs, "cannot read the request"},
	} {
		for _, a := range []answer{alice.allocate(tt.text), alice.create(tt.text)} {
			if a.code != tt.want || !strings.Contains(a.output, tt.output) {
				t.Errorf("%s: %v %q", tt.rule, a.code, a.output)
			}
		}
	}
}

// Omni writes a blank for each backslash and n in a request. Templates and steps are in base64.
func TestR20OmniKeepsRecipes(t *testing.T) {
	const line = `printf "a\n"`
	const text = "system a (disk.0.os.name = 'linux')\nconfigure a (\n@begin\n---\n- tasks:\n    - shell: " + line + "\n@end\n)\ncontextualize (\nsystem a configure a\n)\n"
	sent := strings.ReplaceAll(radlRequest(text), `\n`, " ")
	s := compiling.site(t)
	alice := s.user("alice").own("s1", time.Hour)
	alice.allocate(sent).want(t, "the definition", am.Success)
	err := s.store.Read(func(v *store.View) error {
		return v.Slices(func(x am.Slice) bool {
			d, _, err := v.Document(x.Definitions[0])
			r, err2 := rspec.ParseRequest(d.Text, rspec.ReadOptions{Managers: d.Managers})
			if err != nil || err2 != nil || string(r.Expanded[0].Text) != text {
				t.Errorf("%v, %v: %s", err, err2, d.Text)
			}
			return true
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Two Allocates at once number their nodes one after the other.
func TestTemplatesAtOnce(t *testing.T) {
	alice := compiling.site(t).user("alice").own("s1", time.Hour)
	alice.allocate(radlRequest("system a ()\n")).want(t, "the definition", am.Success)
	var wg sync.WaitGroup
	var mu sync.Mutex
	names := map[string]bool{}
	for range 3 {
		wg.Go(func() {
			a := alice.allocate(radlRequest("deploy a 1\n"))
			mu.Lock()
			defer mu.Unlock()
			if a.code != am.Success {
				t.Errorf("%v %s", a.code, a.output)
				return
			}
			names[get(a.slivers(t)[0], "geni_client_id").(string)] = true
		})
	}
	if wg.Wait(); len(names) != 3 {
		t.Errorf("nodes %v", names)
	}
}

// Definitions without slivers end with the credential; the sweep of the runner then deletes them.
func TestDefinitionsEnd(t *testing.T) {
	s := compiling.site(t)
	alice := s.user("alice").own("s1", time.Hour)
	alice.allocate(radlRequest("system a ()\n")).want(t, "a definition", am.Success)
	alice.allocate(radlRequest("system a ()\n")).want(t, "the same again", am.Success)
	due := func() (n, documents int) {
		err := s.store.Read(func(v *store.View) error {
			list, err := lease.EndedDefinitions(v, 10)
			n = len(list)
			v.Slices(func(x am.Slice) bool { documents += len(x.Definitions); return true })
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return n, documents
	}
	if n, documents := due(); n != 0 || documents != 1 {
		t.Errorf("%d due, %d documents", n, documents)
	}
	s.pass(time.Hour + time.Minute)
	if n, _ := due(); n != 1 {
		t.Errorf("%d due after the end", n)
	}
	err := s.store.Commit(context.Background(), func(v *store.View) (cs store.ChangeSet, err error) {
		list, err := lease.EndedDefinitions(v, 10)
		for _, u := range list {
			err = lease.DropDefinitions(v, &cs, u)
		}
		return cs, err
	})
	if err != nil {
		t.Fatal(err)
	}
	s.wantNothing(t, "after the end")
	if report, err := s.store.Check(); err != nil || report.Err() != nil || report.Records[store.Documents] != 0 {
		t.Errorf("%v, %v: %v", err, report.Err(), report.Records)
	}
}

func TestLimitsOfTemplates(t *testing.T) {
	s := compiling.site(t)
	alice := s.user("alice").own("s1", time.Hour)
	for i := range 32 {
		alice.allocate(radlRequest(fmt.Sprintf("system a%d ()\n", i))).want(t, "a definition", am.Success)
	}
	if a := alice.allocate(radlRequest("system z ()\n")).want(t, "the 33rd", am.TooBig); !strings.Contains(a.output, "may be 32") {
		t.Error(a.output)
	}
	bob := s.user("bob").own("s2", time.Hour)
	big := "system a ()\n#" + strings.Repeat("x", 200<<10) + "\n"
	bob.allocate(radlRequest(big)).want(t, "a large definition", am.Success)
	bob.allocate(radlRequest(big+"#")).want(t, "another", am.TooBig)
	bob.allocate(request(source(thisManager, big), source(thisManager, big), source(thisManager, big), source(thisManager, big), source(thisManager, big))).want(t, "sources above 1 MiB", am.TooBig)
	many := func(name string) string {
		return source(thisManager, "system "+name+" (instance_name = '"+strings.Repeat("x", 1500)+"')\ndeploy "+name+" 2000\n")
	}
	a := bob.allocate(request(many("a"), many("b"), many("c"), many("d"))).want(t, "results above 8 MiB", am.TooBig)
	if !strings.Contains(a.output, "template 3: its nodes take more than the 8388608 bytes of a request") {
		t.Error(a.output)
	}
}
