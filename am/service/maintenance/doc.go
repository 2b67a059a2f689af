// Package maintenance reads and changes the file of lockdown, maintenance windows
// and components out of service. Operators' orders change this file, and operators may edit it:
//
//	lockdown:
//	  text: the power will be cut
//	  since: 2030-01-31T08:00:00Z
//	planned:
//	  - components: [pc1..pc4, big1]
//	    from: 2030-02-01T08:00:00Z
//	    until: 2030-02-01T12:00:00Z
//	    text: new disks
//	drained:
//	  - components: [pc7]
//	    text: the fan is loud
//	    since: 2030-01-31T08:00:00Z
//	    by: root
//
// During a Lockdown the site accepts no new work. A Window applies from its start to its end,
// to its components or to the whole site. No sliver is placed there during the window, and a
// lease that is granted before it ends when it starts. A Drain applies until it is removed:
// its components keep their slivers and take no new ones. Running slivers always continue.
//
// A Plan never changes after it is read, so it may be used concurrently. The package reads
// no clock; the time is an argument. Edits of the file keep its comments and the order of
// its entries.
//
// # Decisions
//
//   - broken file: the last valid content stays in force. A server that starts with a broken file
//     is locked down, but still manages running slivers: [patchbay/am/site.maintenanceFile].
package maintenance
