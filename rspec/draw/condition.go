package draw

import "strings"

// condition is the state of a node as the drawing tells it: by a word, and by
// a mark of its own shape and colour.
type condition int

const (
	unknown condition = iota
	ready
	busy
	resting
	failed
)

// conditionOf reads the state words of aggregates: those of the AM API and
// those that ExoGENI and Emulab write.
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
		return resting
	case s == "provisioned", strings.Contains(s, "ing"), strings.Contains(s, "pending"), s == "ticketed", s == "uncompleted", s == "changing":
		return busy
	}
	return unknown
}

// stateWord is a state as people say it.
func stateWord(state string) string {
	return strings.ReplaceAll(strings.TrimPrefix(clean(state, 40), "geni_"), "_", " ")
}
