// Package gateway is the SSH server in front of all nodes, in a process without
// rights. It runs in a process of its own, under its own user id, without
// capabilities, under seccomp: everything it uses is handed to it by the Manager,
// which starts it again when it dies.
//
// The Manager (in "up", as root) holds the endpoints and the listeners; connections
// wait in their queues while a gateway is replaced. The gateway asks it for
// connections to agents and to the addresses of other providers' nodes, and gets
// none to what has no endpoint. When the Manager ends the gateway stops accepting,
// lets open sessions go on, and ends with the last of them.
//
// Whoever connects is hostile: connections that have not logged in, logins,
// serveChannels, requests and unread data are bounded, and whoever fills the room
// pushes out themselves. Accounts are as good as each other inside their node, and
// nothing outside it.
//
// # Decisions
//
//   - open files: the gateway opens none. up opens agents, addresses and listeners, so that a
//     captured gateway reaches nothing else: [Manager.connect].
//   - unread data: 48 MB for a slice and 128 MB in all; beyond that the connection with the most
//     is closed: [maxUnread].
//   - proof of a login: it uses the endpoint's own listener, and a key that only the gateway
//     process knows: [Manager.VerifyLogin].
//   - hanging gateway: it is killed after 10 s, and the next one gets all endpoints:
//     [Manager.SetEndpoint].
//   - time to log in: 20 s, and 2 min after a right key was offered, because its owner may have to
//     unlock it: [unlockTime].
package gateway
