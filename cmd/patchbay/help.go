package main

import (
	"strings"

	"patchbay/cmd/patchbay/authority"
	"patchbay/cmd/patchbay/command"
	"patchbay/cmd/patchbay/document"
	"patchbay/cmd/patchbay/experimenter"
	"patchbay/cmd/patchbay/operator"
	"patchbay/cmd/patchbay/site"
)

type group struct {
	id, title string
	commands  []command.Command
}

// groups returns all commands, in the order in which help lists their groups.
func groups() []group {
	return []group{
		{"experimenter", "For experimenters:", experimenter.Commands()},
		{"site", "To set up and maintain a site:", site.Commands()},
		{"operations", "To operate a site:", operator.Commands()},
		{"authority", "Users and slices of the trial authority:", authority.Commands()},
		{"documents", "Documents:", append(document.Commands(), command.Command{Use: "guide [TOPIC]", Short: "Read a guide", Long: guideLong, Options: &guideOptions{}, Arguments: command.SomeOf(guideTopics()...), Example: `  patchbay guide
  patchbay guide experimenter`})},
		{"", "", []command.Command{{Use: "version", Short: "Print the version", Options: &versionOptions{}, Arguments: command.SomeOf()}}},
	}
}

// helpTemplate returns the template of a command's help. It begins with the first paragraph
// of the description. The other paragraphs follow the examples.
func helpTemplate(description string) string {
	first, rest, _ := strings.Cut(description, "\n\n")
	if rest != "" {
		rest = "\n" + rest + "\n"
	}
	return first + `

Usage:
  {{.UseLine}}{{if .HasAvailableLocalFlags}} [flags]{{end}}

Examples:
{{.Example}}
` + rest + `
Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}
`
}

const patternsLong = `The syntax of PATTERN and TIME in commands that list.

A PATTERN is a name or a URN, in which * stands for any text and ? for one character. A
name without * and ? must exist. Separate several patterns by spaces or commas. Components
may be ranges such as pc1..pc4. Slivers are named SLICE/CLIENT_ID.

A TIME is written 2030-01-31T12:00:00Z, with its zone, or is a duration from now such as
2h or 3d. For --since, --from and --until of lists it is a duration before now. These
commands print times in UTC. calendar, up, extend and call also take and print times in
your time zone; see: patchbay help up.`
