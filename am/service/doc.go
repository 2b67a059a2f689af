// Package service implements the methods of the aggregate manager in Go terms. A
// method of the API about slices takes a Grant, decides on the store's data, commits, and returns
// an Outcome. ManifestOf, Inspect and Preview are for the site itself: they take no Grant, and only
// read.
//
// A method stores the desired state of slivers (Desired, Generation) and a task, and
// wakes the runner. The runner stores the results, and Status and Describe read only the
// store. A method never waits for a provider, with one exception: a provider may want a
// dry run before a reservation is confirmed (Prober). A decision never waits.
//
//	Grant, Targets ─ resolve ─> slivers ─ am.Next, binder.Bind ─> ChangeSet ─> CommitFor ─> Outcome
//
// SetInventory replaces the inventory between two writes. A decision that has seen the older inventory
// runs again, so each change depends on one inventory. The record of a sliver keeps what was reserved,
// even if the inventory changes later.
//
// No method acts on a sliver before Grant.Over has confirmed the right to its slice; most
// methods call it in resolve. A file holds one method, or two similar ones. These have more files:
//
//	allocate.go                Allocate and CreateSliver: attempt, its parts and its decision
//	expand.go, definitions.go  the templates of the request
//	held.go, newsliver.go      what the slice has already, and the new slivers
//	setup.go, playbook.go      the steps of the slivers
//	dryrun.go, inplace.go      the dry run, and changes of existing nodes
//	ahead.go, begin.go         reservations that begin later, and their start
//	beside.go, quota.go        until when slivers can stay, beside reservations and under quotas
//	aheadlimit.go              limits of what has not begun
//	search.go                  when there is room for a refused request
//	notices.go, wishes.go      notices in the answer
//	resolve.go, change.go      for methods that change slivers: which ones a call names, and the
//	                           change of all of them or none
//
// The package implements AM API v3, "API operations".
//
// # Decisions
//
//   - memory of parsed requests: all callers share one budget, and one caller gets a part of it.
//     A call that would exceed either gets SERVERBUSY before anything changes: [Memory].
//   - refused requests: the ends of what is held are tried as starts, first by counts, since a site may hold thousands. The
//     search is outside of the commit, one at a time, and limited in time: [search].
//   - templates: they are compiled outside of the decision, for the slice's revision; if another call
//     changes the slice, they are compiled again, so that names are numbered on: [attempt.expand].
//   - templates that deploy nothing: the document is kept with the slice, without slivers, until the
//     credential ends: [attempt.define].
//   - requests of one slice: together they have the limits of one request, so that Describe can
//     always answer: [Service.ManifestOf].
//   - decisions of calls: they run outside of the commit, for which others wait; the commit checks that
//     nothing has changed on which they rest: [patchbay/am/store.Store.CommitFor].
//   - SSH keys: a slice has at most 4 MiB of them, because every record and manifest repeats them:
//     [maxKeyBytes].
//   - reservations that begin later: one site has at most 20,000 slivers that have not begun, and a project as many as the
//     configuration says, because decisions read all of them: [maxAhead].
//   - quotas and later ends: the rule is that of the user who reserved the sliver, who may be another than the
//     caller. All slivers of a call count together: [Service.limitEnd].
//   - repeated renewals: the journal joins them in one entry with a count; the audit has a line
//     for each: [joinRepeated].
//   - new inventory with less capacity than slivers use: the slivers stay, and their components
//     take no new slivers until there is room again: [Service.SetInventory].
//   - name of a component with slivers: no other component may get it, because providers know
//     machines by name: [patchbay/inventory.CheckClash].
package service
