package provider

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// MissingMetadata compares the metadata in the file NAME.yaml at path with text, the metadata of
// this version. It returns a text with the missing lines. It returns "" if nothing is missing, or
// if the file cannot be read or has no metadata. An older file still works, but the manager does
// not use attributes that the file does not declare.
func MissingMetadata(path, text string) string {
	b, err := readMetadataFile(path)
	var is struct{ Provider map[string]any }
	if err != nil || yaml.Unmarshal(b, &is) != nil || is.Provider == nil {
		return ""
	}
	attributes, _ := is.Provider["attributes"].(map[string]any)
	var provider, below []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		indent := len(line) - len(strings.TrimLeft(line, " "))
		key, _, ok := strings.Cut(line[indent:], ":")
		switch {
		case !ok || key == "attributes" || key == "desc":
		case indent == 2 && is.Provider[key] == nil:
			provider = append(provider, line)
		case indent == 4 && attributes[key] == nil:
			below = append(below, line)
		}
	}
	var all []string
	if len(provider) > 0 {
		all = append(all, "below provider: "+quoted(provider))
	}
	if len(below) > 0 {
		all = append(all, "below attributes: "+quoted(below))
	}
	if len(all) == 0 {
		return ""
	}
	return "it was written for an earlier version, and nodes do not get attributes that it does not declare; add " + strings.Join(all, ", and ")
}

// quoted quotes lines that must be copied exactly, with their indentation.
func quoted(lines []string) string { return "`" + strings.Join(lines, "`, `") + "`" }
