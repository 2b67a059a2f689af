package steprunner

import (
	"cmp"
	"fmt"
	"slices"

	"patchbay/inventory/node/setup"
)

// MaxEver bounds the steps of a node together with those that changes of its setup have dropped.
const MaxEver = 4 * MaxSteps

// dropped is the Operation of a step that the setup does not have any more. It stays in the journal,
// because the node knows steps by their numbers.
const dropped = "dropped"

func (j *Journal) comesBefore(i, k int) bool {
	return cmp.Or(cmp.Compare(j.Steps[i].Place, j.Steps[k].Place), cmp.Compare(i, k)) < 0
}

// order returns the indexes of the steps that are not dropped, in their order.
func (j *Journal) order() (list []int) {
	for i := range j.Steps {
		if j.Steps[i].Operation != dropped {
			list = append(list, i)
		}
	}
	slices.SortStableFunc(list, func(a, b int) int { return cmp.Compare(j.Steps[a].Place, j.Steps[b].Place) })
	return list
}

// change replaces the setup. For each step of the new setup, from has the index in order of the same step,
// or -1 for a new step. The new steps are appended in the order of added. Steps of the old setup that are
// not in the new one stay in the journal as dropped; a running one must end.
func (j *Journal) change(from []int, added []setup.Step) {
	order, kept := j.order(), map[int]int{}
	for place, was := range from {
		if was >= 0 {
			kept[order[was]] = place + 1
		}
	}
	for _, i := range order {
		s := &j.Steps[i]
		if s.Place = kept[i]; s.Place == 0 {
			s.Operation, s.Ending, s.Again = dropped, s.State == setup.Running, false
		}
	}
	for place, was := range from {
		if was < 0 {
			n := NewJournal(added[:1], 0).Steps[0]
			n.Place, added = place+1, added[1:]
			j.Steps = append(j.Steps, n)
		}
	}
}

// checkSize fails if the journal would have too many steps with the added ones.
func (j *Journal) checkSize(added []setup.Step) error {
	if n := len(j.Steps) + len(added); n > MaxEver {
		return fmt.Errorf("the setup of the node has changed too often: it would have had %d steps, and %d are possible", n, MaxEver)
	}
	return nil
}

// ChangeSteps is as that of a Runner, for a journal that no Runner uses.
func (j *Journal) ChangeSteps(from []int, added []setup.Step, stage int) error {
	if err := j.checkSize(added); err != nil {
		return err
	}
	j.change(from, added)
	j.SetStage(stage)
	return nil
}

// Current returns the indexes of the steps of the setup, in its order.
func (j *Journal) Current() []int { return j.order() }

// ChangeSteps replaces the steps of the node, as change does, and allows those up to a stage. The node
// must have the assignments of the added ones already. Steps that run and are dropped are ended.
func (r *Runner) ChangeSteps(from []int, added []setup.Step, stage int) error {
	if err := r.Journal().checkSize(added); err != nil {
		return err
	}
	return r.allow(func(j *Journal) {
		j.change(from, added)
		j.SetStage(stage)
	})
}

// Current returns the indexes of the steps of the setup, in its order.
func (r *Runner) Current() []int { return r.Journal().order() }
