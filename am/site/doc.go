// Package site opens, serves, reloads and closes one site. It also reads the site's
// configuration, and gives operators' commands access to a site, whether it is served or
// not. It parses no command line; package main of cmd/patchbay does.
//
//	config*.go, hooks.go     patchbay.yaml: keys, defaults, validation
//	statefile.go, clock.go   the store and the clock, of a served site or not
//	adminclient.go           AdminClient: a served site by its socket, else its files
//	site.go, open.go         Site, and Open: the openers in order
//	run.go                   serve, watch, stop, Close
//	reload.go                put a changed inventory in force
//	orphans.go               drain and remove orphans; lockdown after a restore
//	trust.go, policyfile.go,
//	upkeep.go                files that are read again when they change
//	adminsocket.go           the admin socket: only root and the server's user
//	endpoints.go             what the admin socket answers
//	testbed.go, nodelock.go  local testbeds that run while the site is served
//
// # Decisions
//
//   - inventory, providers or policy with a mistake at reload: nothing changes, and all mistakes
//     are reported: [Site.Run].
//   - a restored site: no new reservations until every provider has reported what exists, at most
//     30 s, because a released machine may be in use: [restoredWait].
//   - two servers for the same nodes: a lock on the folder of providers and one beside the socket
//     of patchbay-local up: [lockProviders].
//   - a site that root serves for another user: hooks and providers run as that user; root starts
//     only programs beside its own: [Testbed.trustedCommand].
//   - local testbeds that the configuration no longer names: run until no sliver uses them:
//     [retirePause].
//   - a lost store: a missing file is made anew only if neither audit nor copies show that there
//     was one: [Config.OpenState].
package site
