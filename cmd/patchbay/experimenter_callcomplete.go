package main

import (
	"maps"
	"slices"
	"strings"
)

// completeArguments completes the method, then its first argument: actions, or file names for a
// request.
func (o *callOptions) completeArguments(x *completion) ([]string, bool) {
	api := 3
	if o.API == 2 {
		api = 2
	}
	if len(x.args) == 0 {
		words := slices.Sorted(maps.Keys(shapes[api]))
		if api == 3 {
			words = append(words, actionVerbs...)
		}
		return words, true
	}
	method, _ := methodOf(api, x.args[0], nil)
	params := shapes[api][method].params
	switch {
	case strings.Contains(params, "r") && len(x.args) == 1:
		return nil, false
	case strings.Contains(params, "a") && method == x.args[0] && len(x.args) == 1:
		return actionVerbs, true
	}
	return nil, true
}

// flagWords completes --slice with the slices of the users of --user.
func (o *callOptions) flagWords() map[string]completer {
	return map[string]completer{"slice": func(x *completion) ([]string, bool) { return x.slicesOf(o.Users) }}
}
