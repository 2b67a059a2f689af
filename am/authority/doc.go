// Package authority serves a trial authority: a registry of services, a slice authority
// and a member authority.
//
// An Authority has the keys (package credentials/trial) and the state in authority.db: members,
// their SSH keys, slices, projects, what clients report about slivers, and invitations. A Service
// answers calls about it. The operator's commands use the same Authority while the site is
// served.
//
//	/ch/2, /ch/1                service registry     Federation API
//	/sa/2, /sa/1                slice authority      Federation API
//	/ma/2, /ma/1                member authority     Federation API
//	/protogeni/xmlrpc/sa        slice authority      ProtoGENI
//
// The tables in method.go list the methods. Version 1 has other names for the functions of
// version 2. An object (object.go) is a table of fields, which also makes get_version, and
// functions that list, create, update and delete its records. The table in right.go says who may
// do what.
//
// A caller is known by their TLS certificate, which must be the one that the authority has issued.
// Credentials of a call only matter if a tool speaks for a user. Anybody may call get_version and
// the registry. A new member shows a self-signed certificate and an invitation, and the member
// authority certifies that key.
//
// It implements the Common Federation API, versions 1 and 2, and the slice authority of
// ProtoGENI.
//
// # Decisions
//
//   - the database is opened for each transaction: so commands change it while the site is served,
//     without a protocol between them: [Authority].
//   - slices are never deleted or shortened, since credentials are valid until the end of their
//     slice, and a new slice of that name would accept them: [Slice].
//   - the names of removed members are not given again, for the same reason: [Member].
package authority
