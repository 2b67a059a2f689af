// Package hoststate compares the processes, mounts, devices and files of the host
// before and after a test.
//
//	before, err := hoststate.Take(hoststate.Options{Only: []string{instance, dir}, Roots: []string{dir}})
//	…
//	hoststate.Await(t, before, 5*time.Second)
//
// Tests of several packages run at the same time. So Options.Only has marks: texts that
// occur in the names of the test's own objects. An object belongs to the state if it has
// such a mark or if the test process started it. Two kinds of object always belong to the
// state, because no test may leave them on a host:
//
//   - a mount in the host's mount namespace, except pins of namespaces and mounts in the
//     folder for temporary files
//   - an interface in the host's network namespace, except one whose alias names another
//     owner
//
// A namespace without a process, an open descriptor and a mount cannot be found. Sockets are not
// listed: they end with their processes, and their files are listed.
//
// Only tests import it. It needs root, and Linux.
package hoststate
