package simulated

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"time"

	"patchbay/inventory/provider"
)

// patience is the maximal time by which execute steps delay a node's readiness.
const patience = 30 * time.Second

const (
	install = "install"
	execute = "execute"
)

type step struct {
	Kind  string        `json:"kind"`
	Lasts time.Duration `json:"lasts"`
	Exit  int           `json:"exit,omitempty"`
	Fails string        `json:"fails,omitempty"`
}

// steps chooses the duration and the result of each step. Invalid items fail, and so do items
// whose URL or command contains "fail". The result misbehaves reports whether a step is
// configured to be slow or to fail.
func (s *settings) steps(items []string, h history, r *rand.Rand) (all []step, misbehaves bool) {
	for _, item := range items {
		var asked struct{ Kind, URL, Command string }
		x := step{Kind: execute}
		if json.Unmarshal([]byte(item), &asked) != nil {
			x.Exit, x.Fails = 1, "it cannot be read"
		}
		op := opExecute
		if asked.Kind == install {
			x.Kind, op = install, opInstall
		}
		b, _ := s.configuredBehaviour(h, op)
		x.Lasts = s.duration(r, b, op)
		misbehaves = misbehaves || b == slow || b == fail
		switch {
		case x.Fails != "" || b != fail && !strings.Contains(asked.URL+asked.Command, "fail"):
		case op == opInstall:
			x.Exit, x.Fails = 1, "the archive cannot be fetched; this failure is simulated"
		default:
			x.Exit, x.Fails = 1, "it ended with status 1; this failure is simulated"
		}
		all = append(all, x)
	}
	return all, misbehaves
}

// scheduleSteps is called when the node is first switched on. The steps start at n.ReadyAt.
// scheduleSteps then delays n.ReadyAt by the duration of all install steps. It delays
// n.ReadyAt further by the duration of all execute steps, but at most by patience.
func (n *node) scheduleSteps() {
	if len(n.Steps) == 0 || !n.StepsAt.IsZero() || n.Power != provider.On || n.Fails != "" {
		return
	}
	n.StepsAt = n.ReadyAt
	commands := time.Duration(0)
	for _, x := range n.Steps {
		if x.Kind == install {
			n.ReadyAt = n.ReadyAt.Add(x.Lasts)
		} else {
			commands += x.Lasts
		}
	}
	n.ReadyAt = n.ReadyAt.Add(min(commands, patience))
}

// report is one item of the attribute "services".
type report struct {
	Kind    string `json:"kind"`
	State   string `json:"state"`
	Exit    int    `json:"exit"`
	Message string `json:"message,omitempty"`
	Output  string `json:"output,omitempty"`
}

// services returns the reports on the steps. The result doing is the activity of the running
// step, or "".
func (n *node) services(now time.Time) (items []string, doing string) {
	at := n.StepsAt
	for _, x := range n.Steps {
		r := report{Kind: x.Kind, State: "waiting"}
		end := at.Add(x.Lasts)
		switch {
		case n.StepsAt.IsZero() || now.Before(at):
		case now.Before(end):
			r.State, doing = "running", map[string]string{install: "installing", execute: "executing"}[x.Kind]
		case x.Fails != "":
			r.State, r.Exit, r.Message = "failed", x.Exit, x.Fails
		default:
			r.State, r.Output = "done", "nothing was done: this node is simulated\n"
		}
		at = end
		b, err := json.Marshal(r)
		if err != nil {
			panic(err) // only text and numbers
		}
		items = append(items, string(b))
	}
	return items, doing
}
