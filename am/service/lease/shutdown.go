package lease

import (
	"patchbay/am"
	"patchbay/am/store"
)

// Shutdown adds to cs the changes that shut down the slice rec, which has the live slivers. The caller sets
// who shut it down. Its nodes are stopped and kept, and no lease ends. request is the id of the call, for the
// log. It fails with an *am.Error if am.Next refuses the event.
func Shutdown(v *store.View, cs *store.ChangeSet, rec am.Slice, live []am.Sliver, request string) error {
	rec.Shutdown, rec.Serial = v.Now().UTC(), rec.Serial+1
	cs.PutSlice(rec)
	for _, x := range live {
		status, err := am.Next(x.Status, am.EventShutdown)
		if err != nil {
			return err
		}
		if status != x.Status || x.Desired.On {
			goal := am.GoalStop
			if x.Status.Operational == am.PendingAllocation {
				goal = am.GoalMake // the provider still creates the sliver, but does not start it
			}
			x.Generation++
			cs.PutTask(am.Task{Sliver: x.URN, Generation: x.Generation, Goal: goal, Since: v.Now().UTC(), Request: request})
		}
		x.Status, x.Desired.On, x.Frozen = status, false, true
		cs.PutSliver(x)
	}
	return nil
}
