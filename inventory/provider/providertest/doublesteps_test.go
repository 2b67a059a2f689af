package providertest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// doubleStep is a step of a node of the double, with its last run.
type doubleStep struct {
	Kind, Operation, Command string
	Item                     string // of setup
	Stage                    int
	State                    string
	Exit, Runs               int
}

type doubleSteps []*doubleStep

// stepsOf returns the steps that keepIn has stored in a node.
func stepsOf(n object) (all doubleSteps) {
	text, _ := n["steps"].(string)
	_ = json.Unmarshal([]byte(text), &all) // fails for a node without steps
	return all
}

func (all doubleSteps) keepIn(n object) {
	text, err := json.Marshal(all)
	if err != nil {
		panic(err) // only text and numbers
	}
	n["steps"] = string(text)
}

// doSteps runs the steps that an update of the node old to n begins or ends, or returns why not.
func (d *double) doSteps(u asked, old, n object) object {
	all := stepsOf(n)
	before, _ := strconv.Atoi(fmt.Sprint(old["setup_stage"])) // 0 if it has none
	now, _ := strconv.Atoi(fmt.Sprint(n["setup_stage"]))
	if items, ok := u.Should["setup"].([]any); ok && old == nil {
		for _, item := range items {
			x := &doubleStep{State: "waiting", Item: item.(string)}
			if json.Unmarshal([]byte(item.(string)), x) != nil {
				return refusal(u.Name, "failed", "a step cannot be read")
			}
			if e := d.refuseStep(u.Name, x); e != nil {
				return e
			}
			all = append(all, x)
		}
		if before = -1; d.is("begins early") {
			now = 1
		}
	}
	if items, ok := u.Should["setup"].([]any); ok && old != nil && u.Should["change_serial"] != nil {
		all = d.changeSteps(all, items)
	}
	if now < before && !d.is("ignores a fall") {
		for _, x := range all {
			if x.State == "running" && x.Stage > now {
				x.State, x.Exit = "failed", 143
			}
		}
	}
	d.runStages(all, before, now)
	if u.Should["power"] == "off" && !d.is("never stops") {
		for _, x := range all {
			if x.Operation == "stop" {
				x.run(0)
			}
		}
	}
	all.keepIn(n)
	if d.is("reports stage 0") {
		n["setup_stage"] = "0"
	}
	return nil
}

// changeSteps returns the steps that the items are after a change in place.
func (d *double) changeSteps(all doubleSteps, items []any) (next doubleSteps) {
	if d.is("keeps the order") {
		return all
	}
	for _, item := range items {
		i := slices.IndexFunc(all, func(x *doubleStep) bool { return x.Item == item })
		x := &doubleStep{State: "waiting", Kind: "execute", Item: item.(string)}
		if i >= 0 {
			x = all[i]
		}
		if i < 0 && !d.is("adds no step") || x.Item == succeeds && d.is("runs it again") {
			x.run(0)
		}
		next = append(next, x)
	}
	return next
}

func (d *double) refuseStep(name string, x *doubleStep) object {
	switch {
	case x.Kind != "execute" && d.is("refuses kinds"):
		return refusal(name, "failed", "there is no such kind")
	case x.Kind != "execute" && !d.is("accepts kinds"):
		return refusal(name, "unsupported", "there is no such kind")
	case x.Operation != "" && d.is("no operations"):
		return refusal(name, "unsupported", "there are no operations")
	case x.Operation != "" && d.is("refuses operations"):
		return refusal(name, "failed", "there are no operations")
	}
	return nil
}

// runStages runs the steps of the stages above the one before.
func (d *double) runStages(all doubleSteps, before, now int) {
	failed := map[int]bool{}
	for _, x := range all {
		repeats := x.State == "failed" && !d.is("repeats nothing") || x.State == "done" && (d.is("repeats") || d.is("repeats quietly"))
		if x.Operation != "" || x.Stage <= before || x.Stage > now || x.Stage > 0 && d.is("begins nothing") ||
			x.State != "waiting" && !repeats || x.Stage > 0 && failed[x.Stage] && !d.is("goes on") {
			continue
		}
		switch first := x.Runs == 0; {
		case strings.HasPrefix(x.Command, "sleep"):
			x.run(0)
			x.State = "running"
		case strings.HasPrefix(x.Command, "mkdir") && !first && !d.is("repeats quietly"):
			x.run(1)
		case strings.HasPrefix(x.Command, "[ -e") && first, strings.HasPrefix(x.Command, "exit 7"):
			x.run(7)
		default:
			x.run(0)
		}
		failed[x.Stage] = x.State == "failed"
	}
}

func (x *doubleStep) run(exit int) {
	x.Runs++
	if x.State, x.Exit = "done", exit; exit != 0 {
		x.State = "failed"
	}
}

// reportSteps replaces the steps of a node by the reports on them.
func (d *double) reportSteps(n object) {
	reports := []string{}
	for _, x := range stepsOf(n) {
		switch {
		case d.is("good services") && x.Item == fails:
			x.State, x.Exit = "done", 0
		case d.is("bad services") && x.Item == succeeds:
			x.State, x.Exit = "failed", 7
		}
		r := object{"kind": x.Kind, "state": x.State, "exit": x.Exit}
		if x.Runs > 0 {
			r["began"] = time.Date(2030, 1, 2, 3, 4, x.Runs, 0, time.UTC)
		}
		text, err := json.Marshal(r)
		if err != nil {
			panic(err) // only text, numbers and a time
		}
		reports = append(reports, string(text))
	}
	delete(n, "steps")
	if d.is("no services") {
		return
	}
	if len(reports) > 1 {
		switch d.fault {
		case "few services":
			reports = reports[:1]
		case "odd services":
			reports[0] = `{"kind":"execute","state":"well"}`
		case "mixed services":
			reports[0] = `{"kind":"install","state":"done"}`
		case "endless services":
			reports[1] = `{"kind":"execute","state":"running"}`
		}
	}
	n["services"] = reports
}
