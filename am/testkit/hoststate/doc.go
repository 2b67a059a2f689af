// Package hoststate compares in tests the processes, mounts, devices and files of
// the host before and after.
//
//	before, err := hoststate.Take(hoststate.Options{Only: []string{instance, dir}, Roots: []string{dir}})
//	…
//	hoststate.Await(t, before, 5*time.Second)
//
// Tests of several packages run at the same time. So Options.Only says what the
// test's own things are called: a thing is the test's if it bears such a mark,
// if the test process started it, or if it is of a kind that no test may leave
// on a host: a mount in the host's table (but a namespace's pin, or one in the
// folder for temporary files), or an interface in the host's network (but one whose
// alias names somebody else).
//
// What nothing shows cannot be told: a namespace that no process is in, no
// descriptor holds and no mount keeps.
//
// Only tests import it. It needs root, and Linux.
package hoststate
