package draw

import "strings"

type condition int

const (
	unknown condition = iota
	ready
	busy
	idle
	failed
)

// conditionOf maps a state word to a condition. It knows the words of the AM API
// and those of ExoGENI and Emulab.
func conditionOf(state string) condition {
	s := strings.ToLower(strings.TrimSpace(state))
	s = strings.TrimPrefix(s, "geni_")
	switch {
	case s == "":
		return unknown
	case strings.Contains(s, "fail"), strings.Contains(s, "error"):
		return failed
	case s == "ready", s == "active", s == "started", s == "up":
		return ready
	case s == "notready", s == "stopped", s == "unallocated", s == "allocated", s == "closed", s == "shutdown":
		return idle
	case s == "provisioned", strings.Contains(s, "ing"), strings.Contains(s, "pending"), s == "ticketed", s == "uncompleted", s == "changing":
		return busy
	}
	return unknown
}

// stateWord returns a state without its prefix, with blanks for underscores.
func stateWord(state string) string {
	return strings.ReplaceAll(strings.TrimPrefix(clean(state, 40), "geni_"), "_", " ")
}
