package site

import (
	"bytes"
	_ "embed"
	"fmt"
	"strings"
	"text/template"
)

//go:embed patchbay.yaml
var configTemplateText string

var configTemplate = template.Must(template.New(ConfigName).Delims("[[", "]]").Parse(configTemplateText))

// ConfigText is the patchbay.yaml of a new site.
func ConfigText(authority, listen, publicURL string) []byte {
	var b bytes.Buffer
	if err := configTemplate.Execute(&b, map[string]string{
		"Authority": yamlString(authority), "Listen": yamlString(listen), "PublicURL": yamlString(publicURL),
	}); err != nil {
		panic(err) // the template is ours
	}
	return b.Bytes()
}

// yamlString quotes s, which holds no control characters, where YAML asks for it.
func yamlString(s string) string {
	if s == "" || strings.ContainsAny(s, ":#{}[],&*?|<>=!%@`'\" \\") || strings.Trim(s, "0123456789.-_") == "" {
		return fmt.Sprintf("%q", s)
	}
	return s
}
