// Package hoststate compares in tests the processes, mounts, devices and files of
// the host before and after.
//
//	before, err := hoststate.Take(hoststate.Options{Only: []string{instance, dir}, Roots: []string{dir}})
//	…
//	hoststate.Await(t, before, 5*time.Second)
//
// Tests of several packages run at the same time. So Options.Only lists parts of names that
// only this test uses. An item is compared if its name contains one of them, if the test
// process started it, or if no test may leave it on a host: a mount in the
// host's table (except pins of namespaces and mounts in the folder for temporary files), or
// an interface in the host's network (except one whose alias names another owner).
//
// It cannot find a namespace that has no process, no open descriptor and no mount.
//
// Only tests import it. It needs root, and Linux.
package hoststate
