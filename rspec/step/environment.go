package step

import (
	"errors"
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
	"NODE_CLIENT_ID", "NODE_HOSTNAME", "SLIVER_URN", "SLICE_URN",
}

// allNodes is the variable of a step with Again that has the host names of all nodes.
const allNodes = "SLICE_NODES"

// nodeVariables name the node that a step runs on. With a prefix, they name the nodes of a relation.
var nodeVariables = []string{"NODE_CLIENT_ID", "NODE_HOSTNAME", "SLIVER_URN"}

// CheckNames checks that the parameters of the step become different variables. It fails for the first one
// that has no name, or whose variable the step has anyway or gets from another parameter, and returns its index.
// The parameters of source are the properties of the step's node, those of target the properties
// of the node that a relation names. CheckNames does not check source and target.
func (r *Requested) CheckNames(source, target []Parameter) (at int, err error) {
	seen := map[string]string{}
	add := func(prefix string, list []Parameter) {
		for _, p := range list {
			seen[prefix+Variable(p.Name)] = prefix + p.Name
		}
	}
	taken := slices.Clone(reserved)
	if r.Again {
		taken = append(taken, allNodes)
	}
	if r.Relation == nil {
		add("", source)
	} else {
		for _, v := range nodeVariables {
			taken = append(taken, sourcePrefix+v, targetPrefix+v)
		}
		add(sourcePrefix, source)
		add(targetPrefix, target)
	}
	for i, p := range r.Parameters {
		v := Variable(p.Name)
		switch was, again := seen[v]; {
		case v == "":
			return i, errors.New("a parameter has no name")
		case slices.Contains(taken, v):
			return i, fmt.Errorf("the parameter %.80q would replace the variable %s, which the step has anyway", p.Name, v)
		case slices.ContainsFunc(r.Parameters[:i], func(q Parameter) bool { return q.Name == p.Name }):
			return i, fmt.Errorf("the parameter %.80q is given twice", was)
		case again:
			return i, fmt.Errorf("the parameters %.80q and %.80q both become the variable %.80s", was, p.Name, v)
		}
		seen[v] = p.Name
	}
	return 0, nil
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
