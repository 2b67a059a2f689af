package rspec

import (
	"strings"
	"testing"
)

// hostile are requests of about n elements that cost as much as they can.
func hostile(n int) map[string][]byte {
	many := func(n int, s string) string { return strings.Repeat(s, n) }
	node := `<node client_id="a"><interface client_id="x"/></node>`
	spaces := numbered(98, ` xmlns:p#="urn:p#"`)
	return map[string][]byte{
		"many problems on one line":             request(many(n, `<link/>`) + `<node/>` + many(n/20, `<node exclusive="?"/>`)),
		"many problems of one element":          request(`<node client_id="a">` + many(n, `<interface/>`) + `</node>`),
		"many remarks":                          request(many(n/20, `<node component_manager_id="?"/>`)),
		"one name for all":                      request(many(n/20, `<node client_id="a"/>`)),
		"foreign nodes of one name":             request(many(n/20, `<node client_id="a" component_manager_id="`+them+`"/>`)),
		"dangling references":                   request(node + `<link client_id="l"><interface_ref client_id="x"/>` + many(n, `<interface_ref client_id="y"/>`) + `</link>`),
		"one end again and again":               request(node + `<link client_id="l">` + many(n, `<interface_ref client_id="x"/>`) + `</link>`),
		"one end with all its addresses":        request(`<node client_id="a"><interface client_id="x">` + numbered(64, `<ip address="fd00::#"/>`) + `</interface></node><link client_id="l">` + many(n, `<interface_ref client_id="x"/>`) + `</link>`),
		"one interface on all links":            request(node + numbered(n/20, `<link client_id="l#"><interface_ref client_id="x"/></link>`)),
		"one set of addresses on all links":     request(`<node client_id="a">` + numbered(n/200, `<interface client_id="x#">`+many(64, `<ip address="10.0.0.1"/>`)+`</interface>`) + `</node>` + numbered(100, `<link client_id="l#">`+numbered(n/200, `<interface_ref client_id="x#"/>`)+`</link>`)),
		"properties of one direction":           request(node + `<link client_id="l"><interface_ref client_id="x"/>` + numbered(n, `<property source_id="x" dest_id="l" capacity="#"/>`) + `</link>`),
		"properties of nothing":                 request(node + `<link client_id="l"><interface_ref client_id="x"/>` + many(n, `<property capacity="?"/>`) + `</link>`),
		"addresses of one interface":            request(`<node client_id="a"><interface client_id="x">` + many(n, `<ip address="10.0.0.1"/>`) + `</interface></node>`),
		"different addresses":                   request(`<node client_id="a"><interface client_id="x">` + numbered(n, `<ip address="fd00::#"/>`) + `</interface></node>`),
		"networks that never meet":              request(numbered(n/20, `<node client_id="n#"><interface client_id="i#"><ip address="fd00:#::1"/></interface></node>`) + `<link client_id="l">` + numbered(n/20, `<interface_ref client_id="i#"/>`) + `</link>`),
		"the same address everywhere":           request(numbered(n/20, `<node client_id="n#"><interface client_id="i#"><ip address="fd00::1"/></interface></node>`) + `<link client_id="l">` + numbered(n/20, `<interface_ref client_id="i#"/>`) + `</link>`),
		"many link types":                       request(node + `<link client_id="l"><interface_ref client_id="x"/>` + many(n, `<link_type name="odd"/>`) + `</link>`),
		"many managers":                         request(node + `<link client_id="l">` + many(n, `<component_manager name="`+them+`"/>`) + `</link>`),
		"many shared VLANs":                     request(node + `<link client_id="l" xmlns:v="` + sharedVLANSpace + `"><interface_ref client_id="x"/>` + numbered(n, `<v:link_shared_vlan name="#"/>`) + `</link>`),
		"many metrics":                          request(`<node client_id="a"><m:monitoring xmlns:m="` + monitoringSpace + `" enabled="1">` + numbered(n, `<m:metric id="#"/>`) + `</m:monitoring></node>`),
		"a giant attribute":                     request(`<node client_id="` + many(4*n, "é") + `" exclusive="` + many(4*n, "\t") + `" component_id="` + many(4*n, "%s") + `"/>`),
		"a giant attribute before problems":     request(`<link a="` + many(20*n, "x") + `"/>` + many(100, `<node exclusive="?"/>`)),
		"steps with all properties":             prepared("", numbered(200, `<s:parameter name="p#" value="x"/>`)+`</services></node>`+numbered(n/200, `<node client_id="n#"><services>`+many(200, `<s:step>YQ==</s:step>`)+`</services></node>`)+`<node client_id="last"><services>`),
		"many relations":                        prepared(numbered(200, `<s:parameter name="p#" value=""/>`), numbered(200, `<s:parameter name="q#" value=""/>`)+many(200, `<execute shell="sh" command="a"><s:relation client_id="db"/></execute>`)),
		"relations with mistakes":               request(numbered(n/400, `<node client_id="n#"><services>`+many(200, `<execute shell="sh" command="a"><relation xmlns="`+setupSpace+`" client_id="?"/></execute>`)+`</services></node>`)),
		"many parameters":                       prepared("", `<execute shell="sh" command="a">`+numbered(n, `<s:parameter name="p#" value=""/>`)+`</execute>`),
		"many files":                            withArtifact(`xml:base="http://h/"><t:ArtifactReferences>`+numbered(200, `<t:ArtifactReference reference="f#"/>`)+`</t:ArtifactReferences>`, numbered(n/200, `</services></node><node client_id="n#"><services>`+many(100, `<execute s:artifact="a"><b:ScriptArtifactProperties><b:ScriptLanguage>sh</b:ScriptLanguage><b:PrimaryScript>f199</b:PrimaryScript></b:ScriptArtifactProperties></execute>`))),
		"many accounts":                         withArtifact(`><t:Properties><b:ArchiveArtifactProperties><b:ArchiveInformation><b:UserMap>`+numbered(1000, `<b:User name="u#" id="#"/>`)+`</b:UserMap></b:ArchiveInformation></b:ArchiveArtifactProperties></t:Properties><t:ArtifactReferences><t:ArtifactReference reference="a"/></t:ArtifactReferences>`, numbered(n/200, `</services></node><node client_id="n#"><services>`+many(150, `<install url="http://h/a" install_path="/x" s:artifact="a"/>`))),
		"a long base":                           withArtifact(`xml:base="http://h/`+many(n, "x")+`"><t:ArtifactReferences>`+many(n, `<t:ArtifactReference reference="f"/>`)+`</t:ArtifactReferences>`, `<execute s:artifact="a"/>`),
		"many archives":                         withArtifact(">", `<install url="http://h/a"><b:ArchiveArtifactProperties>`+numbered(n, `<b:ArchiveInformation archiveReference="#"/>`)+`</b:ArchiveArtifactProperties></install>`),
		"many segments":                         withArtifact(">", `<install url="http://h/a"><b:ArchiveArtifactProperties><b:ArchiveInformation><b:ContentSourceLocation path="/`+many(200, "x/")+`">`+many(n, `<b:Segment name="/x"/>`)+`</b:ContentSourceLocation></b:ArchiveInformation></b:ArchiveArtifactProperties></install>`),
		"many templates":                        withArtifact(">", `</services></node>`+many(n, `<t:ArtifactTemplate id="a"/>`)+`<node client_id="m"><services>`),
		"deep":                                  request(many(200, `<x>`) + node + many(200, `</x>`)),
		"many attributes under many namespaces": request(`<x` + spaces + `><x` + spaces + `>` + many(n, `<p0:x p0:a="" p1:a="" p2:a=""/>`) + `</x></x>`),
		"deep and wide":                         request(many(n/240, many(200, `<x>`)+many(200, `</x>`))),
	}
}

func TestHostileRequestsAreAnsweredShortly(t *testing.T) {
	for name, text := range hostile(20_000) {
		r, list := Check(text, ours())
		if len(list) > maxProblems+maxRemarks {
			t.Errorf("%s: %d problems", name, len(list))
		}
		for _, p := range list {
			if s := p.String(); len(s) > 2000 || strings.ContainsAny(s, "\r\n") {
				t.Errorf("%s: %d bytes: %.200q", name, len(s), s)
			}
		}
		if _, err := ParseRequest(text, ours()); (err == nil) != (r != nil) || err != nil && len(err.Error()) > 5000 {
			t.Errorf("%s: %.200v", name, err)
		}
	}
}
