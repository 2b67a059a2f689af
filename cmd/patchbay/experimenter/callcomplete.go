package experimenter

import (
	"maps"
	"slices"
	"strings"

	"patchbay/cmd/patchbay/command"
)

// completeArguments completes the method, then its first argument: actions, or file names for a
// request.
func (o *callOptions) completeArguments(x *command.Completion) ([]string, bool) {
	api := 3
	if o.API == 2 {
		api = 2
	}
	if len(x.Args) == 0 {
		words := slices.Sorted(maps.Keys(shapes[api]))
		if api == 3 {
			words = append(words, actionVerbs...)
		}
		return words, true
	}
	method, _ := methodOf(api, x.Args[0], nil)
	params := shapes[api][method].params
	switch {
	case strings.Contains(params, "r") && len(x.Args) == 1:
		return nil, false
	case strings.Contains(params, "a") && method == x.Args[0] && len(x.Args) == 1:
		return actionVerbs, true
	}
	return nil, true
}

// FlagWords completes --slice with the slices of the users of --user.
func (o *callOptions) FlagWords() map[string]command.Completer {
	return map[string]command.Completer{"slice": func(x *command.Completion) ([]string, bool) { return x.SlicesOf(o.Users) }}
}
