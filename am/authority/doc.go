// Package authority serves a trial authority: a registry of services, a slice authority
// and a member authority.
//
// An Authority has the keys (package credentials/trial) and the state in authority.db: members,
// their SSH keys, slices, projects, what clients report about slivers, and invitations. A Service
// answers calls about it. The operator's commands reach the Authority of a served site through
// the site's admin socket.
//
//	/ch/2, /ch/1                service registry     Federation API
//	/sa/2, /sa/1                slice authority      Federation API
//	/ma/2, /ma/1                member authority     Federation API
//	/protogeni/xmlrpc/sa        slice authority      ProtoGENI
//
// Others wait for a transaction, so a lookup only copies records in it, and decodes and compares them
// later; indexes (index.go) find the records of a member, a project or a slice. The database has these
// buckets; \0 separates the parts of a key, and URNs are in the form of urn.URN.Key:
//
//	members            URN              Member
//	keys               id               Key
//	slices             URN              Slice
//	certificates       slice            DER
//	projects           URN              Project
//	slivers            slice \0 sliver   SliverInfo
//	invitations        hash of the code Invitation
//	memberships        member \0 slice or project   role, and * if accepted
//	keys_of_member     member \0 id
//	slices_of_project  project \0 slice
//	ends               slice            its end
//	slices_by_end      end \0 slice
//	slivers_of_member  creator \0 slice \0 sliver
//	links              hash of the secret   access
//	sessions           hash of the secret   access
//	feeds              hash of the secret   access
//	access_of_owner    member, or operator \0 name; then \0 links, sessions or feeds \0 hash of the secret
//	requests           project          the request for its members
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
// Members and operators see the site's pages by a session, which a link begins once (session.go). The secret link of a
// member's calendar feed needs no session (feed.go).
//
// # Decisions
//
//   - slices are never deleted or shortened before their end, since credentials are valid until
//     then, and a new slice of that name would accept them: [Slice].
//   - a member's name and email are visible to those who share a slice or project that the member
//     has accepted. The API has no call for that, so the first work in it counts: [Membership].
//   - the names of removed members are not given again, for the same reason: [Member].
//   - those who teach a project that an operator has created are ADMIN of each slice of it while they teach it. So they
//     see and help its nodes with a credential, as any partner does, and no student takes that away: [Class].
//   - the LEAD of such a project may sign in the students whom the operator has put into it, since students lose
//     their links during a lesson: [Authority.LinkFor].
//   - the request of a project has a bucket of its own, and a lookup returns it only if the option
//     filter names it, since it has up to 1 MiB: [Authority.SetRequest].
package authority
