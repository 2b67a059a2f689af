// Package session opens what an experimenter's command works with: the aggregate, the user, and
// the slices with their files in the user's folder.
//
//	Selection ── Target ─> Target    the aggregate and the user that a command line means
//	    └─────── Open ───> Session   also serves the user's own site, and creates users
//	                          └── OpenSlice ─> Slice   with fresh credentials, for the calls
//
// A Caller has the certificate, the keys and the credentials that a call needs. An Authority is
// the server where a user has logged in, and which issues credentials.
//
// The package prints nothing but messages about what it waits for or creates. It defines no flags,
// but its errors name those of cmd/patchbay.
package session
