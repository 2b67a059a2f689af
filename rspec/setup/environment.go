package setup

import (
	"fmt"
	"slices"
	"strings"
)

// Prefixes of the variables of a step with a relation.
const (
	sourcePrefix = "SOURCE_"
	targetPrefix = "TARGET_"
)

// Variable returns the name of the environment variable for a parameter: every character that is
// not an ASCII letter, digit or underscore becomes an underscore, and a leading digit gets one in
// front.
func Variable(parameter string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '_'
	}, parameter)
	if name != "" && name[0] >= '0' && name[0] <= '9' {
		name = "_" + name
	}
	return name
}

// reserved are the variables that every step has.
var reserved = []string{
	"HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "PWD",
	"NODE_CLIENT_ID", "NODE_HOSTNAME", "SLICE_URN", "SLIVER_URN",
}

// CheckNames fails if a name is empty, if it becomes a variable that every step has, or if two
// names become the same variable.
func CheckNames(names []string) error {
	seen := map[string]string{}
	for _, name := range names {
		v := Variable(name)
		switch was, again := seen[v]; {
		case v == "":
			return fmt.Errorf("a parameter has no name")
		case slices.Contains(reserved, v):
			return fmt.Errorf("the parameter %.80q would replace the variable %s, which every step has", name, v)
		case again:
			return fmt.Errorf("the parameters %.80q and %.80q both become the variable %.80s", was, name, v)
		}
		seen[v] = name
	}
	return nil
}

// environment returns the variables of a step: those that name the node it runs on; without a
// target the properties of its node and its own parameters; with a target its own parameters, the
// source's variables with sourcePrefix, and the target's with targetPrefix.
func environment(sliceURN string, source, target, on *Node, own []Parameter) map[string]string {
	e := map[string]string{"SLICE_URN": sliceURN}
	add := func(prefix string, list []Parameter) {
		for _, p := range list {
			e[prefix+Variable(p.Name)] = p.Value
		}
	}
	name := func(prefix string, n *Node) {
		e[prefix+"NODE_CLIENT_ID"], e[prefix+"NODE_HOSTNAME"], e[prefix+"SLIVER_URN"] = n.ClientID, n.Hostname, n.SliverURN
	}
	name("", on)
	if target == nil {
		add("", source.Services.Properties)
	} else {
		add(sourcePrefix, source.Services.Properties)
		name(sourcePrefix, source)
		add(targetPrefix, target.Services.Properties)
		name(targetPrefix, target)
	}
	add("", own)
	return e
}
