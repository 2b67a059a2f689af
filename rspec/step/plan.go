package step

import (
	"cmp"
	"slices"
	"strings"
)

// Configure is one more operation of a requested step: like Install, it comes with the first start,
// but after all installs of its stage. Plan orders the steps by these two, and clears them.
const Configure = "configure"

// MaxStage is the highest stage.
const MaxStage = 99

// Services are the steps of one node, in document order, with the node's properties.
type Services struct {
	Properties []Parameter
	Steps      []Requested
}

// DiskSize returns the MiB of all disks.
func (s *Services) DiskSize() (mib int64) {
	for i := range s.Steps {
		mib += s.Steps[i].Size
	}
	return mib
}

// OfKind returns the steps of one kind, in document order.
func (s *Services) OfKind(kind string) (list []Step) {
	for _, r := range s.Steps {
		if r.Kind == kind {
			list = append(list, r.Step)
		}
	}
	return list
}

// Requested is a step as a request has it. Its Operation may also be Install or Configure.
type Requested struct {
	Step
	Parameters []Parameter
	// Relation is nil for a step that is about its node alone.
	Relation *Relation
	// IsPlaybook means that Script is an Ansible playbook. Plan replaces it by a script that plays
	// it.
	IsPlaybook bool
}

// Relation makes an Execute know another node.
type Relation struct {
	// ClientID is the name of the other node, the target.
	ClientID string
	// OnTarget makes the step run on the target instead of the node that has it, the source.
	OnTarget bool
}

// Parameter is a named value for scripts.
type Parameter struct{ Name, Value string }

// Node is one node of a plan.
type Node struct {
	ClientID, Hostname, SliverURN string
	Services                      *Services
}

// Plan returns the steps of each node, in the order in which the node does them: first the plan by
// stages, and in each stage disks, user data, installs, executes of the operation Install, other
// executes, and those of Start; then the steps for Stop, and those for Uninstall. Steps that are
// alike in this stay in document order.
//
// The services must be correct, as package rspec checks them: each relation names one of the nodes,
// and no two names of parameters become the same variable.
//
// Playbooks must have all nodes; nil leaves steps with a playbook as they are, for Outline.
func Plan(sliceURN string, nodes []Node, playbooks *Playbooks) [][]Step {
	byName := map[string]int{}
	all := make([]string, len(nodes))
	for i := range nodes {
		byName[nodes[i].ClientID], all[i] = i, nodes[i].Hostname
	}
	names := strings.Join(all, " ")
	requested := make([][]Requested, len(nodes))
	for i := range nodes {
		for _, r := range nodes[i].Services.Steps { // r is a copy: the request stays as it is
			on := i // the node that runs the step
			if r.Kind == Execute {
				var target *Node
				if r.Relation != nil {
					n := byName[r.Relation.ClientID]
					if target = &nodes[n]; r.Relation.OnTarget {
						on = n
					}
				}
				if !r.IsPlain() || target != nil || len(r.Parameters)+len(nodes[i].Services.Properties) > 0 {
					r.Environment = environment(sliceURN, &nodes[i], target, &nodes[on], r.Parameters)
					if r.Again {
						r.Environment[allNodes] = names
					}
				}
			}
			if r.IsPlaybook && playbooks != nil {
				playbooks.prepare(&r.Step, &nodes[on])
			}
			requested[on] = append(requested[on], r)
		}
	}
	plan := make([][]Step, len(nodes))
	for i, list := range requested {
		slices.SortStableFunc(list, func(a, b Requested) int {
			return cmp.Or(cmp.Compare(a.part(), b.part()), cmp.Compare(a.Stage, b.Stage), cmp.Compare(a.class(), b.class()))
		})
		for _, r := range list {
			if r.Operation == Install || r.Operation == Configure {
				r.Operation = ""
			}
			plan[i] = append(plan[i], r.Step)
		}
	}
	return plan
}

// part returns -1 for a step of the plan, which comes first, and a higher number for one of a later event.
func (r *Requested) part() int { return slices.Index([]string{Stop, Uninstall}, r.Operation) }

// class returns the place of the step's kind and operation in the order within a stage.
func (r *Requested) class() int {
	switch {
	case r.Operation == Start:
		return 5
	case r.Kind == Execute && r.Operation == Install:
		return 3
	case r.Kind == Execute:
		return 4
	}
	return slices.Index([]string{Disk, UserData, Install}, r.Kind)
}
