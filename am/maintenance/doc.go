// Package maintenance reads and changes the file of lockdown, maintenance windows
// and components out of service. What it says stands in one file, which commands
// write and operators may edit:
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
// A Lockdown counts while it is there: nothing new is begun anywhere. A Window
// counts from its beginning to its end, for its components or the whole site:
// nobody gets a sliver there, and leases that are given before end when it
// begins. A Drain counts while it is there: its components keep the slivers they
// have and take no new ones. What runs already goes on in all.
//
// A Plan is read once and never changes, so that it may be asked from anywhere;
// the time is always an argument. Editing a file leaves its comments and the
// order of its entries alone.
//
// # Decisions
//
//   - broken file: the last good content stays in force. At a start the site is locked down,
//     because running slivers still need care: [patchbay/am/site.upkeep].
package maintenance
