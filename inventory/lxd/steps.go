package lxd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"patchbay/inventory/local/setup"
	"patchbay/inventory/lxd/inside"
)

// runSteps runs the steps of a node's setup that have not ended, one after the other. The journal
// says that a step runs before it begins, so a step never begins twice.
func (w *worker) runSteps(ctx context.Context, id string) {
	name := instanceName(id)
	for lost := 0; ctx.Err() == nil; {
		i, err := w.client.instance(ctx, name)
		if err == nil && (i == nil || i.node() == nil) {
			return
		}
		k := -1
		if err == nil {
			if k = openStep(i); k < 0 {
				return
			}
			err = w.runStep(ctx, i, k)
		}
		if err == nil {
			lost = 0
			continue
		}
		if ctx.Err() != nil {
			return
		}
		w.logf("%s: step %d: %v", id, k+1, err)
		if lost++; lost >= maxLost && k >= 0 {
			w.endStep(ctx, i, k, setup.Report{State: setup.Failed, Exit: 255, Message: "the node does not report the result of the step: " + oneLine(err.Error())})
			lost = 0
		}
		pause(ctx, time.Second)
	}
}

// stepTimeout bounds one call for a step. A step that takes longer is waited for again.
const stepTimeout = time.Hour

// maxLost is the number of attempts to learn the result of a step.
const maxLost = 20

// runStep starts the step k, unless it was started, and waits for its end.
func (w *worker) runStep(ctx context.Context, i *instance, k int) error {
	n := i.node()
	reports := journal(i)
	if k >= len(reports) || reports[k].State == setup.Waiting {
		steps, err := n.steps()
		if err != nil {
			w.endStep(ctx, i, k, setup.Report{State: setup.Failed, Exit: 255, Message: oneLine(err.Error())})
			return nil
		}
		accounts, err := n.accounts()
		if err != nil {
			return err
		}
		order := setup.Assignment{Step: steps[k]}
		if len(accounts) > 0 {
			order.Account = accounts[0].Login
		}
		text, err := json.Marshal(order)
		if err != nil {
			return err
		}
		if err := w.client.push(ctx, i.Name, inside.StepFile(k+1), "file", "0600", text); err != nil {
			return err
		}
		if err := w.saveStep(ctx, i, k, setup.Report{State: setup.Running, BeganAt: time.Now()}); err != nil {
			return err
		}
		if _, err := w.client.exec(ctx, i.Name, stepTimeout, "step", strconv.Itoa(k+1)); err != nil {
			return err
		}
	}
	output, err := w.client.exec(ctx, i.Name, stepTimeout, "result", strconv.Itoa(k+1))
	if err != nil {
		return err
	}
	var last setup.Report
	if err := setup.ReadReports(bytes.NewReader(output), func(r setup.Report) { last = r }); err != nil {
		return err
	}
	switch {
	case last.Ended():
		return w.endStep(ctx, i, k, last)
	case last.State == setup.Waiting:
		return w.endStep(ctx, i, k, setup.Report{State: setup.Failed, Exit: 255, Message: "it was not started, or the node lost its state of the step"})
	}
	return errors.New("the step still runs")
}

func (w *worker) endStep(ctx context.Context, i *instance, k int, r setup.Report) error {
	r.Progress = ""
	return w.saveStep(ctx, i, k, r)
}

// saveStep writes the report of step k into the journal.
func (w *worker) saveStep(ctx context.Context, i *instance, k int, r setup.Report) error {
	reports := journal(i)
	for len(reports) <= k {
		reports = append(reports, setup.Report{State: setup.Waiting})
	}
	reports[k] = r
	text, err := json.Marshal(reports)
	if err != nil {
		return err
	}
	if err := w.client.patch(ctx, i.Name, map[string]string{keySteps: string(text)}, nil); err != nil {
		return fmt.Errorf("its journal cannot be saved: %w", err)
	}
	if i.Config == nil {
		i.Config = map[string]string{}
	}
	i.Config[keySteps] = string(text)
	return nil
}
