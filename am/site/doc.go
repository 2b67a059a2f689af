// Package site opens, serves, reloads and closes one site: everything that the server
// does and no command does. It also reads the site's configuration, and gives commands
// the way to a site, whether it is served or not.
//
//	config*.go, hooks.go        patchbay.yaml: keys, defaults, validation
//	open.go, site*.go           Open: the openers in order; Close
//	run.go, siteserve.go        serve, watch, stop
//	reload*.go, inforce.go      take over a changed inventory
//	trust.go, policyfile.go,    files that are read again when they change
//	upkeep*.go
//	adminsocket.go, doors.go    the admin socket, and what it answers
//	adminclient.go, adminhttp.go  AdminClient: a served site by its socket, else its files
//	testbed*.go, nodelock.go    local testbeds that live as long as the site is served
package site
