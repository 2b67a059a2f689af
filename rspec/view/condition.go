package view

import "strings"

// Condition classifies the states of slivers.
type Condition int

// The conditions of a node. Idle is a node that does not run, Busy one whose state will change.
const (
	Unknown Condition = iota
	Ready
	Busy
	Idle
	Failed
)

// ConditionOf maps a state word to a Condition. It knows the words of the AM API
// and those of ExoGENI and Emulab.
func ConditionOf(state string) Condition {
	s := strings.ToLower(strings.TrimSpace(state))
	s = strings.TrimPrefix(s, "geni_")
	switch {
	case s == "":
		return Unknown
	case strings.Contains(s, "fail"), strings.Contains(s, "error"):
		return Failed
	case s == "ready", s == "active", s == "started", s == "up":
		return Ready
	case s == "notready", s == "stopped", s == "unallocated", s == "allocated", s == "reserved", s == "closed", s == "shutdown":
		return Idle
	case s == "provisioned", strings.Contains(s, "ing"), strings.Contains(s, "pending"), s == "ticketed", s == "uncompleted", s == "changing":
		return Busy
	}
	return Unknown
}
