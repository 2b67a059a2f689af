package compile

import (
	"bytes"
	"fmt"
	"regexp"

	"patchbay/rspec"
)

// foreign are languages that are recognized, to say what to do instead.
var foreign = []struct {
	language string
	begins   *regexp.Regexp
	what     string
	remedy   string
}{
	{"hot", key("heat_template_version"), "a template of OpenStack Heat (HOT)", servers},
	{"cloudformation", key("AWSTemplateFormatVersion"), "a template of AWS CloudFormation", servers},
	{"tosca", key("tosca_definitions_version"), "a TOSCA service template", servers},
	{"camp", key("camp_version"), "a CAMP plan", servers},
	{"tosca", regexp.MustCompile(`^(<\?[^>]*>|<!--[^>]*-->|\s)*<([A-Za-z0-9_.-]+:)?(Definitions|ServiceTemplate)[\s>]`), "a document of TOSCA definitions", "write each node as <node> of a request RSpec, and put ArtifactTemplate elements into its <rspec>; see: patchbay guide setup"},
}

const servers = "write its servers as a blueprint or in RADL; see: patchbay guide blueprint"

// key finds a key at the top of a YAML or JSON document.
func key(name string) *regexp.Regexp {
	return regexp.MustCompile(`(?m)^(\{[ \t\r\n]*|[ \t]+)?["']?` + name + `["']?[ \t]*:`)
}

// IsForeign reports whether a text is in a language that Compile recognizes and refuses.
func IsForeign(text []byte) bool { return foreignLanguage(text) != "" }

// foreignLanguage returns the name of another language; empty if the text seems to be in none.
func foreignLanguage(text []byte) string {
	for _, f := range foreign {
		if f.begins.Match(text[:min(len(text), 64<<10)]) {
			return f.language
		}
	}
	return ""
}

// refuseForeign returns nil if the language is not known here.
func refuseForeign(language string, text []byte) []rspec.Problem {
	for _, f := range foreign {
		if at := f.begins.FindIndex(text[:min(len(text), 64<<10)]); f.language == language && at != nil {
			return []rspec.Problem{{Kind: rspec.BadArgs, Line: 1 + bytes.Count(text[:at[1]], []byte("\n")), Column: 1, Msg: fmt.Sprintf("this is %s, which Patchbay does not read", f.what), Remedy: f.remedy}}
		}
	}
	return nil
}
