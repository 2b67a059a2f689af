// Package site opens, serves, reloads and closes one site. It also reads the site's
// configuration, and gives operators' commands access to a site, whether it is served or
// not. It parses no command line; the packages of cmd/patchbay do.
//
//	config*.go, hooks.go     patchbay.yaml: keys, defaults, validation
//	statefile.go, clock.go   the store and the clock, of a served site or not
//	adminclient.go           AdminClient: operators' requests, sent to the admin socket
//	unserved.go              or answered in this process, if the site is not served
//	site.go, open.go         Site, and Open: the openers in order
//	run.go                   serve, watch, stop, Close
//	reload.go                replace the inventory by a changed one
//	orphans.go               drain and remove orphans; lockdown after a restore
//	trust.go, policyfile.go,
//	maintenancefile.go       files that are read again when they change
//	adminsocket.go           the admin socket: only root and the server's user
//	endpoints.go             the handlers of the admin socket
//	maintenanceorder.go,
//	authorityorder.go        orders that also work without a server
//	authority.go             the trial authority of the site
//	providers.go             the providers of the site, opened when they appear
//	preview.go, library.go   compile sources for the site, and preview requests without its store
//	found.go                 the inventory, with what providers have found
//	metrics.go,
//	remotemetrics.go         numbers for monitors
//	serverprocess.go         the process that serves the site
//	companion*.go, nodelock.go  services of providers, which run while the site is served
//
// # Decisions
//
//   - mistakes at a reload: all are reported and nothing changes: [Site.Run].
//   - restored site: it reserves nothing until every provider has reported its resources, at most
//     30 s, because a machine may be in use since the backup: [restoredWait].
//   - two servers for the same nodes: a lock on the folder of providers prevents them, and the
//     local testbed refuses the provider of another site: [lockProviders].
//   - root serves another user's site: hooks and providers run as that user, and as root, the
//     server starts only programs in the folder of its own executable:
//     [Companion.trustedCommand].
//   - service that the inventory no longer uses: it runs until no sliver uses it:
//     [retirePause].
//   - missing store: a new one is made only if neither audit nor copies show that there was one:
//     [Config.OpenState].
package site
