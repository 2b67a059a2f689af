// Package site opens, serves, reloads and closes one site: everything that the server
// does and no command does. It also reads the site's configuration, and gives commands
// the way to a site, whether it is served or not.
//
//	config*.go, hooks.go     patchbay.yaml: keys, defaults, validation
//	statefile.go, clock.go   the store and the clock, of a served site or not
//	adminclient.go           AdminClient: a served site by its socket, else its files
//	site.go, open.go         Site, and Open: the openers in order
//	run.go                   serve, watch, stop, Close
//	reload.go                take over a changed inventory
//	trust.go, policyfile.go,
//	upkeep.go                files that are read again when they change
//	adminsocket.go           the admin socket: who may ask
//	doors.go                 what is answered there
//	testbed.go, nodelock.go  local testbeds that live as long as the site is served
package site
