package testbed

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"patchbay/inventory/local/setup"
)

// How a node may end while a step runs in it.
const (
	cutRestart = "restarted" // as asked
	cutOff     = "stopped"   // as asked
	cutDeath   = "died"
	cutAway    = "away"
)

// cut notes how the node ends, or has ended, with the step that runs in it. The
// first word stands: what ends later does not end the step. It is not tried
// again, for nodes must stop also on a full disk.
func (s *services) cut(how string) {
	if s == nil {
		return
	}
	for i, step := range s.journal.Steps {
		if step.State == setup.Running && step.Cut == "" {
			once, cancel := context.WithCancel(context.Background())
			cancel()
			s.note(once, func(j *journal) { j.Steps[i].Cut = how })
			return
		}
	}
}

// outcome is what came of the step, by the report of the node. There, all ends of
// nodes look alike.
func (s service) outcome(r setup.Report) setup.Report {
	asked := s.Cut == cutRestart || s.Cut == cutOff
	// Its shell may have been faster than the node.
	halted := asked && (r.Exit == 128+int(unix.SIGTERM) || r.Exit == 128+int(unix.SIGKILL))
	if r.State != setup.Failed || r.Message != setup.Interrupted && !halted {
		return r
	}
	switch {
	case asked && s.Kind == setup.Execute:
		r.State, r.Exit, r.Message = setup.Done, 0, fmt.Sprintf("it ended with the node, which was %s", s.Cut)
	case asked:
		r.Message = fmt.Sprintf("interrupted: the node was %s while it ran", s.Cut)
	case s.Cut == cutDeath:
		r.Message = "interrupted: the system of the node ended while it ran, and nobody had asked the testbed for that"
	case s.Cut == cutAway:
		r.Message = "interrupted: the node ended while the testbed did not look, as when its host boots"
	}
	return r
}

// waiting says what a step waits for, if it waits for one that runs.
func (j *journal) waiting() string {
	for i, step := range j.Steps {
		switch {
		case step.State == setup.Running && step.Cut == "":
			return fmt.Sprintf("waits for step %d, which still runs", i+1)
		case !step.Ended():
			return ""
		}
	}
	return ""
}
