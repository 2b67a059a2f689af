// Package hoststate compares in tests the processes, mounts, devices and files of
// the host before and after.
//
//	before, err := hoststate.Take(hoststate.Options{Only: []string{instance, dir}, Roots: []string{dir}})
//	…
//	hoststate.Await(t, before, 5*time.Second)
//
// Tests of several packages run at the same time. So Options.Only has marks,
// which are parts of the names of the test's own things. A thing counts if it bears such a
// mark, if the test process started it, or if no test may leave it on a host: a mount in the
// host's table (except pins of namespaces and mounts in the folder for temporary files), or
// an interface in the host's network (except one whose alias names another owner).
//
// A namespace that no process is in, no descriptor holds and no mount keeps cannot be found.
//
// Only tests import it. It needs root, and Linux.
package hoststate
